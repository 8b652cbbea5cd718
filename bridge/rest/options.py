"""The server's flags: one table that reads and explains them, whichever start form they come from.

`python main.py --pool-size 2` and `python -m bottle … --param pool_size=2 main:app` end here alike. A wrong
value is a UsageError whose message is the one line that the user gets to see.
"""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridge.rest.auth import Access, host_name, origin_text
from bridge.settings import (
    PRELOADED,
    Settings,
    default_pool_size,
    home_size,
    idle_from,
    memory_size,
    retention_from,
    workspace_name,
)

TOKEN_VARIABLE = "BRIDGE_TOKEN"
DEFAULT_BIND = "127.0.0.1:8080"


class UsageError(Exception):
    """A flag's value is wrong; the message is one line and names the flag."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag. `read` turns its text into a value or raises ValueError saying what it must be.

    A `bare` flag stands alone on a command line; a `many` one may be repeated, or be a list with commas.
    """

    name: str
    read: Callable[[str], Any]
    help: str
    metavar: str = ""
    bare: bool = False
    many: bool = False

    @property
    def key(self) -> str:
        """The name as a Python name and as a `--param`."""
        return self.name.replace("-", "_")


@dataclass(frozen=True, slots=True)
class Options:
    """All that a server is started with. `generated` tells that nobody chose the token, so it is printed."""

    host: str
    port: int
    token: str
    generated: bool
    allow_hosts: tuple[str, ...]
    allow_origins: tuple[str, ...]
    settings: Settings

    def access(self, *bound: str) -> Access:
        """Who may enter, the server being bound to the addresses `bound` too."""
        hosts = {self.host.lower(), *(host.lower() for host in bound), *self.allow_hosts}
        return Access(self.token.encode(), frozenset(hosts), frozenset(self.allow_origins))


def _whole(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,15}", text) or int(text) == 0:
        raise ValueError("must be a whole number above 0")
    return int(text)


def _count(text: str) -> int:
    return 0 if text == "0" else _whole(text)


def _modules(text: str) -> tuple[str, ...]:
    names = () if text == "none" else tuple(name.strip() for name in text.split(","))
    if not all(re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", name) for name in names):
        raise ValueError("must be module names with commas between them, or none")
    return names


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ValueError("must be a number of seconds above 0")
    return value


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text


def _path(text: str) -> Path:
    return Path(_text(text)).expanduser().absolute()


def _flag(text: str) -> bool:
    try:
        return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}[text.lower()]
    except KeyError:
        raise ValueError("must be true or false") from None


def _bind(text: str) -> tuple[str, int]:
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:\[\]/]+))(?::([0-9]{1,5}))?", text)
    if found is None or (found[3] and int(found[3]) > 65535):
        raise ValueError("must be HOST:PORT, an IPv6 address in brackets, the port from 0 to 65535")
    host = found[1] or found[2]
    # Bound as `localhost`, a machine with IPv6 would listen on ::1 alone.
    host = "127.0.0.1" if host.lower() == "localhost" else host
    return host, int(found[3]) if found[3] else 8080


def _allowed_host(text: str) -> str:
    name = host_name(text.strip()) if text.count(":") < 2 or "[" in text else host_name(f"[{text.strip()}]")
    if name is None:
        raise ValueError("must be a host name or address")
    return name


def _allowed_origin(text: str) -> str:
    origin = "*" if text.strip() == "*" else origin_text(text)
    if origin is None:
        raise ValueError("must be an origin such as https://notebooks.example, or *")
    return origin


def _kernel(text: str) -> str:
    """An installed kernelspec's name; looked up in files, since jupyter_client takes 0.3 s to import."""
    from jupyter_core.paths import jupyter_path

    folders = [Path(folder) for folder in jupyter_path("kernels")]
    installed = {spec.parent.name.lower() for folder in folders for spec in folder.glob("*/kernel.json")}
    if text.lower() not in installed | {"python3"}:
        known = ", ".join(sorted(installed | {"python3"}))
        raise ValueError(f"must be an installed kernelspec; there are: {known}")
    return text


FLAGS = (
    Flag("bind", _bind, f"where to listen; port 0 takes a free one (default: {DEFAULT_BIND})", "HOST:PORT"),
    Flag(
        "token",
        _text,
        f"what every request must carry (default: ${TOKEN_VARIABLE}, else one is made up and the address "
        "with it is printed)",
        "SECRET",
    ),
    Flag("display-max-rows", _whole, "rows that pandas and polars show of a table (default: 200)", "N"),
    Flag("display-max-columns", _whole, "columns that pandas and polars show of a table (default: 100)", "N"),
    Flag("display-max-colwidth", _whole, "characters shown of one table cell (default: 128)", "N"),
    Flag(
        "home",
        _path,
        "the folder of states and logs (default: $BRIDGE_HOME, $ALBEDO_HOME, else bridge/ in Jupyter's "
        "data folder)",
        "DIR",
    ),
    Flag(
        "workspace",
        workspace_name,
        "the set of state names to open, made when missing; `last` is the one used last (default: a new one)",
        "NAME",
    ),
    Flag("ephemeral", _flag, "use a temporary home that is removed at the end", bare=True),
    Flag("pool-size", _whole, f"cells that run at once (default: the CPU count, {default_pool_size()})", "N"),
    Flag(
        "kernel",
        _kernel,
        "the installed Python kernelspec to run cells in (default: ipykernel in the server's own Python)",
        "NAME",
    ),
    Flag(
        "timeout",
        _seconds,
        "seconds that a cell may run unless its request says otherwise (default: no limit)",
        "SECONDS",
    ),
    Flag(
        "memory-limit",
        memory_size,
        "memory that one kernel may take, such as 4G; beyond it is killed (default: no limit)",
        "SIZE",
    ),
    Flag("no-fork", _flag, "start each kernel by itself, and keep no state as a process", bare=True),
    Flag(
        "preload",
        _modules,
        "modules that new kernels have imported already, with commas, or none "
        f"(default: those of {','.join(PRELOADED)} that there are)",
        "MODULES",
    ),
    Flag("hot-states", _count, "states kept as processes that can be forked (default: 16)", "N"),
    Flag(
        "hot-memory",
        memory_size,
        "memory that these may take together, such as 4G (default: a quarter of the machine's)",
        "SIZE",
    ),
    Flag(
        "max-home",
        home_size,
        "room that the home may take, such as 10G; beyond, the states used least recently go, but for labelled "
        "ones and those in use (default: no limit)",
        "SIZE",
    ),
    Flag(
        "max-output-bytes",
        _whole,
        "stream text kept of one cell; what is beyond is cut (default: 10000000)",
        "N",
    ),
    Flag(
        "allow-host",
        _allowed_host,
        "a further name that clients may call this server by, besides loopback names and the bound address",
        "HOST",
        many=True,
    ),
    Flag(
        "allow-origin",
        _allowed_origin,
        "a web origin whose pages may use this server (CORS), or * for all (default: none)",
        "ORIGIN",
        many=True,
    ),
    Flag("verbose", _flag, "write the log to standard error too", bare=True),
)


def read_options(given: Mapping[str, Any], environ: MutableMapping[str, str]) -> Options:
    """The options that flags mean: by key, texts (True for a bare flag, a list for a repeated one).

    Takes $BRIDGE_TOKEN out of `environ`, so that no kernel inherits it.
    """
    values = {flag.key: _value(flag, given[flag.key]) for flag in FLAGS if given.get(flag.key) is not None}
    from_environment = environ.pop(TOKEN_VARIABLE, "")
    if values.get("ephemeral") and "home" in values:
        raise UsageError("--home and --ephemeral exclude each other")
    host, port = values.pop("bind", None) or _bind(DEFAULT_BIND)
    token = values.pop("token", None) or from_environment
    allow_hosts, allow_origins = values.pop("allow_host", ()), values.pop("allow_origin", ())
    values["fork"] = not values.pop("no_fork", False)
    if "kernel" in values:
        values["kernel_name"] = values.pop("kernel")
    try:
        values["retention"] = retention_from(environ)
        values["idle_seconds"] = idle_from(environ)
    except ValueError as error:
        raise UsageError(str(error)) from None
    secret = token or secrets.token_urlsafe(32)
    return Options(
        host=host,
        port=port,
        token=secret,
        generated=not token,
        allow_hosts=allow_hosts,
        allow_origins=allow_origins,
        settings=Settings(**values, secrets=(secret,)),
    )


def _value(flag: Flag, given: Any) -> Any:
    try:
        if flag.bare:
            return given if isinstance(given, bool) else flag.read(str(given))
        if given is True:
            raise ValueError("needs a value")
        if not flag.many:
            return flag.read(str(given))
        texts = given if isinstance(given, list) else [given]
        return tuple(flag.read(part) for text in texts for part in str(text).split(","))
    except ValueError as error:
        # The value is not repeated: it may be the token.
        raise UsageError(f"--{flag.name} {error}") from None
