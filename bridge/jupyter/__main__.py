"""`python -m bridge.jupyter -f CONNECTION_FILE`: the process that a front end starts as its kernel."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from bridge.arguments import checked
from bridge.errors import BridgeError
from bridge.settings import home_size, memory_size


def main(argv: Sequence[str] | None = None) -> int:
    """Run one bridge kernel to its end; gives the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bridge.jupyter", description="A Jupyter kernel that keeps a state after every cell."
    )
    parser.add_argument("-f", dest="connection_file", type=Path, required=True, metavar="FILE")
    parser.add_argument("--home", type=Path, help="where states are kept (default: in Jupyter's data folder)")
    parser.add_argument(
        "--kernel", metavar="NAME", help="the kernelspec to run cells in (this Python's ipykernel)"
    )
    parser.add_argument(
        "--resume", action="store_true", help="begin with the state in which the notebook was left"
    )
    parser.add_argument(
        "--memory-limit",
        type=checked(memory_size),
        metavar="SIZE",
        help="memory that a kernel may take, such as 4G (no limit)",
    )
    parser.add_argument(
        "--max-home",
        type=checked(home_size),
        metavar="SIZE",
        help="room that the home may take, such as 10G (no limit)",
    )
    arguments = parser.parse_args(argv)
    # Only now: zmq and the store take their time, and `--help` needs neither.
    from bridge.jupyter.app import App

    try:
        app = App(
            arguments.connection_file,
            arguments.home,
            arguments.kernel,
            resume=arguments.resume,
            memory_limit=arguments.memory_limit,
            max_home=arguments.max_home,
        )
    except (BridgeError, OSError, ValueError, KeyError) as error:
        print(f"bridge kernel: {error}", file=sys.stderr)
        return 2

    def on_signal(number: int, frame: FrameType | None) -> None:
        app.on_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, on_signal)
    try:
        app.run()
    except BridgeError as error:
        print(f"bridge kernel: {error}", file=sys.stderr)
        return 1
    finally:
        app.close()
        logging.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
