"""Starts the server from a checkout: the command line, and the WSGI `app` that bottle can be given."""

import sys

from bridge.cli import bottle_app, main

app = bottle_app()

if __name__ == "__main__":
    sys.exit(main())
