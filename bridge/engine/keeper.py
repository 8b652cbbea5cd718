"""Between kernels and the store: what a cell left becomes a state, and a kernel is made to hold one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bridge.engine import cells, held, records
from bridge.pool import KernelProcess
from bridge.store.manifest import Manifest, State
from bridge.store.store import Store

Report = Mapping[str, Any]


class Keeper:
    """Keeps the states of one workspace, and gives them to kernels that the caller has leased."""

    def __init__(self, store: Store, workspace: str) -> None:
        self._store = store
        self._workspace = workspace

    def keep(
        self,
        kernel: KernelProcess,
        before: State,
        name: str,
        code: str,
        report: Report,
        info: Mapping[str, Any] | None = None,
        manifest: Manifest | None = None,
    ) -> State:
        """Store under `name` the state that a cell left in a kernel that held `before`; the kernel holds it then.

        `report` is the helper's; `info` is kept with the state beside its count and seed; `manifest` is the content
        when it is not that of `before` with what the report says. StoreError when it cannot
        be stored; what the kernel holds is then in no state.
        """
        manifest = manifest or records.successor(before.manifest, report)
        # An empty cell is none to IPython: it is not counted, and not among the inputs.
        cell = code if code and not code.isspace() else None
        mine: held.Held = kernel.held
        mine.bound = list(report.get("bound", []))
        for text, number, file_name in report.get("cells", ()):
            self._store.cache_put("cell", file_name, [text, number])
        state = self._store.put(
            self._workspace,
            name,
            parent=before.id,
            code=code,
            inputs=before.inputs,
            info={
                "execution_count": report["count"],
                "seed": before.info.get("seed", 0),
                **(info or {}),
            },
            manifest=manifest,
            cell=cell,
            goes_on=True,
        )
        mine.adopt(state, mine.inputs if cell is None else [*mine.inputs, cell])
        mine.lack(report.get("lost", ()))
        return state

    def keep_line(self, before: State, name: str, cells_run: Sequence[str], report: Report) -> State:
        """Store under `name` the state that a line of cells left, none of which stored one, since `before`."""
        inputs = before.inputs
        for cell in cells_run:
            inputs = self._store.add_input(inputs, cell)
        return self._store.put(
            self._workspace,
            name,
            parent=before.id,
            code="\n".join(cells_run),
            inputs=inputs,
            info={"execution_count": report["count"], "seed": before.info.get("seed", 0)},
            manifest=records.successor(before.manifest, report),
        )

    def give(
        self,
        kernel: KernelProcess,
        state: State,
        *,
        inputs: Sequence[str] | None = None,
        count: int | None = None,
    ) -> list[dict[str, Any]]:
        """Make a leased kernel hold a state; gives what could not be brought back, `{"name", "reason"}`.

        `inputs` and `count` are what its `In` and its counter are to be, when not the state's own. KernelDied,
        RestoreFailed.
        """
        mine: held.Held = kernel.held
        if mine.holds(state):
            return []
        line = self._store.inputs(state.inputs)
        return cells.switch(
            kernel,
            state,
            line if inputs is None else list(inputs),
            lambda file_name: self._cell_of(line, file_name),
            count,
        )

    def leave_dirty(self, kernel: KernelProcess, report: Report) -> bool:
        """Note what a cell that left no state may have changed; whether that is known."""
        mine: held.Held = kernel.held
        mine.bound = list(report.get("bound", []))
        dirty = report.get("dirty")
        mine.spoil(list(mine.units) if dirty is None else dirty)
        return dirty is not None

    def remember_sources(self, sources: Iterable[str]) -> None:
        """Keep texts that functions come from and that were no cells."""
        for text in sources:
            self._store.cache_put("cell", cell_file(text), [text, 0])

    def remember_cells(self, state: State) -> None:
        """Keep the cells that a state's functions come from: a state made of it may not be in their line."""
        files = {name for unit in state.manifest.units.values() for name in unit.record.get("files", ())}
        for number, text in enumerate(self._store.inputs(state.inputs) if files else (), 1):
            if cell_file(text) in files:
                self._store.cache_put("cell", cell_file(text), [text, number])

    def _cell_of(self, inputs: Sequence[str], file_name: str) -> list[Any] | None:
        """The text and number of the cell that a code object's file name stands for."""
        for number in range(len(inputs), 0, -1):
            if cell_file(inputs[number - 1]) == file_name:
                return [inputs[number - 1], number]
        known = self._store.cache_get("cell", file_name)
        return list(known) if known is not None else None


def cell_file(code: str) -> str:
    """The file name of a cell's code objects: the same for the same text, as the helper names it."""
    digest = hashlib.sha1(code.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    return f"/tmp/ipykernel_0/{int(digest[:12], 16)}.py"
