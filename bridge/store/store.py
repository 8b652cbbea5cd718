"""The store of a home: states by name, what they share, and who uses them. Knows bytes, no user's objects."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

from bridge.errors import HomeDamaged, StateNotFound, StoreError
from bridge.store import names as state_names
from bridge.store import workspaces as spaces
from bridge.store.contents import NAMES, ROWS, TEXT, Contents, join_info, read_epoch, split_info
from bridge.store.database import Database, Transaction, select_in
from bridge.store.eviction import Evicted, Evictor
from bridge.store.home import Home
from bridge.store.housekeeping import Housekeeper
from bridge.store.locks import Owner
from bridge.store.manifest import (
    Manifest,
    State,
    cut_names,
    cut_rows,
    pack,
    timestamp,
    to_text,
    unpack,
)
from bridge.store.pins import Pins
from bridge.store.recent import Recent
from bridge.store.results import ResultCache
from bridge.store.sweep import GRACE, STRAYS_AGE, Freed, Progress, Sweeper, no_progress
from bridge.store.uses import Uses

_log = logging.getLogger(__name__)

_LONG_LOG = 16_000_000  # bytes of write-ahead log that call for a checkpoint


class Store:
    """All states of one home, for any number of threads; any number of processes may have the home open.

    Errors: HomeDamaged for what cannot be read, StoreError when a write is not possible (nothing is stored
    then, and the store goes on working).
    """

    def __init__(self, home: Home, *, housekeeping: bool = True) -> None:
        """`housekeeping` False for short work that frees nothing unless told to."""
        self.home = home
        self.blobs = home.blobs
        self._database = Database(home.database_path)
        try:
            self._owner = Owner(home.locks_path)
        except OSError as error:
            self._database.close()
            raise StoreError(f"{home.locks_path} cannot be written: {error.strerror}") from error
        self._contents = Contents(self.blobs)
        self._pins = Pins(self._database, self._owner.id)
        self._uses = Uses(self._database, self._owner.id)
        self._results = ResultCache(self._database)
        self._sweeper = Sweeper(self._database, self.blobs, self._contents, self._pins, self._owner)
        self._evictor = Evictor(home, self._database, self._pins, self._uses, self._collect_for_room)
        self._limit: int | None = None
        self._over = 0
        self._recent = Recent(self._contents)
        self._lists = state_names.Lists()  # used by whoever has the reading connection
        self._log_path = f"{home.database_path}-wal"
        try:
            is_work_left = self._sweeper.has_work()
        except BaseException:
            self._database.close()
            self._owner.close()
            raise
        self._housekeeper = Housekeeper(
            sweep=self._sweep_in_background,
            checkpoint=self._database.checkpoint,
            write_uses=self._uses.write,
            keep_limit=self._keep_limit,
            tidy_pins=self._tidy_pins,
        )
        if is_work_left:
            self._housekeeper.garbage()
        if housekeeping:
            self._housekeeper.start()

    # -- workspaces

    def open_workspace(self, name: str | None, *, labelled: bool | None = None) -> str:
        """The name of the workspace, held open (it does not expire) until the store closes.

        None is a new one, "last" the one used last (new if there is none); any other name is that one, made
        when missing, and labelled from then on unless `labelled` is False.
        """
        if labelled is None:
            labelled = name not in (None, "last")
        with self._database.write() as transaction:
            chosen = spaces.last_name(transaction) if name == "last" else name
            chosen = chosen or spaces.new_name(transaction)
            row = spaces.use(transaction, chosen, labelled=labelled)
            transaction.execute("INSERT OR IGNORE INTO opened VALUES (?, ?)", (self._owner.id, row))
        return chosen

    def keep_workspace(self, name: str) -> None:
        """The states of this workspace are kept for good: it does not expire, and none of them is evicted."""
        with self._database.write() as transaction:
            spaces.use(transaction, name, labelled=spaces.KEPT)

    def workspaces(self) -> list[dict[str, Any]]:
        """All workspaces, oldest first: name, labelled, created, used, states (count), open (to anybody)."""
        with self._database.read() as connection:
            return spaces.describe(connection, self._owner.is_alive)

    def expire_workspaces(self, retention_seconds: float, now: float) -> int:
        """Remove unlabelled workspaces that nobody has open or used for so long; gives how many."""
        with self._database.write() as transaction:
            removed = spaces.expire(transaction, now - retention_seconds, self._owner.is_alive)
        if removed:
            self._housekeeper.garbage()
        return removed

    def last_number(self, workspace: str) -> int:
        """The number that `next_number` gave last in this workspace, 0 when it gave none."""
        with self._database.read() as connection:
            return spaces.last_number(connection, spaces.find_row(connection, workspace))

    def next_number(self, workspace: str) -> int:
        """A number that was never given in this workspace, by any process: 1 first."""
        with self._database.write() as transaction:
            return spaces.next_number(transaction, spaces.use(transaction, workspace))

    # -- names and states

    def names(self, workspace: str | None, page: state_names.Page = state_names.ALL) -> list[str]:
        """The workspace's state names, oldest first; for None or "*" those of all, as "workspace:name".

        StateNotFound when the page is to begin after a name that is not there; so for `details`.
        """
        with self._database.read() as connection:
            if workspace not in (None, "*") and page == state_names.ALL:
                return self._lists.names(connection, workspace)
            return state_names.find_all(connection, None if workspace == "*" else workspace, page)

    def details(self, workspace: str, page: state_names.Page = state_names.ALL) -> list[dict[str, Any]]:
        """The workspace's states ("*": those of all) without their content, oldest first.

        Keys: workspace, name, id, parent (an id or None), parent_name (None when it has no name in this workspace),
        created, code, bytes (all its units together).
        """
        with self._database.read() as connection:
            return state_names.describe(
                connection, self._contents, None if workspace == "*" else workspace, page
            )

    def find(self, workspace: str, name: str) -> State | None:
        """The state of that name, or None. "other:name" is in another workspace unless it is a name here.

        StateEvicted when there was one and it went for want of room.
        """
        with self._database.read() as connection:
            row = state_names.find(connection, workspace, name)
            return None if row is None else self._recent.get(row) or self._load(connection, row)

    def state(self, id: int) -> State | None:
        """The state with that id, named or not; None when it is gone."""
        with self._database.read() as connection:
            found = connection.execute("SELECT 1 FROM states WHERE id = ?", (id,)).fetchone()
            return None if found is None else self._recent.get(id) or self._load(connection, id)

    def name_of(self, id: int) -> tuple[str, str] | None:
        """Workspace and name of the state with that id; None when it has lost its name."""
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT w.name, n.name FROM names n JOIN workspaces w ON w.id = n.workspace"
                " WHERE n.state = ?",
                (id,),
            ).fetchone()
        return None if found is None else (to_text(found[0]), to_text(found[1]))

    def put(
        self,
        workspace: str,
        name: str,
        *,
        parent: int | None,
        code: str,
        inputs: int | None,
        info: Mapping[str, Any],
        manifest: Manifest,
        cell: str | None = None,
        goes_on: bool = False,
    ) -> State:
        """Store a state under the name, all or nothing; once it returns, the state outlives a killed process.

        `cell` is added to the cells of the state, after those up to the row `inputs`. `goes_on` says that the state
        will probably be used at once: it stays pinned for a second. A name that exists keeps its place and its old
        state goes. Every blob that a new unit names must be in the home: StoreError otherwise.
        """
        manifest = Manifest(dict(manifest.units), tuple(manifest.order))
        kept, taken = split_info(info)
        created = timestamp()
        with self._database.write() as transaction:
            self._contents.begin(transaction)
            if cell is not None:
                inputs = self._add_input(transaction, inputs, cell)
            space = spaces.use(transaction, workspace)
            row = self._insert(transaction, parent, created, code, inputs, kept, taken, manifest)
            was_replaced = state_names.point(transaction, space, name, row)
            is_garbage = self._pins.tidy(transaction, row if goes_on else None)
        state = State(row, parent, created, code, inputs, join_info(kept, taken), manifest)
        self._recent.add(state)
        self._housekeeper.unpinned()
        if was_replaced or is_garbage:
            self._housekeeper.garbage()
        if self._limit is not None:
            self._housekeeper.grown()
        self._watch_log()
        return state

    def label(self, workspace: str, name: str, state: State) -> None:
        """Give a state one more name, which keeps it from being evicted; the workspace does not expire from then on.

        A name that exists keeps its place and lets its old state go. StateNotFound when the state was freed before.
        """
        with self._database.write() as transaction:
            if not transaction.execute("SELECT 1 FROM states WHERE id = ?", (state.id,)).fetchone():
                raise StateNotFound(f"state {state.id} was deleted")
            space = spaces.use(transaction, workspace, labelled=spaces.LABELLED)
            replaced = state_names.point(transaction, space, name, state.id, labelled=True)
        if replaced:
            self._housekeeper.garbage()

    def delete(self, workspace: str, name: str) -> bool:
        """Take the name away; whether it was there, or its state had been evicted.

        What only its state needs is freed soon after.
        """
        with self._database.write() as transaction:
            was_there = state_names.remove(transaction, workspace, name)
        if was_there:
            self._housekeeper.garbage()
        return was_there

    def clear(self, workspace: str, keep: tuple[str, ...] = ("initial",)) -> None:
        """Take all names of the workspace away but those in `keep`."""
        with self._database.write() as transaction:
            row = spaces.find_row(transaction.connection, workspace)
            count = 0 if row is None else spaces.drop_names(transaction, row, keep)
        if count:
            self._housekeeper.garbage()

    @contextmanager
    def pin(self, state: State) -> Iterator[State]:
        """Keep the state's record, units and blobs for the length of the block, whatever becomes of its name.

        StateNotFound when it was freed before the block began.
        """
        self._pins.add(state.id)
        self._uses.note(state.id)
        self._housekeeper.used()
        try:
            yield state
        finally:
            self._pins.remove(state.id)
            self._housekeeper.unpinned()

    # -- cells

    def add_input(self, parent_input: int | None, code: str) -> int:
        """The row of a new cell after `parent_input`. It stays while a state or a later cell names it."""
        with self._database.write() as transaction:
            self._contents.begin(transaction)
            return self._add_input(transaction, parent_input, code)

    def _add_input(self, transaction: Transaction, parent_input: int | None, code: str) -> int:
        piece = self._contents.piece(transaction, TEXT, code)
        row = transaction.execute(
            "INSERT INTO inputs (parent, code, created) VALUES (?, ?, ?)", (parent_input, piece, time.time())
        ).lastrowid
        assert row is not None  # always set after an INSERT
        return row

    def inputs(self, row: int | None) -> list[str]:
        """The code of the cells up to and with that row, the first one first."""
        if row is None:
            return []
        with self._database.read() as connection:
            rows = connection.execute(
                "WITH RECURSIVE chain (parent, code, depth) AS ("
                " SELECT parent, code, 0 FROM inputs WHERE id = ?"
                " UNION ALL SELECT i.parent, i.code, depth + 1"
                " FROM chain JOIN inputs i ON i.id = chain.parent)"
                " SELECT code FROM chain ORDER BY depth DESC",
                (row,),
            ).fetchall()
            with self._reading(f"cell {row}"):
                codes = self._contents.load_pieces(
                    connection, [code for (code,) in rows], read_epoch(connection)
                )
                return [codes[code][1] for (code,) in rows]

    # -- results by content

    def cache_get(self, kind: str, key: str) -> Any | None:
        """A small result put before, or None."""
        return self._results.get(kind, key)

    def cache_put(self, kind: str, key: str, value: Any) -> None:
        """Keep a small JSON result; the oldest ones go when there are too many."""
        self._results.put(kind, key, value)

    # -- space

    def collect(
        self, grace: float = GRACE, strays: float | None = None, progress: Progress = no_progress
    ) -> Freed:
        """Free now what no name and no pin needs; gives what that was.

        Blob files written in the last `grace` seconds stay (0: none is spared; for callers who know that
        nothing is being executed; with another process in the home 60 is the least). With `strays`, files
        that no state needs go too when older than so many seconds: of failed cells and killed processes.
        """
        freed = self._sweep(grace, strays, progress)
        self._database.pragma("PRAGMA wal_checkpoint(TRUNCATE)")
        return freed

    def keep_under(self, limit: int | None, holding: Callable[[], Iterable[int]] = tuple) -> None:
        """Keep the home under so many bytes from now on (None: no limit), by `evict`, in the background.

        `holding` gives the ids of the states that kernels hold at the moment: these are in use.
        """
        self._uses.holding = holding
        self._limit = limit
        if limit is not None:
            self._housekeeper.grown()

    def evict(self, limit: int, grace: float = GRACE, progress: Progress = no_progress) -> Evicted:
        """Take the names of the states used least recently away until the home is under `limit` bytes.

        Spared: labelled ones, those in use by any process or used in the last `grace` seconds.
        """
        return self._evictor.keep(limit, grace, progress)

    def preview(self, unused_since: float, limit: int | None, strays: float) -> tuple[int, Freed, Evicted]:
        """What would go, with nothing changed: how many workspaces unused since then, what `collect` would free
        thereafter, and what `evict` would with a limit.
        """
        with self._database.read() as connection:
            due = spaces.due(connection, unused_since, self._owner.is_alive)
            states = spaces.states_of(connection, due)
        freed = self._sweeper.preview(states, strays)
        evicted = Evicted() if limit is None else self._evictor.preview(limit, GRACE, freed.bytes)
        return len(due), freed, evicted

    def close(self) -> None:
        """End the background thread, drop this store's pins and close the files. Idempotent."""
        self._housekeeper.close()
        self._uses.close()
        self._database.close()
        self._owner.close()

    # -- inside

    def _insert(
        self,
        transaction: Transaction,
        parent: int | None,
        created: str,
        code: str,
        inputs: int | None,
        kept: str,
        taken: list[str],
        manifest: Manifest,
    ) -> int:
        contents = self._contents
        if (
            inputs is not None
            and not transaction.execute("SELECT 1 FROM inputs WHERE id = ?", (inputs,)).fetchone()
        ):
            raise StoreError(f"cell {inputs}, which the state follows, is not in the home")
        source = None if parent is None else self._recent.get(parent)
        rows = contents.unit_rows(transaction, list(manifest.units.values()), source)
        row = transaction.execute(
            "INSERT INTO states (parent, created, code, inputs, info, extra, units, names, bytes)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                parent,
                created,
                contents.piece(transaction, TEXT, code),
                inputs,
                kept,
                pack([contents.piece(transaction, TEXT, text) for text in taken]),
                pack([contents.piece(transaction, ROWS, piece) for piece in cut_rows(rows)]),
                pack([contents.piece(transaction, NAMES, piece) for piece in cut_names(manifest.order)]),
                sum(map(attrgetter("size"), manifest.units.values())),
            ),
        ).lastrowid
        assert row is not None  # always set after an INSERT
        line = row
        transaction.after_commit(lambda: contents.remember_line(line, rows))
        return row

    def _load(self, connection: sqlite3.Connection, row: int) -> State:
        with self._reading(f"state {row}"):
            parent, created, code, inputs, kept, *packed = connection.execute(
                "SELECT parent, created, code, inputs, info, extra, units, names FROM states WHERE id = ?",
                (row,),
            ).fetchone()
            extra, units, names = map(unpack, packed)
            epoch = read_epoch(connection)
            pieces = self._contents.load_pieces(connection, [code, *extra, *units, *names], epoch)
            unit_rows = [each for piece in units for each in pieces[piece][1]]
            loaded = self._contents.load_units(connection, unit_rows, epoch)
            manifest = Manifest(
                {loaded[each].key: loaded[each] for each in unit_rows},
                tuple(name for piece in names for name in pieces[piece][1]),
            )
            info = join_info(kept, [pieces[piece][1] for piece in extra])
            self._contents.remember_line(row, unit_rows, epoch)
            state = State(row, parent, created, pieces[code][1], inputs, info, manifest)
        self._recent.add(state)
        return state

    @contextmanager
    def _reading(self, what: str) -> Iterator[None]:
        """Turns what damaged rows make Python say into HomeDamaged."""
        try:
            yield
        except (ValueError, KeyError, IndexError, TypeError, StopIteration, zlib.error) as error:
            raise HomeDamaged(
                f"{self.home.database_path} is damaged: {what} cannot be read ({error!r})"
            ) from error

    def _watch_log(self) -> None:
        try:
            is_long = os.stat(self._log_path).st_size > _LONG_LOG
        except FileNotFoundError:  # another process has just written it back
            return
        if is_long:
            self._housekeeper.log_is_long()

    def _sweep(self, grace: float, strays: float | None, progress: Progress = no_progress) -> Freed:
        freed = self._sweeper.collect(grace, strays, progress)
        remembered = self._recent.ids()
        statement = "SELECT id FROM states WHERE id IN ({})"
        with self._database.read() as connection:
            there = {row for (row,) in select_in(connection, statement, remembered)}
        self._recent.keep_only(there, remembered)
        return freed

    def _tidy_pins(self) -> None:
        if self._pins.settle():
            self._housekeeper.garbage()

    def _sweep_in_background(self, with_strays: bool) -> bool:
        freed = self._sweep(GRACE, STRAYS_AGE if with_strays else None)
        if freed.bytes:
            _log.info("freed %d bytes", freed.bytes)
        return self._sweeper.has_work()

    def _collect_for_room(self, progress: Progress) -> Freed:
        return self.collect(progress=progress)

    def _keep_limit(self) -> bool:
        """Evict if need be; whether that may have to go on although nothing is stored."""
        limit = self._limit
        if limit is None:
            return False
        done = self.evict(limit)
        if done.states:
            _log.info(
                "evicted %d states, %d bytes, to keep the home under %d", done.states, done.freed, limit
            )
        if done.over and not done.waiting and not self._over:
            _log.warning("the home is %d bytes over its limit: what is left is labelled or in use", done.over)
        self._over = 0 if done.waiting else done.over
        return done.waiting
