"""Makes the compatibility table of the README: objects of many classes, kept in a state and had again elsewhere.

    python -m tests.compat.make_table [--environment DIR] [--only TEXT] [--write]

Each object is made in one kernel, beside a second one of its class and five others; then the same question is asked of
it there and in a kernel that never saw it. Without `--write` the README is left alone. The exit code is 1 when an
object came back different without a report, or was stored in one unit with a stranger.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bridge
from tests.compat.environment import interpreter, versions
from tests.compat.rows import LIBRARIES, Library, Row
from tests.environments import kernelspec

README = Path(__file__).resolve().parents[2] / "README.md"
BEGIN, END = "<!-- compatibility -->", "<!-- /compatibility -->"
FRESH = 10  # every so many rows one is asked again in a process that never ran anything
SECONDS = 120.0
Reply = dict[str, Any]


@dataclass
class Result:
    """What became of one row."""

    library: Library
    row: Row
    kept: str = ""  # "saved", "live"
    back: str = (
        ""  # "equal", "absent, with the reason", "different, as reported", "different", "" when untested
    )
    remark: str = ""
    defects: list[str] = field(default_factory=list)


class Bench:
    """A kernel that makes objects and, in an engine of its own, one that never sees them made."""

    def __init__(self, maker: Any, reader: Any, libraries: list[Library]) -> None:
        self.maker, self.reader = maker, reader
        self.libraries = libraries
        self._turn = 0

    def ask(self, engine: Any, code: str, state: str, name: str, **options: Any) -> Reply:
        """One cell."""
        self._turn += 1
        reply: Reply = engine.execute(code, f"c{self._turn}", state, name, timeout=SECONDS, **options)
        return reply

    def examine(self, library: Library, row: Row, number: int) -> Result:
        """One row of the table."""
        result = Result(library, row)
        state = f"row-{number}"
        made = self.ask(self.maker, self._cell(library, row), "initial", state)
        if made["error"]:
            result.defects.append("could not be made: " + _words(made["error"]))
            return result
        manifest = self.maker.store.find(self.maker.workspace, state).manifest
        unit = next(unit for unit in manifest.units.values() if "x" in unit.names)
        result.kept = "live" if unit.record["engine"] == "live" else "saved"
        result.remark = "; ".join(each["reason"] for each in made["state"]["skipped"] if each["name"] == "x")
        self._compare(result, state, number)
        allowed = {"x", "twin"} if not row.alone else {"x"}
        strangers = set(unit.names) - allowed
        if strangers:
            result.defects.append(f"shares a unit with {sorted(strangers)}")
        kept_apart = sum(
            item["size"] for item in (*unit.record.get("arrays", ()), *unit.record.get("buffers", ()))
        )
        if kept_apart < row.apart:
            result.defects.append(f"{kept_apart} bytes out of band, expected {row.apart}")
        return result

    def _compare(self, result: Result, state: str, number: int) -> None:
        question = f"print(type(x).__module__, type(x).__qualname__)\nfor _v in ({result.row.check},): print(repr(_v))"
        here = self.ask(self.maker, question, state, "here")
        if here["error"]:
            result.defects.append("its check fails: " + _words(here["error"]))
            return
        there = [self.ask(self.reader, question, state, "there")]
        if number % FRESH == 0:
            there.append(self.ask(self.reader, question, state, "there", isolation="fresh"))
        backs = [self._outcome(result, here, reply) for reply in there]
        result.back = backs[0]
        if backs[0] != backs[-1]:
            result.defects.append(f"{backs[0]} by a switch, {backs[-1]} in a fresh kernel")

    @staticmethod
    def _outcome(result: Result, here: Reply, there: Reply) -> str:
        if there["error"]:
            if result.kept == "live" and there["error"]["ename"] == "NameError":
                return "absent, with the reason"
            result.defects.append("cannot be had again: " + _words(there["error"]))
            return "different"
        if _text(here) == _text(there):
            return "equal"
        if result.remark:
            return "different, as reported"
        result.defects.append(f"differs:\n    here  {_text(here)[:400]!r}\n    there {_text(there)[:400]!r}")
        return "different"

    def _cell(self, library: Library, row: Row) -> str:
        """The cell that makes an object, its twin and five others: three of the same library, two of other ones."""
        lines = []
        for number, (other, stranger) in enumerate(self._others(library, row)):
            lines += [other.before, stranger.before, f"n{number} = {stranger.make}"]
        lines += [library.before, row.before, f"x = {row.make}", f"twin = {row.make}"]
        return "\n".join(lines)

    def _others(self, library: Library, row: Row) -> list[tuple[Library, Row]]:
        place = library.rows.index(row)
        mine = [other for other in library.rows[place + 1 :] + library.rows[:place] if other.alone]
        found = [(library, other) for other in mine[:3]]
        at = self.libraries.index(library)
        for step in (1, 2):
            foreign = self.libraries[(at + step) % len(self.libraries)]
            rows = [other for other in foreign.rows if other.alone]
            found.append((foreign, rows[place % len(rows)]))
        return found


def _text(reply: Reply) -> str:
    return "".join(str(item.get("text", "")) for item in reply["output"] if item.get("name") != "stderr")


def _words(error: Reply) -> str:
    return f"{error['ename']}: {error['evalue']}"


@contextlib.contextmanager
def _bench(python: Path, libraries: list[Library]) -> Iterator[Bench]:
    """Two engines over one home, each with one kernel of that interpreter."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        kernelspec(Path(folder) / "jupyter", "compat", python)
        os.environ["JUPYTER_PATH"] = str(Path(folder) / "jupyter")
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        settings = bridge.Settings(
            home=Path(folder) / "home", workspace="compat", pool_size=1, kernel_name="compat"
        )
        engines = [bridge.Kernel(settings), bridge.Kernel(settings)]
        for engine in engines:
            stack.callback(engine.close)
        yield Bench(*engines, libraries)


def table(results: list[Result], found: dict[str, str]) -> str:
    """The Markdown of the table; classes of a library that fared alike stand in one row."""
    rows: dict[tuple[str, str, str, str], list[str]] = {}
    for result in results:
        library = f"{result.library.name} {found[result.library.module]}"
        rows.setdefault((library, result.kept, result.back, result.remark), []).append(result.row.name)
    lines = ["| library | class | kept | in another kernel | remark |", "|---|---|---|---|---|"]
    for (library, *fate), names in rows.items():
        cells = (library, " · ".join(names), *fate)
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    lines += [
        f"| {lib.name} | | untested | | not installed |" for lib in LIBRARIES if lib.module not in found
    ]
    return "\n".join(lines)


def counts(results: list[Result]) -> str:
    """One line of figures."""
    pairs = Counter((result.kept, result.back) for result in results)
    said = "; ".join(f"{number} {kept}, {back}" for (kept, back), number in pairs.most_common())
    return f"{len(results)} objects: {said}"


def main() -> int:
    """Runs the table; see the module's own text."""
    parser = argparse.ArgumentParser(description="Make the README's compatibility table.")
    parser.add_argument(
        "--environment", type=Path, default=Path(tempfile.gettempdir()) / "jupyter-bridge-compat"
    )
    parser.add_argument("--only", default="", help="only rows whose 'library: class' matches this expression")
    parser.add_argument("--write", action="store_true", help="put the table into the README")
    options = parser.parse_args()
    python = interpreter(options.environment)
    found = versions(python, tuple(library.module for library in LIBRARIES))
    libraries = [library for library in LIBRARIES if library.module in found]
    rows = [(library, row) for library in libraries for row in library.rows]
    results = []
    with _bench(python, libraries) as bench:
        for number, (library, row) in enumerate(rows):
            name = f"{library.name}: {row.name}"
            if not re.search(options.only, name):
                continue
            result = bench.examine(library, row, number)
            results.append(result)
            print(f"{name}: {result.kept}, {result.back} {result.remark}", flush=True)
            for defect in result.defects:
                print(f"  DEFECT {defect}", flush=True)
    print(counts(results))
    if options.write and not options.only:
        before, begin, rest = README.read_text().partition(BEGIN)
        if not begin:
            parser.error(f"the README has no {BEGIN}")
        README.write_text(
            f"{before}{BEGIN}\n{counts(results)}.\n\n{table(results, found)}\n{END}{rest.partition(END)[2]}"
        )
    return int(any(result.defects for result in results))


if __name__ == "__main__":
    sys.exit(main())
