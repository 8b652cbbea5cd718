"""`python -m bridge`: the same as `jupyter-bridge`."""

import sys

from bridge.cli import command

if __name__ == "__main__":
    sys.exit(command())
