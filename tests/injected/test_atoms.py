"""Large collections of texts and other atoms: stored in pieces, of which only those that changed are written again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.injected import private
from tests.injected.test_namespaces import Kernel

PIECE = private.module("atoms").PIECE
SETUP = f"import numpy as np\na = np.array([f't{{n}}' for n in range({3 * PIECE + 5})], dtype=object)"


class Line(Kernel):
    """A kernel, and what its last cell wrote."""

    def cell(self, code: str) -> int:
        """Runs a cell that must not fail; the number of new files in the blob folder."""
        before = self._files()
        assert self.run(code, f"n{len(before)}")
        return len(self._files() - before)

    def elsewhere(self, folder: Path) -> dict[str, Any]:
        """The namespace as another kernel restores it."""
        other = Kernel(folder)
        assert other.load(self.units) == []
        return other.scope

    def _files(self) -> set[Path]:
        return {path for path in Path(self.snapshots.folder.root).rglob("*") if path.is_file()}


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return Line(tmp_path)


def test_a_changed_element_costs_its_piece(line: Line, tmp_path: Path) -> None:
    assert line.cell(SETUP) == 4
    assert line.cell(f"a[{PIECE} + 1] = 'new'") == 1
    assert line.cell(f"b = a.copy(); c = np.append(a[:{2 * PIECE}], a)") <= 4
    other = line.elsewhere(tmp_path)
    for name in "abc":
        assert other[name].tolist() == line.scope[name].tolist()


def test_what_is_reached_and_unchanged_is_not_written_again_not_even_where_it_was_restored(
    line: Line, tmp_path: Path
) -> None:
    line.cell(SETUP)
    digest = line.units["u:a"]["digest"]
    other = Line(tmp_path)
    assert other.load(line.units) == []
    for kernel in (line, other):
        assert len(kernel.snapshots.ledger.pieces) == 4
        assert kernel.cell("n = len(a)") == 0
        assert kernel.units["u:a"]["digest"] == digest


def test_a_new_object_in_the_place_of_an_old_one_is_seen(line: Line, tmp_path: Path) -> None:
    line.cell(SETUP)
    for number in range(
        20
    ):  # without the references that are kept, the new text would get the old one's place
        line.cell(f"a[7] = None; a[7] = 'text ' + str({number})")
        assert line.elsewhere(tmp_path)["a"][7] == f"text {number}"


@pytest.mark.parametrize(
    "make",
    [
        f"np.array([None, True, 1, 2.5, 1j, 't', b'b', '\\ud800'] * {PIECE}, dtype=object)",
        f"np.array(list(map(str, range({2 * PIECE}))), dtype=object).reshape(2, -1)",
        f"np.asfortranarray(np.array(list(map(str, range({2 * PIECE}))), dtype=object).reshape(2, -1))",
        f"np.array(list(map(str, range({2 * PIECE}))), dtype=object)[::-3]",
        f"np.empty({2 * PIECE}, dtype=object)",
    ],
)
def test_it_comes_back_as_it_was(line: Line, tmp_path: Path, make: str) -> None:
    line.cell(f"import numpy as np\na = {make}\na.flags.writeable = False")
    mine, back = line.scope["a"], line.elsewhere(tmp_path)["a"]
    assert back.tolist() == mine.tolist()
    assert [type(each) for each in back.flat] == [type(each) for each in mine.flat]
    assert (back.shape, back.strides, back.flags.writeable) == (mine.shape, mine.strides, False)


def test_pandas_missing_values_come_back_as_themselves(line: Line, tmp_path: Path) -> None:
    line.cell(f"import pandas as pd\ns = pd.Series([pd.NA, 'x'] * {PIECE}, dtype='string')")
    back = line.elsewhere(tmp_path)["s"]
    assert back.isna().sum() == PIECE
    assert back[0] is line.scope["pd"].NA
    assert len(line.snapshots.ledger.pieces) == 1  # its two halves point to the same two objects


def test_elements_that_can_change_stay_with_their_array(line: Line, tmp_path: Path) -> None:
    line.cell(f"import numpy as np\na = np.array(['x'] * {2 * PIECE}, dtype=object)\nl = [1]; a[-1] = l")
    assert len(line.snapshots.ledger.pieces) == 0
    line.cell("l.append(2)")
    other = line.elsewhere(tmp_path)
    assert other["a"][-1] is other["l"]
    assert other["l"] == [1, 2]


def test_elements_are_let_go_with_their_array(line: Line) -> None:
    line.cell(SETUP)
    line.cell("del a")
    assert len(line.snapshots.ledger.pieces) == 0


def test_a_swept_piece_is_written_again(line: Line, tmp_path: Path) -> None:
    line.cell(SETUP)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            path.unlink()
    assert line.cell("n = len(a)") == 4
    assert line.elsewhere(tmp_path)["a"].tolist() == line.scope["a"].tolist()


def test_a_full_disk_costs_the_array_alone(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(data: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(line.snapshots.folder, "put", full)
    line.cell(SETUP + "\nx = 1")
    assert line.units["u:a"]["engine"] == "live"
    assert line.units["u:a"]["reason"] == "it could not be written: No space left on device"
    assert line.units["u:x"]["engine"] == "pickle"


def test_pieces_follow_the_memory_order() -> None:
    atoms = private.module("atoms")
    array = np.asfortranarray(np.array([["a", "b"], ["c", "d"]], dtype=object))
    assert atoms._row(array).tolist() == ["a", "c", "b", "d"]


TEXTS = f"[f't{{n}}' for n in range({3 * PIECE + 5})]"
COLLECTIONS = {
    "list": TEXTS,
    "tuple": f"tuple({TEXTS})",
    "set": f"set({TEXTS})",
    "frozenset": f"frozenset({TEXTS})",
    "dict": f"{{f't{{n}}': n for n in range({PIECE + PIECE // 2})}}",
    "list of numbers": f"[None, True, -1, 2.5, 1j, 't', b'b', '\\ud800', float('inf')] * {PIECE}",
    "dict by numbers": f"dict.fromkeys(range({PIECE}))",
}


@pytest.mark.parametrize("make", COLLECTIONS.values(), ids=COLLECTIONS)
def test_a_collection_comes_back_as_it_was(line: Line, tmp_path: Path, make: str) -> None:
    line.cell(f"c = {make}")
    assert len(line.snapshots.ledger.pieces) > 1
    mine, back = line.scope["c"], line.elsewhere(tmp_path)["c"]
    assert (type(back), back) == (type(mine), mine)
    if not isinstance(mine, (set, frozenset)):
        assert [(type(each), each) for each in back] == [(type(each), each) for each in mine]


@pytest.mark.parametrize(
    ("make", "change"),
    [
        ("list", f"c[{PIECE} + 1] = 'new'"),
        ("list", "c.append('new')"),
        ("dict", "c['t0'] = -1"),
        ("dict", "c['new'] = 1"),
    ],
)
def test_a_change_costs_its_piece(line: Line, tmp_path: Path, make: str, change: str) -> None:
    assert line.cell(f"c = {COLLECTIONS[make]}") > 1
    assert line.cell(change) == 1
    assert line.elsewhere(tmp_path)["c"] == line.scope["c"]


def test_a_collection_that_is_only_read_is_the_same_unit_here_and_where_it_was_restored(
    line: Line, tmp_path: Path
) -> None:
    line.cell(f"c = {TEXTS}\nd = {COLLECTIONS['dict']}")
    digests = {key: unit["digest"] for key, unit in line.units.items()}
    other = Line(tmp_path)
    assert other.load(line.units) == []
    for kernel in (line, other):
        assert kernel.cell("len(c), len(d)") == 0
        assert {key: unit["digest"] for key, unit in kernel.units.items() if key in digests} == digests


def test_a_collection_in_pieces_stays_one_with_what_holds_it(line: Line, tmp_path: Path) -> None:
    line.cell(f"c = {TEXTS}\nd = {COLLECTIONS['dict']}")
    line.cell("held = [c]; again = d")
    other = line.elsewhere(tmp_path)
    assert other["held"][0] is other["c"]
    assert other["again"] is other["d"]
    assert line.cell("d['t1'] = 'new'") == 1  # all names of one object alone
    assert line.elsewhere(tmp_path)["again"]["t1"] == "new"
    line.cell("del held, again")
    line.cell("c.append('x'); d[1] = 2")
    assert line.elsewhere(tmp_path)["c"][-1] == "x"


def test_what_holds_more_than_atoms_is_one_pickle(line: Line, tmp_path: Path) -> None:
    line.cell(f"c = {TEXTS} + [[1]]; inner = c[-1]")
    other = line.elsewhere(tmp_path)
    assert other["inner"] is other["c"][-1]
    line.cell("inner.append(2)")
    assert line.elsewhere(tmp_path)["c"][-1] == [1, 2]


def test_long_texts_that_are_met_over_and_over_are_stored_once(line: Line, tmp_path: Path) -> None:
    line.cell(f"texts = [str(n) * 300 for n in range(50)]\nc = texts * {4 * PIECE // 50}")
    assert line.units["u:c"]["size"] < 2_000_000
    back = line.elsewhere(tmp_path)["c"]
    assert back == line.scope["c"]
    assert len(set(map(id, back))) == 50
