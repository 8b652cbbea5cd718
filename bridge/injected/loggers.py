"""The standard library's logging, as far as cells changed it."""

from __future__ import annotations

import io
import logging
import operator
from typing import Any

from .items import Item


def _keeps_records(handler: logging.Handler) -> bool:
    """Whether a log message may change what this handler holds in memory."""
    stream = getattr(handler, "stream", None)
    own = type(handler).__module__ == "__main__" or hasattr(handler, "buffer")
    return own or isinstance(stream, (io.StringIO, io.BytesIO)) or type(stream).__module__ == "__main__"


_SETTINGS = operator.attrgetter("level", "propagate", "disabled")
_HANDLERS = operator.attrgetter("handlers")
_FRESH: tuple[Any, ...] = (logging.NOTSET, True, False, [])


class Logging(Item):
    """Level, handlers, propagation and disabling of the loggers that differ from those of a kernel just started."""

    def __init__(self) -> None:
        super().__init__("logging")
        self._start = {name: self._of(logger) for name, logger in self._loggers().items()}
        self._entered: list[Any] = []  # what the manager had when `_listed` was made from it
        self._listed: list[logging.Logger] = []
        self._settings: Any = None  # those of the loggers, as they were when `_now` was made
        self._now: dict[str, tuple[Any, ...]] = {}

    @staticmethod
    def _loggers() -> dict[str, logging.Logger]:
        found = {
            name: logger
            for name, logger in list(logging.root.manager.loggerDict.items())
            if isinstance(logger, logging.Logger)
        }
        found[""] = logging.root
        return found

    @staticmethod
    def _of(logger: logging.Logger) -> tuple[Any, ...]:
        return logger.level, logger.propagate, logger.disabled, list(logger.handlers)

    def probe(self) -> Any:
        entered = list(logging.root.manager.loggerDict.values())
        if entered != self._entered:
            self._entered, self._listed = entered, list(self._loggers().values())
        listed = self._listed
        settings = list(map(_SETTINGS, listed)), list(map(list, map(_HANDLERS, listed)))
        if settings != self._settings:
            self._settings, self._now = settings, self.get()
        # A handler that keeps records is changed by every message, and by no cell that names it.
        keeps = any(_keeps_records(handler) for *_, handlers in self._now.values() for handler in handlers)
        return object() if keeps else self._now

    def get(self) -> dict[str, tuple[Any, ...]]:
        now = {name: self._of(logger) for name, logger in self._loggers().items()}
        return {name: value for name, value in now.items() if value != self._start.get(name, _FRESH)}

    def put(self, value: dict[str, tuple[Any, ...]]) -> None:
        for name in self._loggers().keys() | value.keys():
            logger = logging.getLogger(name) if name else logging.root
            level, propagate, disabled, handlers = value.get(name) or self._start.get(name, _FRESH)
            if self._of(logger) != (level, propagate, disabled, handlers):
                logger.setLevel(level)
                logger.propagate, logger.disabled = propagate, disabled
                logger.handlers[:] = handlers


class Levels(Item):
    """The names of levels that cells gave, and the level up to which all logging is off."""

    def __init__(self) -> None:
        super().__init__("logging.levels")
        self._start = self._names()

    @staticmethod
    def _names() -> dict[int, str]:
        return dict(logging._levelToName)

    def get(self) -> tuple[dict[int, str], int]:
        names = {level: name for level, name in self._names().items() if self._start.get(level) != name}
        return names, logging.root.manager.disable

    def probe(self) -> Any:
        return self._names(), logging.root.manager.disable

    def put(self, value: tuple[dict[int, str], int]) -> None:
        names, disabled = value
        for level in self.get()[0].keys() - names.keys():
            name = logging._levelToName.pop(level)
            logging._nameToLevel.pop(name, None)
            if level in self._start:
                logging.addLevelName(level, self._start[level])
        for level, name in names.items():
            logging.addLevelName(level, name)
        logging.disable(disabled)
