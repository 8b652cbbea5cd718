"""What the command lines have in common: errors of one line, and values that are checked when they are read."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NoReturn, TypeVar

T = TypeVar("T")


class Parser(argparse.ArgumentParser):
    """A parser whose complaint is one line, where argparse would print its usage too."""

    def error(self, message: str) -> NoReturn:
        """The line on standard error, and exit code 2."""
        self.exit(2, f"{self.prog}: {message}\n")


def checked(read: Callable[[str], T]) -> Callable[[str], T]:
    """`read` as argparse wants it: the message of a ValueError is shown."""

    def call(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return call


def as_written(read: Callable[[str], object]) -> Callable[[str], str]:
    """Leaves a value as it was written, once `read` takes it."""

    def call(text: str) -> str:
        checked(read)(text)
        return text

    return call
