"""The command line in its forms: `jupyter-bridge …`, `python main.py …` (a server alone), and bottle's own."""

from __future__ import annotations

import argparse
import atexit
import os
import sys
from collections.abc import Sequence
from typing import Any

import bottle

from bridge.arguments import Parser
from bridge.rest.app import Site, make_app
from bridge.rest.options import FLAGS, Options, UsageError, read_options
from bridge.rest.process import SiteHolder, open_engine, serve
from bridge.version import VERSION

PROGRAM = "jupyter-bridge"


def parser() -> argparse.ArgumentParser:
    """The command line's parser, made from the table of flags; their values are read by `read_options`."""
    made = Parser(
        prog=PROGRAM,
        description="Runs notebook code in real IPython kernels and keeps a state after every execution.",
        epilog="As a kernel for JupyterLab and its like: jupyter bridge install, uninstall, status. "
        "Of a home: jupyter bridge gc, export, import.",
        allow_abbrev=False,
    )
    made.add_argument("--version", action="version", version=f"{PROGRAM} {VERSION}")
    for flag in FLAGS:
        if flag.bare:
            made.add_argument(f"--{flag.name}", action="store_const", const=True, help=flag.help)
        else:
            action = "append" if flag.many else "store"
            made.add_argument(f"--{flag.name}", action=action, metavar=flag.metavar, help=flag.help)
    return made


def command(argv: Sequence[str] | None = None) -> int:
    """`jupyter-bridge`, which `jupyter bridge` runs: a server, or what its first word names; gives the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    if words and not words[0].startswith("-"):
        from bridge import home_commands  # late: a server starts without these
        from bridge.jupyter import install

        if words[0] in install.COMMANDS:
            return install.main(words[0], words[1:])
        if words[0] in home_commands.COMMANDS:
            return home_commands.main(words[0], words[1:])
    return main(words)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a server until it is told to end; gives the exit code."""
    arguments = vars(parser().parse_args(argv))
    try:
        options = read_options(arguments, os.environ)
    except UsageError as error:
        return _usage(error)
    return serve(options)


def bottle_app() -> bottle.Bottle:
    """The application for `python -m bottle … --server cheroot --param token=SECRET main:app`.

    Bottle's cheroot server is replaced by ours, which reads the parameters and serves as `main` does. Under
    any other WSGI server the first request opens the engine, and the end of the process closes it.
    """
    holder = SiteHolder(lambda: _open_site(app))
    app: bottle.Bottle = make_app(holder.get)

    class CherootServer(bottle.ServerAdapter):  # type: ignore[misc]  # bottle has no types
        def run(self, handler: Any) -> None:
            host = f"[{self.host}]" if ":" in self.host else self.host
            try:
                options = _options_of(handler.config, host, self.port)
            except UsageError as error:
                sys.exit(_usage(error))
            sys.exit(serve(options, handler, holder))

    bottle.server_names["cheroot"] = CherootServer
    return app


def _options_of(config: dict[str, Any], host: str, port: int) -> Options:
    """The options in bottle's parameters, for which `pool_size` and `pool-size` are the same."""
    given = {key.replace("-", "_"): value for key, value in config.items() if key not in _OF_BOTTLE}
    unknown = given.keys() - {flag.key for flag in FLAGS}
    if unknown:
        raise UsageError(f"there is no parameter {sorted(unknown)[0]!r}")
    return read_options({**given, "bind": f"{host}:{port}"}, os.environ)


_OF_BOTTLE = frozenset(bottle.Bottle().config)


def _open_site(app: bottle.Bottle) -> Site:
    options = _options_of(app.config, "127.0.0.1", 0)
    kernel = open_engine(options)
    atexit.register(kernel.close)
    return Site(kernel, options.access())


def _usage(error: UsageError) -> int:
    print(f"{PROGRAM}: {error}", file=sys.stderr)
    return 2
