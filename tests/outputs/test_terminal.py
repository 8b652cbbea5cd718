"""Stream text as a terminal shows it, however it is cut into messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.outputs import strip_ansi
from bridge.outputs.terminal import BATCH, CHUNK, StreamText
from tests.outputs.helpers import brief, collect, err, out

RED, GREEN, OFF = "\x1b[31m", "\x1b[32m", "\x1b[0m"


def shown(*texts: str) -> str:
    stream = StreamText()
    for text in texts:
        assert stream.write(text, 10**9) == 0
    return stream.text()


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        pytest.param(["one\n", "two\n"], "one\ntwo\n", id="plain"),
        pytest.param(["\r0/3", "\r1/3", "\r2/3", "\r3/3"], "3/3", id="progress bar"),
        pytest.param(["\r 9%", "\r10%\n", "done\n"], "10%\ndone\n", id="progress bar ended by newline"),
        pytest.param(["one\r\ntwo\r\n"], "one\ntwo\n", id="crlf"),
        pytest.param(["one\r\r\ntwo"], "one\ntwo", id="cr cr lf"),
        pytest.param(["one\r", "\ntwo"], "one\ntwo", id="crlf across messages"),
        pytest.param(["one\r"], "one", id="cr last"),
        pytest.param(["one\r", "two"], "two", id="cr last, then text"),
        pytest.param(["abcdef\rXY"], "XYcdef", id="shorter text leaves the rest"),
        pytest.param(["abcdef\rXY\nZ"], "XYcdef\nZ", id="newline in mid-line ends the whole line"),
        pytest.param(["a\nbcd\rX"], "a\nXcd", id="cr stays on its line"),
        pytest.param(["ab\b\bXY"], "XY", id="backspaces"),
        pytest.param(["ab\b"], "ab", id="backspace alone moves, and erases nothing"),
        pytest.param(["abc\b \b"], "ab ", id="backspace blank backspace"),
        pytest.param(["ab", "\bX"], "aX", id="backspace first in a message"),
        pytest.param(["\b\bX"], "X", id="backspace at the beginning"),
        pytest.param(["a\n\bX"], "a\nX", id="backspace does not cross lines"),
        pytest.param(["|\b/\b-\b\\"], "\\", id="spinner"),
        pytest.param(["abc\r\bX"], "Xbc", id="backspace after cr"),
        pytest.param(["é█", "\r", "ü"], "ü█", id="not ascii"),
        pytest.param(["\r\r\r"], "", id="cr only"),
        pytest.param(["x" * 10 + "\r", *"abc"], "abc" + "x" * 7, id="small messages after cr"),
        pytest.param([*("a" * (3 * BATCH)), "\rb"], "b" + "a" * (3 * BATCH - 1), id="cr after many messages"),
        pytest.param(["a\rb" + "c" * CHUNK + "\r\nd"], "b" + "c" * CHUNK + "\nd", id="crlf across chunks"),
        pytest.param(
            ["a\x0bb\x0cc\x85d\u2028e"], "a\x0bb\x0cc\x85d\u2028e", id="other separators end no line"
        ),
    ],
)
def test_control_characters(texts: list[str], expected: str) -> None:
    assert shown(*texts) == expected


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        pytest.param(
            [f"{RED}red{OFF} and\n"], f"{RED}red{OFF} and\n", id="plain lines keep them as they came"
        ),
        pytest.param([f"\r{RED}50%{OFF}"], f"{RED}50%{OFF}", id="one frame"),
        pytest.param([f"\r{RED} 5%{OFF}", "\r10%"], f"{OFF}10%", id="a colour takes no cell"),
        pytest.param([f"{RED}abcd{OFF}\rXY"], f"{OFF}XY{RED}cd{OFF}", id="what is left keeps its colour"),
        pytest.param([f"{RED}a\r", f"{GREEN}b{OFF}"], f"{GREEN}b{OFF}", id="last colour wins"),
        pytest.param(["\r\x1b[1mbold\x1b[22m"], "\x1b[1mbold\x1b[0m", id="off by its own code"),
        pytest.param(
            ["\r\x1b[38;5;28;01mx\x1b[39;00m"], "\x1b[38;5;28;01mx\x1b[0m", id="256 colours, IPython"
        ),
        pytest.param(["\r\x1b[38;2;1;2;3mx\x1b[m"], "\x1b[38;2;1;2;3mx\x1b[0m", id="true colour"),
        pytest.param(["\r\x1b[3", "1mx"], f"{RED}x", id="sequence across messages"),
        pytest.param(["x\x1b[3", "1my\rz"], f"{RED}zy", id="begun before the carriage return came"),
        pytest.param(["long text\r\x1b[Kab"], "ab", id="erase to the end"),
        pytest.param(["long text\r\x1b[2Kab"], "ab", id="erase all"),
        pytest.param(["abcd\b\b\x1b[1KX"], "  Xd", id="erase to the cursor"),
        pytest.param(["abcd\x1b[2K\bX"], "   X", id="the cursor stays where the line was erased"),
        pytest.param(["\r\x1b[?25l\x1b[1Aab\x1b]0;title\x07c\x1b(B"], "abc", id="other sequences go"),
    ],
)
def test_escape_sequences(texts: list[str], expected: str) -> None:
    assert shown(*texts) == expected


def test_a_hidden_progress_bar_leaves_nothing_behind() -> None:
    bar = f" 50%|{GREEN}#####     {OFF}| 2/4"
    blank = " " * len(strip_ansi(bar))
    assert strip_ansi(shown(f"\r{bar}", f"\r{blank}\r", "done\n")).rstrip() == "done"


def reference(text: str) -> str:
    """A terminal, one character at a time."""
    lines, line, cursor = [], list[str](), 0
    for char in text:
        if char == "\n":
            lines.append("".join(line))
            line, cursor = [], 0
        elif char == "\r":
            cursor = 0
        elif char == "\b":
            cursor = max(0, cursor - 1)
        else:
            line[cursor : cursor + 1] = [char]
            cursor += 1
    return "\n".join([*lines, "".join(line)])


PIECES = ["a", "bc", "é", "█", " ", "\n", "\r", "\r\n", "\b", "\b\b", RED, OFF, "\x1b[1;4m"]


@given(st.lists(st.sampled_from(PIECES), max_size=40), st.lists(st.integers(1, 5)))
def test_any_cut_into_messages_shows_the_same(pieces: list[str], cuts: list[int]) -> None:
    text = "".join(pieces)
    messages, at = [], 0
    for cut in cuts:
        messages.append(text[at : at + cut])
        at += cut
    assert strip_ansi(shown(*messages, text[at:])) == reference(strip_ansi(text))


@given(st.lists(st.sampled_from(["a", "b", "c", "\n", "\r", "\b"]), max_size=60), st.integers(0, 30))
def test_room_is_never_exceeded(pieces: list[str], room: int) -> None:
    stream = StreamText()
    for piece in pieces:
        if stream.write(piece, room - len(stream)):
            break
    assert len(stream) == len(stream.text()) <= room


def test_looking_midway_changes_nothing() -> None:
    stream = StreamText()
    texts = ["one\nt", "wo", "\rT", "\n", "three", "\b", "E\nfour"]
    for text in texts:
        stream.write(text, 100)
        stream.text()
    assert stream.text() == shown(*texts) == "one\nTwo\nthreE\nfour"


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param([out("a"), out("b"), err("c"), out("d")], ["o:ab", "e:c", "o:d"], id="order kept"),
        pytest.param([out("a"), err(""), out("b")], ["o:ab"], id="empty text ignored"),
        pytest.param([out(""), out(None)], [], id="no empty outputs"),
        pytest.param([out("\r")], [], id="nothing shown, no output"),
        pytest.param(
            [out("a"), err("\r"), out("b")], ["o:ab"], id="a stream that shows nothing parts no other"
        ),
        pytest.param([out("ab"), err("x"), out("\rc")], ["o:ab", "e:x", "o:c"], id="cr stays in its item"),
        pytest.param([out(["a", "b"]), out(5), out(b"c")], ["o:ab5c"], id="text that is no str"),
    ],
)
def test_stream_items(messages: list[dict[str, object]], expected: list[str]) -> None:
    assert brief(collect(messages)) == expected
