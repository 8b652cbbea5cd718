"""`jupyter bridge gc`, `export` and `import`: work on a home, beside whatever servers and kernels use it."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tqdm import tqdm

from bridge.arguments import Parser, checked
from bridge.engine.transfer import export_state, import_state
from bridge.errors import BridgeError
from bridge.settings import home_size, retention_from, workspace_name
from bridge.store import session_expiry
from bridge.store.eviction import Evicted
from bridge.store.home import Home, default_path
from bridge.store.sessions import SessionStore
from bridge.store.store import Store
from bridge.store.sweep import STRAYS_AGE, Freed

PROGRAM = "jupyter bridge"
IMPORTED = "imported"
SILENT_SECONDS = 2.0
"""How long work takes before its progress is shown."""


class CommandError(Exception):
    """What was asked for cannot be done; the message is the one line that the user gets to see."""


class Bars:
    """The progress of a command on standard error, a bar for each of its steps once it has taken its time.

    Where standard error is no terminal nothing is shown.
    """

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._started = time.monotonic()
        self._what = ""
        self._bar: Any = None

    def __call__(self, what: str, done: int, total: int) -> None:
        if what != self._what:
            self.close()
            silent = max(0.0, SILENT_SECONDS - (time.monotonic() - self._started))
            self._what = what
            self._bar = tqdm(
                desc=what,
                total=total,
                delay=silent,
                disable=None,  # where there is no terminal
                leave=False,
                unit=self._unit,
                unit_scale=self._unit == "B",
                unit_divisor=1024,
            )
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()


@contextmanager
def _bars(unit: str) -> Iterator[Bars]:
    made = Bars(unit)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def _opened(given: argparse.Namespace, *, create: bool = False) -> Iterator[Store]:
    """The store of the home that was named, without housekeeping of its own."""
    path: Path = given.home or default_path(os.environ)
    if not create and not (path / "states.sqlite").exists():
        raise CommandError(f"there is no home at {path}")
    home = Home.open(path)
    store = Store(home, housekeeping=False)
    try:
        yield store
    finally:
        store.close()
        home.close()


# -- the commands


def _gc(given: argparse.Namespace) -> None:
    """Says what it frees, or would free."""
    try:
        retention = retention_from(os.environ)
    except ValueError as error:
        raise CommandError(str(error)) from None
    with _opened(given) as store, _bars("") as bars:
        print(f"{store.home.path}: {_bytes(store.home.size())}")
        now = time.time()
        if given.dry_run:
            files, size = _sessions(store.home, session_expiry.look, retention, now)
            workspaces, freed, evicted = store.preview(now - retention, given.max_home, STRAYS_AGE)
        else:
            files, size = _sessions(store.home, session_expiry.sweep, retention, now)
            workspaces = store.expire_workspaces(retention, now)
            freed = store.collect(strays=STRAYS_AGE, progress=bars)
            evicted = store.evict(given.max_home, progress=bars) if given.max_home is not None else Evicted()
        bars.close()
        for line in _report(workspaces, files, size, freed, evicted, f"{retention / 86400:g} days"):
            print(f"would have {line}" if given.dry_run else line)
        if freed.waiting:
            print(f"{_bytes(freed.waiting)} wait, written in the last minute: a later gc frees them")
        if evicted.over:
            why = "used in the last minute" if evicted.waiting else "labelled or in use"
            print(f"{_bytes(evicted.over)} over {_bytes(given.max_home)} then: what is left is {why}")
        if not given.dry_run:
            print(f"{store.home.path}: {_bytes(store.home.size())}")


def _report(
    workspaces: int, files: int, size: int, freed: Freed, evicted: Evicted, period: str
) -> Iterator[str]:
    if workspaces:
        yield f"removed {_count(workspaces, 'workspace')} unused for {period}"
    if files:
        yield f"removed {_count(files, 'file')} of sessions unused for {period}, {_bytes(size)}"
    yield f"freed {_count(freed.states, 'state')} and {_count(freed.files, 'file')}, {_bytes(freed.bytes)}"
    if evicted.states:
        yield f"evicted {_count(evicted.states, 'state')} used least recently, about {_bytes(evicted.freed)}"


def _sessions(
    home: Home, act: Callable[[SessionStore, float, float], tuple[int, int]], retention: float, now: float
) -> tuple[int, int]:
    sessions = SessionStore(home)
    try:
        return act(sessions, retention, now)
    except OSError as error:
        raise CommandError(f"the files of sessions cannot be swept: {error}") from error
    finally:
        sessions.close()


def _export(given: argparse.Namespace) -> None:
    with _opened(given) as store, _bars("B") as bars:
        size = export_state(store, _workspace(store, given.workspace), given.state, given.file, bars)
        bars.close()
        print(f"{given.state} is in {given.file}, {_bytes(size)}")


def _workspace(store: Store, name: str | None) -> str:
    """The workspace that was named, else the one used last."""
    known = sorted(store.workspaces(), key=lambda space: str(space["used"]))
    if name is not None and name not in {space["name"] for space in known}:
        raise CommandError(f"there is no workspace {name!r}")
    if not known:
        raise CommandError("the home has no workspace yet")
    return name or str(known[-1]["name"])


def _import(given: argparse.Namespace) -> None:
    with _opened(given, create=True) as store, _bars("B") as bars:
        workspace = store.open_workspace(given.workspace)
        name = import_state(store, given.file, workspace, given.name, bars)
        bars.close()
        print(f"{given.file} is the state {workspace}:{name}")


def _bytes(size: float) -> str:
    """A size as people read it: `812.4 MiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.1f} {unit}" if unit != "bytes" else f"{size:.0f} bytes"
        size /= 1024
    return f"{size:.1f} TiB"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


# -- the command line

COMMANDS: dict[str, tuple[Callable[[argparse.Namespace], None], str]] = {
    "gc": (_gc, "Frees what no state needs any more, and removes what nobody used for long."),
    "export": (_export, "Writes a state to a file that another home can take in."),
    "import": (_import, "Takes in a state from a file; nothing is stored of one that is damaged."),
}


def parser(command: str) -> argparse.ArgumentParser:
    """The parser of one of the commands."""
    made = Parser(prog=f"{PROGRAM} {command}", description=COMMANDS[command][1], allow_abbrev=False)
    made.add_argument(
        "--home", type=_path, metavar="DIR", help="the folder of states (default: as for a server)"
    )
    if command == "gc":
        made.add_argument(
            "--max-home",
            type=checked(home_size),
            metavar="SIZE",
            help="evict states until the home is under that size, such as 10G: those used least recently, never "
            "labelled ones or those in use",
        )
        made.add_argument("--dry-run", action="store_true", help="say what would be freed, and free nothing")
    if command == "export":
        made.add_argument("state", metavar="STATE", help="its name, or WORKSPACE:NAME")
        made.add_argument(
            "--workspace", metavar="NAME", help="where the name is (default: the one used last)"
        )
    if command == "import":
        made.add_argument(
            "--workspace",
            type=checked(workspace_name),
            default=IMPORTED,
            metavar="NAME",
            help=f"where it goes (default: {IMPORTED})",
        )
        made.add_argument("--name", metavar="NAME", help="what it is called there (default: as in the file)")
    if command != "gc":
        made.add_argument("file", type=_path, metavar="FILE")
    return made


def _path(text: str) -> Path:
    return Path(text).expanduser().absolute()


def main(command: str, argv: Sequence[str]) -> int:
    """Runs one of the commands; gives the exit code: 2 with one line on standard error for what cannot be done."""
    given = parser(command).parse_args(argv)
    try:
        COMMANDS[command][0](given)
    except (CommandError, BridgeError) as error:
        print(f"{PROGRAM} {command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{PROGRAM} {command}: interrupted; what is stored is whole", file=sys.stderr)
        return 130
    return 0
