"""Random namespaces saved and restored in this process: content, sharing and cycles must come back as they were.

The rule, as for notebooks: cells run one after the other in one namespace, and each from the state before it, give
namespaces that are alike.
"""

from __future__ import annotations

import base64
import contextlib
import io
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.injected import private
from tests.injected.cells import PRELUDE, sequence
from tests.injected.graphs import difference

Cells = list[tuple[str, bool]]


class Kernel:
    """What stands for a kernel: a namespace, and the helper's snapshots of it."""

    def __init__(self, folder: Path) -> None:
        self.scope = new_scope()
        blobs = private.module("blobs").Folder(str(folder))
        self.snapshots = private.module("snapshot").Snapshots(self.scope, blobs, "k")
        self.units: dict[str, dict[str, Any]] = {}  # the state at hand: key -> record

    def run(self, cell: str, nonce: str) -> bool:
        """Run a cell and save what it leaves; False when it failed."""
        before = {name: id(value) for name, value in self.scope.items()}
        if not run(cell, self.scope):
            return False
        values = names(self.scope)
        rebound = {name for name, value in values.items() if before.get(name) != id(value)}
        taken = self.snapshots.take(values, rebound, None, set(values), nonce, "")
        for key in taken["removed"]:
            self.units.pop(key, None)
        self.units.update((record["key"], record) for record in taken["units"])
        return True

    def load(self, units: dict[str, dict[str, Any]]) -> list[Any]:
        """Hold this state, having held nothing; gives what could not be brought back."""
        source_of = private.module("loader").Source
        folder = self.snapshots.folder
        sources = []
        for record in units.values():
            if record.get("chunks"):
                data: Any = folder.read_chunks(record["chunks"], record["length"])
            else:
                data = base64.b64decode(record.get("data") or "")
            sources.append(source_of(record, data))
        values, failed = self.snapshots.load(sources)
        self.scope.update(values)
        self.units = dict(units)
        return list(failed)


def new_scope() -> dict[str, Any]:
    return {"__name__": "__main__", "__builtins__": __builtins__}


def names(scope: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in scope.items() if not name.startswith("__")}


def run(cell: str, scope: dict[str, Any]) -> bool:
    """Whether the cell ran to its end. Cells are random: most kinds of failure are to be expected."""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            exec(compile(cell, "<cell>", "exec", dont_inherit=True), scope)
        except Exception:
            return False
    return True


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("blobs")


def check(cells: Cells, folder: Path) -> None:
    """Run the cells in one namespace, and each from the state before it; the two must stay alike."""
    plain, kernel = new_scope(), Kernel(folder)
    for number, (cell, fresh) in enumerate([(PRELUDE, False), *cells]):
        if fresh:
            kernel = restored(kernel, folder)
        state = dict(kernel.units)
        if not kernel.run(cell, str(number)):
            # A failed cell leaves no state; what it did before it failed is gone with its namespace.
            kernel.units = state
            kernel = restored(kernel, folder)
            continue
        assert run(cell, plain), f"fails in a plain namespace alone: {cell}"
        live = [record for record in kernel.units.values() if record["engine"] == "live"]
        assert not live, f"not saved after {cell!r}: {live}"
        found = difference(plain, kernel.scope)
        assert found is None, f"after {cell!r}: {found}"
        found = difference(plain, restored(kernel, folder).scope)
        assert found is None, f"restored after {cell!r}: {found}"


def restored(kernel: Kernel, folder: Path) -> Kernel:
    """A new kernel that holds the same state."""
    made = Kernel(folder)
    failed = made.load(kernel.units)
    assert not failed, failed
    return made


TRUSTED = {
    "deadline": None,
    "database": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
}


@settings(max_examples=50, derandomize=True, **TRUSTED)
@given(cells=sequence)
def test_what_is_restored_is_alike(folder: Path, cells: Cells) -> None:
    check(cells, folder)


@pytest.mark.soak
@settings(max_examples=10_000, **TRUSTED)
@given(cells=sequence)
def test_what_is_restored_is_alike_in_many_cases(folder: Path, cells: Cells) -> None:
    check(cells, folder)


@pytest.fixture
def always_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is pickled twice is pickled by the same pickler, be it as small as it may."""
    spare = private.module("picklers").Spare
    monkeypatch.setattr(spare, "_LEAST", 0)
    monkeypatch.setattr(spare, "_SPARSE", 1 << 40)


@settings(max_examples=40, derandomize=True, **TRUSTED)
@given(cells=sequence)
def test_what_a_pickler_wrote_that_was_used_before_is_restored_alike(
    folder: Path, always_again: None, cells: Cells
) -> None:
    check(cells, folder)


LARGE = """
class Point:
    def __init__(self, at): self.at = at
many = [Point(number) for number in range(40_000)]
"""


def digests(kernel: Kernel) -> dict[str, str]:
    return {key: record["digest"] for key, record in kernel.units.items()}


def test_a_large_value_s_pickle_is_the_same_from_a_pickler_used_before(folder: Path) -> None:
    kernel, cells = Kernel(folder), (LARGE, "many[0].at = 7", "many.append(Point([]))")
    for number, cell in enumerate(cells):
        assert kernel.run(cell, "n")
        other = Kernel(folder)
        assert other.run("".join(each + "\n" for each in cells[: number + 1]), "n")
        assert digests(kernel) == digests(other)
    assert spare_of(kernel) is not None
    assert difference(kernel.scope, restored(kernel, folder).scope) is None


def spare_of(kernel: Kernel) -> Any:
    return kernel.snapshots._spare._pickler


def test_a_pickler_that_is_kept_holds_no_value_and_goes_with_its_name(folder: Path) -> None:
    kernel = Kernel(folder)
    for number, cell in enumerate((LARGE, "many[0].at = 8")):
        assert kernel.run(cell, str(number))
    kept = spare_of(kernel)
    assert sys.getsizeof(kept) > 1_000_000
    assert dict(kept.memo.copy()) == {}
    assert kept.sink.getvalue() == b""
    point = weakref.ref(kernel.scope["many"][1])
    assert kernel.run("del many[1]", "2")
    assert point() is None
    assert spare_of(kernel) is kept
    assert kernel.run("del many", "3")
    assert spare_of(kernel) is None


def test_a_large_value_that_cannot_be_saved_any_more_is_told_and_then_saved_again(folder: Path) -> None:
    kernel = Kernel(folder)
    for number, cell in enumerate((LARGE, "many[0].at = 9", "many.append(n for n in ())")):
        assert kernel.run(cell, str(number))
    assert kernel.units["u:many"]["engine"] == "live"
    assert kernel.run("many.pop()", "3")
    assert kernel.run("many[1].at = 3", "4")
    found = restored(kernel, folder).scope["many"]
    assert [len(found), found[0].at, found[1].at, found[39_999].at] == [40_000, 9, 3, 39_999]


def test_a_value_that_has_become_small_keeps_no_large_pickler(folder: Path) -> None:
    kernel = Kernel(folder)
    for number, cell in enumerate((LARGE, "many[0].at = 9", "del many[10:]", "many[0].at = 10")):
        assert kernel.run(cell, str(number))
    assert spare_of(kernel) is None
