"""`python -m bridge`: the same as `jupyter-bridge`."""

import sys

from bridge.cli import main

if __name__ == "__main__":
    sys.exit(main())
