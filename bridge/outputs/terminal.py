r"""The text of one stream as a terminal would show it.

Carriage return goes to the line's start and backspace one character back; what is written next replaces what
stands there. `\n` ends a line wherever the cursor is. Text without either character, nearly all there is, is
only collected. A line that has them is kept as cells until its `\n`:

    parts "one\ntwo\n", "thr"    then "\r" comes:    parts "one\ntwo\n", line "thr" with the cursor at 0

On such a line escape sequences take no cell: colours belong to the cells written after them, "erase in line"
erases, the others go. Elsewhere they stay as they came.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import groupby
from typing import Final

from bridge.outputs.text import ESCAPE, partial_escape_at

CHUNK: Final = 1 << 16
"""How many characters are edited at once, which bounds the memory that editing takes."""

BATCH: Final = 4096
"""How many collected parts are joined into one: a short text costs ten times its characters."""

_SPECIAL: Final = re.compile(r"[\r\x08]")
_CRLF: Final = re.compile(r"\r+\n")
# A whole line whose only special characters are carriage returns.
_FRAMED: Final = re.compile(r"(?<=\n)[^\n\r\x1b\x08]*\r[^\n\x1b\x08]*(?=\n)")
# A character that the one after the backspace replaces: spinners are made of nothing else.
_SPUN: Final = re.compile(r"[^\r\x08]\x08(?=[^\r\x08])")
_TOKEN: Final = re.compile(rf"[^\x1b\x08\r]+|\r+|\x08+|{ESCAPE.pattern}|\x1b")
_COLOUR: Final = re.compile(r"\x1b\[([0-9;:]{0,99})m\Z")  # longer ones are noise, and would be kept
_ERASE: Final = re.compile(r"\x1b\[([012]?)K\Z")

Pen = tuple[tuple[str, str], ...]
"""The colours and styles in force, as (what it sets, code) in the order set; () is the terminal's default."""

# What is set: the codes that set it, and the one that ends it.
_STYLES: Final[dict[str, tuple[tuple[int, ...], int]]] = {
    "foreground": ((*range(30, 39), *range(90, 98)), 39),
    "background": ((*range(40, 49), *range(100, 108)), 49),
    "line colour": ((58,), 59),
    "bold": ((1,), 22),
    "faint": ((2,), 22),
    "italic": ((3,), 23),
    "underline": ((4, 21), 24),
    "blink": ((5, 6), 25),
    "inverse": ((7,), 27),
    "hidden": ((8,), 28),
    "strike": ((9,), 29),
    "overline": ((53,), 55),
}
_STYLE_OF: Final = {str(code): style for style, (codes, _) in _STYLES.items() for code in codes}
_EXTENDED: Final = {"5": 3, "2": 5}  # 38;5;N and 38;2;R;G;B are one colour each


@lru_cache(maxsize=256)
def recolour(pen: Pen | None, codes: str) -> Pen:
    """The pen after a colour sequence with these codes, such as "1;31"."""
    styles = dict(pen or ())
    fields = codes.split(";")
    at = 0
    while at < len(fields):
        code = (fields[at] or "0").partition(":")[0].lstrip("0") or "0"
        width = 1
        if code in ("38", "48", "58") and fields[at] == code:
            width = _EXTENDED.get(fields[at + 1] if at + 1 < len(fields) else "", 1)
        if code == "0":
            styles.clear()
        elif style := _STYLE_OF.get(code):
            styles.pop(style, None)  # so that the newest stands last
            styles[style] = ";".join(fields[at : at + width])
        else:
            styles = {style: on for style, on in styles.items() if str(_STYLES[style][1]) != code}
        at += width
    return tuple(styles.items())


@lru_cache(maxsize=256)
def switch(old: Pen | None, new: Pen | None) -> str:
    """The escape sequence that changes one pen into another; None is the pen the line began with."""
    if old == new:
        return ""
    known, wanted = old or (), new or ()
    if wanted and wanted[: len(known)] == known:
        codes = [code for _, code in wanted[len(known) :]]
    else:
        codes = ["0", *(code for _, code in wanted)]
    return f"\x1b[{';'.join(codes)}m"


def overlay(frames: list[str]) -> str:
    """What is seen of texts each written from the line's start: the last, and what juts out below it."""
    shown = frames[-1]
    for frame in reversed(frames):
        if len(frame) > len(shown):
            shown += frame[len(shown) :]
    return shown


class Line:
    """The line under the cursor: its cells, four bytes each (UTF-32), and their pens if there are any."""

    def __init__(self, text: str) -> None:
        self._cells = bytearray()
        self._pens: list[Pen | None] | None = None
        self._pen: Pen | None = None
        self._cursor = 0
        self._partial = ""  # an escape sequence that ended with the message, to be continued
        self.write(text)

    def __len__(self) -> int:
        return len(self._cells) // 4

    def write(self, text: str) -> None:
        r"""Write text without `\n` at the cursor."""
        text = self._partial + text
        self._partial = ""
        if "\x1b" not in text:
            if "\x08" in text:
                text = _SPUN.sub("", text)
            if "\x08" not in text:
                self._write_frames(text)
                return
        end = partial_escape_at(text)
        text, self._partial = text[:end], text[end:]
        for token in _TOKEN.findall(text):
            if token[0] == "\r":
                self._cursor = 0
            elif token[0] == "\x08":
                self._cursor = max(0, self._cursor - len(token))
            elif token[0] == "\x1b":
                self._obey(token)
            else:
                self._put(token)

    def render(self) -> str:
        """The line's text, with the colour sequences that its pens need."""
        text = self._cells.decode("utf-32-le")
        if self._pens is None:
            return text + switch(None, self._pen)
        pieces: list[str] = []
        at, last = 0, None
        for pen, run in groupby(self._pens):
            end = at + sum(1 for _ in run)
            pieces += (switch(last, pen), text[at:end])
            at, last = end, pen
        pieces.append(switch(last, self._pen))
        return "".join(pieces)

    def _write_frames(self, text: str) -> None:
        """Write text whose only special characters are carriage returns: each frame covers those before."""
        first, *frames = text.split("\r")
        self._put(first)
        if not frames:
            return
        self._cursor = 0
        self._put(overlay(frames))
        self._cursor = len(frames[-1])

    def _put(self, text: str) -> None:
        """Replace the cells from the cursor on."""
        if not text:
            return
        length = len(self)
        if self._cursor > length:  # the line was erased behind the cursor
            self._cells += (" " * (self._cursor - length)).encode("utf-32-le")
        start, end = self._cursor, self._cursor + len(text)
        if self._pens is None and self._pen is not None:
            self._pens = [None] * length
        if self._pens is not None:
            self._pens += [None] * (start - len(self._pens))
            self._pens[start:end] = [self._pen] * len(text)
        self._cells[4 * start : 4 * end] = text.encode("utf-32-le")
        self._cursor = end

    def _obey(self, escape: str) -> None:
        """Do what an escape sequence asks for, if it concerns this line."""
        if colour := _COLOUR.match(escape):
            self._pen = recolour(self._pen, colour[1])
        elif erase := _ERASE.match(escape):
            self._erase(erase[1] or "0")

    def _erase(self, part: str) -> None:
        """Erase from the cursor on ("0"), up to and with it ("1"), or all ("2"); the cursor stays."""
        length = self._cursor if part == "0" else 0
        if part == "1" and self._cursor + 1 < len(self):
            blank = self._cursor + 1
            self._cells[: 4 * blank] = (" " * blank).encode("utf-32-le")
            if self._pens is not None:
                self._pens[:blank] = [None] * blank
            return
        del self._cells[4 * length :]
        if self._pens is not None:
            del self._pens[length:]


class StreamText:
    """What one stream shows: the finished text in parts, and the line under the cursor while it is edited."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._kept = 0  # characters in the parts
        self._join_at = BATCH  # the number of parts that asks for joining the newest
        self._line: Line | None = None

    def __len__(self) -> int:
        """How many characters are shown."""
        return self._kept + (len(self._line) if self._line is not None else 0)

    def write(self, text: str, room: int) -> int:
        """Write text that may add `room` characters; gives how many did not fit (if any: write no more)."""
        allowed = len(self) + room
        if self._line is None and "\r" not in text and "\x08" not in text:
            self._keep(text[:room])
            return len(text) - room + self._trim(allowed) if len(text) > room else 0
        for start in range(0, len(text), CHUNK):
            self._edit(text[start : start + CHUNK])
            if len(self) > allowed:
                return self._trim(allowed) + max(0, len(text) - start - CHUNK)
        return 0

    def text(self) -> str:
        """The whole text as shown now."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
            self._join_at = BATCH
        kept = self._parts[0] if self._parts else ""
        return kept + self._line.render() if self._line is not None else kept

    def _keep(self, text: str) -> None:
        """Add finished text."""
        if not text:
            return
        self._parts.append(text)
        self._kept += len(text)
        if len(self._parts) >= self._join_at:
            first = self._join_at - BATCH
            self._parts[first:] = ["".join(self._parts[first:])]
            self._join_at = first + 1 + BATCH

    def _edit(self, text: str) -> None:
        """Write text that has special characters, or that meets a line that had them."""
        if "\r\n" in text:
            text = _CRLF.sub("\n", text)
        text = _FRAMED.sub(lambda row: overlay(row[0].split("\r")), text)
        at = 0
        while at < len(text):
            if self._line is None:
                special = _SPECIAL.search(text, at)
                if special is None:
                    self._keep(text[at:])
                    return
                start = max(at, text.rfind("\n", at, special.start()) + 1)
                self._keep(text[at:start])
                self._line = Line(self._take_line())
                at = start
            end = text.find("\n", at)
            self._line.write(text[at:] if end < 0 else text[at:end])
            if end < 0:
                return
            self._keep(self._line.render() + "\n")
            self._line = None
            at = end + 1

    def _take_line(self) -> str:
        """The finished text's last line, taken out of it: empty after a newline."""
        tail: list[str] = []
        while self._parts:
            part = self._parts.pop()
            start = part.rfind("\n") + 1
            tail.append(part[start:])
            if start:
                self._parts.append(part[:start])
                break
        line = "".join(reversed(tail))
        self._kept -= len(line)
        return line

    def _trim(self, length: int) -> int:
        """Cut the text to at most so many characters, not inside an escape sequence; gives how many went."""
        if self._line is not None:
            line, self._line = self._line, None
            self._keep(line.render())
        before = self._kept
        whole = "".join(self._parts)[:length]
        whole = whole[: partial_escape_at(whole)]
        self._parts, self._kept = [whole], len(whole)
        return before - self._kept
