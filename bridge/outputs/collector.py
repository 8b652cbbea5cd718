"""The outputs of one execution, made from the kernel's iopub messages.

Rules: the Jupyter messaging protocol 5.4 for what a message means, the notebook format 4 for the result's
shape, JupyterLab for what the two leave open (when a delayed clear happens, what an update touches).

Events, for clients that follow a running cell, are the changes one by one, strict JSON each:

    {"event": "output", "output": OUTPUT}
        One more output. A stream's text is what was written, with its control characters, and continues the
        stream output before it if that has the same name. At the limit a marker ends it, and no more comes.
    {"event": "output", "output": OUTPUT, "display_id": ID}
        One more output, which updates may change.
    {"event": "update", "display_id": ID, "data": DATA, "metadata": METADATA}
        All outputs with this id show this now, under whichever cell; an id not shown is ignored.
    {"event": "clear"}
        All outputs of this execution so far are gone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from bridge.outputs.limits import MARKER, Limits, fit_bundle, fit_error, stream_marker
from bridge.outputs.terminal import StreamText
from bridge.outputs.text import escape_surrogates

Output = dict[str, Any]
Event = dict[str, Any]

_DEFAULTS = Limits()


class _Stream:
    """Adjacent writes to one stream."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.written = StreamText()


class Collector:
    """Turns the iopub messages of one execution into nbformat 4 outputs.

    The messages must be of this execution (by parent id) and in the order received. `on_event`, if given, is
    called with each change in the thread that made it, while the collector is locked: it must not wait for
    another thread that uses this collector, and its exceptions reach the caller of `add`. Thread-safe.
    """

    def __init__(self, limits: Limits = _DEFAULTS, on_event: Callable[[Event], None] | None = None) -> None:
        self._limits = limits
        self._on_event = on_event
        self._lock = threading.RLock()
        self._clear_pending = False
        self._reset()

    def add(self, msg: Mapping[str, Any]) -> None:
        """Take in one iopub message, in jupyter_client's form; types that show nothing are ignored."""
        kind = msg["header"]["msg_type"]
        content = msg["content"]
        with self._lock:
            if kind == "stream":
                self._write(content.get("name"), content.get("text"))
            elif kind in ("display_data", "execute_result"):
                self._display(kind, content)
            elif kind == "update_display_data":
                self._update(content)
            elif kind == "error":
                self._append(fit_error(*_error_fields(content), self._limits))
            elif kind == "clear_output":
                self._clear_pending = bool(content.get("wait"))
                if not self._clear_pending:
                    self._clear()

    def outputs(self) -> list[Output]:
        """The outputs so far, valid by `nbformat.validate`. Later messages do not change them."""
        with self._lock:
            shown = (
                self._stream_output(item) if isinstance(item, _Stream) else _copy(item)
                for item in self._items
            )
            return [output for output in shown if output is not None]

    def error_item(self, ename: str, evalue: str, traceback: list[str]) -> None:
        """Make this error the last output: added, or moved there, unless it stands there already.

        The kernel sends most errors on iopub too, but not all (an interrupt before the cell began, a dead
        kernel), and threads may still write after the error.
        """
        error = fit_error(ename, evalue, traceback, self._limits)
        with self._lock:
            last = self._items[-1] if self._items else None
            if isinstance(last, dict) and all(
                last.get(key) == error[key] for key in ("output_type", "ename", "evalue")
            ):
                return
            if error in self._items:
                self._items.remove(error)
                self._items.append(error)
            else:
                self._append(error)

    # ---- what the messages do; all under the lock

    def _reset(self) -> None:
        """Begin with nothing shown."""
        self._items: list[_Stream | Output] = []
        self._by_id: dict[str, list[Output]] = {}
        self._held = 0  # characters shown in streams
        self._dropped = 0  # characters over the limit
        self._cut: _Stream | None = None  # the stream in which the limit was met

    def _clear(self) -> None:
        had_items = bool(self._items)
        self._clear_pending = False
        self._reset()
        if had_items:
            self._emit({"event": "clear"})

    def _write(self, name: Any, text: Any) -> None:
        text = _stream_text(text)
        if not text:
            return
        if self._clear_pending:
            self._clear()
        if self._cut is not None:
            self._dropped += len(text)
            return
        stream = self._stream(name if isinstance(name, str) and name else "stdout")
        before = len(stream.written)
        room = self._limits.stream - self._held
        self._dropped = stream.written.write(text, room)
        self._held += len(stream.written) - before
        if self._dropped:
            self._cut = stream
        if self._on_event is not None:
            # Of a text that is all overwriting the end matters; none may be larger than all that is kept.
            shown = text[:room] + MARKER if self._cut else text[-self._limits.stream :]
            self._emit({"event": "output", "output": _stream_dict(stream.name, shown)})

    def _stream(self, name: str) -> _Stream:
        """The stream item that a write to this stream continues, or a new one."""
        self._drop_blank()
        last = self._items[-1] if self._items else None
        if isinstance(last, _Stream) and last.name == name:
            return last
        stream = _Stream(name)
        self._items.append(stream)
        return stream

    def _drop_blank(self) -> None:
        r"""Remove the last item if it is a stream that shows nothing ("\r" alone): it parts no others."""
        last = self._items[-1] if self._items else None
        if (
            isinstance(last, _Stream)
            and not len(last.written)
            and not last.written.text()
            and last is not self._cut
        ):
            self._items.pop()

    def _display(self, kind: str, content: Mapping[str, Any]) -> None:
        data, metadata = fit_bundle(content.get("data"), content.get("metadata"), self._limits)
        output: Output = {"output_type": kind, "data": data, "metadata": metadata}
        if kind == "execute_result":
            count = content.get("execution_count")
            output["execution_count"] = count if isinstance(count, int) and count >= 0 else None
        self._append(output, _display_id(content))

    def _update(self, content: Mapping[str, Any]) -> None:
        display_id = _display_id(content)
        if display_id is None:
            return
        data, metadata = fit_bundle(content.get("data"), content.get("metadata"), self._limits)
        for output in self._by_id.get(display_id, ()):
            output.update(data=data, metadata=metadata)
        # Also when nothing here changed: a client may show the display under an earlier cell.
        self._emit(
            {"event": "update", "display_id": display_id, "data": dict(data), "metadata": dict(metadata)}
        )

    def _append(self, output: Output, display_id: str | None = None) -> None:
        if self._clear_pending:
            self._clear()
        self._drop_blank()
        self._items.append(output)
        event = {"event": "output", "output": _copy(output)}
        if display_id is not None:
            self._by_id.setdefault(display_id, []).append(output)
            event["display_id"] = display_id
        self._emit(event)

    def _emit(self, event: Event) -> None:
        if self._on_event is not None:
            self._on_event(event)

    def _stream_output(self, stream: _Stream) -> Output | None:
        """A stream item as output; None when it shows nothing."""
        text = stream.written.text()
        if stream is self._cut:
            text += stream_marker(self._held + self._dropped)
        return _stream_dict(stream.name, text) if text else None


def _stream_dict(name: str, text: str) -> Output:
    return {"output_type": "stream", "name": escape_surrogates(name), "text": text}


def _stream_text(text: Any) -> str:
    """A stream message's text, whatever a kernel or a library put there."""
    if isinstance(text, str):
        return escape_surrogates(text)
    if isinstance(text, bytes):
        return text.decode("utf-8", "replace")
    if isinstance(text, list):
        return "".join(map(_stream_text, text))
    return "" if text is None else escape_surrogates(str(text))


def _display_id(content: Mapping[str, Any]) -> str | None:
    transient = content.get("transient")
    display_id = transient.get("display_id") if isinstance(transient, dict) else None
    return escape_surrogates(display_id) if isinstance(display_id, str) else None


def _error_fields(content: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    return content.get("ename"), content.get("evalue"), content.get("traceback")


def _copy(output: Output) -> Output:
    """An output whose containers are new; the values in them are never changed in place."""
    return {
        key: type(value)(value) if isinstance(value, (dict, list)) else value for key, value in output.items()
    }
