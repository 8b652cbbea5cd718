"""The helper's two doors: hooks around every cell, and answers to the server's own requests.

A cell's execute_request carries its orders in the message metadata (`bridge`), and what the helper has to say of the
cell comes back as a payload of the execute_reply. Everything else is a `bridge_request` message on the shell
channel, answered by `bridge_reply`; like comm messages these are never aborted and run no user code by themselves.
All of it happens in the kernel's main thread, between cells.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # see bridge.injected.threads
import json
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from . import (
    around,
    bridge_magics,
    celltexts,
    display,
    forks,
    frozen,
    inspection,
    live,
    picklers,
    streams,
    threads,
)
from .between import Between, has_tasks
from .blobs import Folder
from .environment import Environment
from .items import ROOT as ENVIRONMENT
from .loader import Source
from .patches import ROOT as PATCH
from .patches import Patches
from .plain import Names, PlainNamespace
from .session import Session
from .snapshot import OUTPUT, Snapshots, is_name
from .stamps import plain_value
from .streams import Streams
from .symbols import Symbols, Tracker

PAYLOAD = "bridge"
_STOPPED = (-signal.SIGINT, 128 + signal.SIGINT)  # exit codes of a command that an interrupt ended
_IGNORE = int(signal.SIG_IGN)  # as `_signal` wants it
_SOON = 0.05  # seconds until a cell about to begin has begun
_USES_OUTPUTS = re.compile(r"\b(?:_+|Out|_oh|_\d+)\b")

Request = dict[str, Any]
Reply = dict[str, Any]


class Helper:
    """The server's hands inside one kernel."""

    def __init__(self, shell: Any, options: dict[str, Any]) -> None:
        self.shell = shell
        self.kernel = shell.kernel
        self.options = options
        self._baseline = dict(shell.user_ns)
        self.environment = Environment(shell)
        self.patches = Patches(shell.user_ns)
        self.leftovers = threads.Leftovers()
        self.streams = Streams(self.leftovers)
        self.rest = options["door"] == "rest"
        self.names = PlainNamespace(shell) if self.rest else Names(shell)
        self.between = Between(shell)
        self.tracker = Tracker(shell)
        folder = Folder(options["blobs"])
        self.snapshots = Snapshots(shell.user_ns, folder, options["kernel_id"], self.tracker.learn)
        package = __name__.rpartition(".")[0]
        self.modules = {name: each for name, each in sys.modules.items() if name.partition(".")[0] == package}
        self.session = Session(shell, self._names, self._know_source)
        self.absent: dict[str, str] = {}  # name -> why the state at hand lacks it
        self.aliases: dict[str, Any] = {}  # what a cell over several states sees beside the namespace
        self.moving = False  # the cell goes to another state at its end
        self._order: list[str] = []
        self._plan: Any = None
        self._ids: dict[str, int] = {}
        self._last_ids: dict[str, int] = {}  # after the last cell
        self._alone = True  # nothing but cells has run, or may run between them
        self._depth = 0  # cells under way: one that a cell runs counts as its own
        self._header: Any = {}
        self.forks = forks.Forks(self)
        self._handlers: dict[str, Callable[[Request, list[Any]], Reply]] = {
            "switch": self._switch,
            "fork": self.forks.order,
            "forked": self._forked,
            "inspect": self._inspect,
            "inspect_here": self._inspect_here,
            "aliases": self._set_aliases,
            "session_adopt": self._adopt,
            "session_save": self.session.save,
            "session_restore": self.session.restore,
        }

    def install(self) -> None:
        """Hook into the shell and the kernel."""
        shell, options = self.shell, self.options
        self.kernel.shell_handlers["bridge_request"] = self._on_request
        shell.events.register("pre_run_cell", self._before_cell)
        shell.events.register("post_run_cell", self._after_cell)
        show = shell.showtraceback

        def showtraceback(*args: Any, **kwargs: Any) -> Any:
            self._explain_absence()
            return show(*args, **kwargs)

        shell.showtraceback = showtraceback
        self.tracker.install()
        streams.drop_nothing(self.kernel)
        self.streams.install(ordered=self.rest)
        display.safe_packing(self.kernel.session)
        actions: dict[str, Any] = {
            name: lambda module, name=name: self.environment.library_loaded(name)
            for name in self.environment.libraries()
        }
        if not self.rest:
            self.between.install()
            bridge_magics.install(self)
            shell.events.register("pre_execute", self._before_code)
            display.Watch(actions).install()
            return
        shell.ask_exit = self._ask_exit
        around.reply_at_once(self.kernel)
        around.begin_unannounced(self.kernel, PAYLOAD)
        around.Quiet(self.kernel)
        around.inspect_once()
        self.names.install()
        display.whole_lines_from_forks()
        display.last_words(self.kernel)
        display.lenient_bundles(shell)
        shell.compile.get_code_name = celltexts.code_name
        pandas, floats = display.pandas_defaults(options), display.numpy_floats(shell)

        def pandas_loaded(module: Any) -> None:
            pandas(module)
            self.environment.library_loaded("pandas")

        def numpy_loaded(module: Any) -> None:
            floats(module)
            self.environment.library_loaded("numpy")

        actions.update(pandas=pandas_loaded, numpy=numpy_loaded, polars=display.polars_defaults(options))
        actions["matplotlib.backend_bases"] = display.show_figures
        display.Watch(actions).install()

    # Around a cell.

    def _before_code(self) -> None:
        """Code is about to run, be it a cell of the notebook's or not."""
        if not self._orders() or not _is_main():
            self.between.note()

    def _orders(self) -> Request:
        """What the server wants of the message at hand; nothing when it is not about a cell of its own."""
        orders: Request = (self.kernel.get_parent("shell") or {}).get("metadata", {}).get(PAYLOAD) or {}
        return orders

    def _before_cell(self, info: Any) -> None:
        """IPython is about to run a cell; a cell may run others, which are part of it."""
        if not _is_main():
            return  # in a subshell, beside the notebook's cells
        self._depth += 1
        if self._depth > 1:
            return
        late: list[int] = []
        interrupt = _signal.signal(signal.SIGINT, lambda number, frame: late.append(number))
        try:
            self._begin(info)
        finally:
            _signal.signal(signal.SIGINT, interrupt)
        if late:
            # Raised here it would end this hook alone; the cell is what it is meant for.
            threading.Timer(_SOON, os.kill, (os.getpid(), signal.SIGINT)).start()

    def _begin(self, info: Any) -> None:
        """Note how things are before a cell."""
        self.forks.transport.know_own()
        self.streams.remember(self._header)
        header = self.kernel.get_parent("shell") or {}
        self._header = header.get("header") or {}
        self.shell.user_ns.update(self.aliases)
        self._ids = {name: id(value) for name, value in self.shell.user_ns.items()}
        self.patches.expect(info.raw_cell)
        self.environment.expect(info.raw_cell)
        if not self._alone:
            self.snapshots.ledger.untell()
        hanging = None if self.between.noted else self.snapshots.hanging
        self._plan = self.tracker.begin(info.raw_cell, getattr(info, "transformed_cell", None), hanging)

    def _after_cell(self, result: Any) -> None:
        """The cell is over: save what it changed and say so in the reply's payload."""
        # An empty cell, or one that an interrupt kept from beginning, has had no hook before it.
        self._depth = max(0, self._depth - 1)
        if self._depth and not self._is_over(result):
            return
        self._depth = 0
        if not _is_main() or (not self.rest and not self._orders()):
            return  # no cell of the notebook: what it changed is in the next one's state
        # An interrupt that comes too late for the cell must not hit the helper.
        interrupt = _signal.signal(signal.SIGINT, _IGNORE)
        try:
            self._stand()
            report = self._report(result)
            self.streams.catch_up()
        except Exception as error:  # a fault of ours must be told, not printed into the user's cell
            report = {"fault": "".join(traceback.format_exception(error))}
        finally:
            _signal.signal(signal.SIGINT, interrupt)
        self.shell.payload_manager.write_payload(
            {"source": PAYLOAD, "report": json.dumps(report)}, single=False
        )

    def _is_over(self, result: Any) -> bool:
        """Whether the request's own cell has ended, and not one that it ran."""
        code = (self.kernel.get_parent("shell") or {}).get("content", {}).get("code")
        return result is None or getattr(getattr(result, "info", None), "raw_cell", None) == code

    def _stand(self) -> None:
        """Put the helper's own modules back where pickles look for them, should a cell have purged `sys.modules`."""
        if not self.modules.items() <= sys.modules.items():
            sys.modules.update(self.modules)

    def _report(self, result: Any) -> Reply:
        orders = self._orders()
        error = result is None or not result.success
        if not error and getattr(self.shell, "_last_traceback_during_displayhook", False):
            # ipykernel 7 fails a cell whose value could not be shown; the cell itself went well.
            self.shell._last_traceback_during_displayhook = False
        if self.rest:
            display.figures_at_cell_end(error)
            self.names.hide()
        plan, self._plan = self._plan, None
        symbols = self.tracker.end(plan, error) if plan is not None else Symbols([], [], [], True, set())
        self._alone = symbols.alone
        for alias in self.aliases:
            self.shell.user_ns.pop(alias, None)
        # An empty cell runs no hook before it: nothing can have changed.
        ids = self._ids if plan is not None else {n: id(v) for n, v in self.shell.user_ns.items()}
        names = self._names()
        scope = self.shell.user_ns
        between = not self.rest and (self.between.take() or orders.get("all"))
        if between:
            ids = self._last_ids
        rebound = {name for name in names if ids.get(name) != id(scope[name])} | set(symbols.modified)
        touched = symbols.touched
        raw_cell = getattr(getattr(result, "info", None), "raw_cell", "") or ""
        values = {name: scope[name] for name in names}
        outputs = {f"{OUTPUT}{number}": value for number, value in self.names.outputs.items()}
        values.update(outputs)
        if touched is not None and _USES_OUTPUTS.search(raw_cell):
            touched = touched | outputs.keys()
        for source in (self.environment, self.patches):
            found, dirty = source.changed()
            values.update(found)
            rebound |= dirty
            touched = touched if touched is None else touched | dirty
        reply: Reply = {
            "accessed": symbols.accessed,
            "modified": symbols.modified,
            "deleted": symbols.deleted,
            "certain": symbols.certain,
            "count": self.shell.execution_count,
            "bound": self.leftovers.reasons() + ["a module taken away"] * self.environment.modules.removed,
            "stopped": self._was_stopped(rebound),
        }
        if symbols.problem:
            reply["problem"] = symbols.problem
        if self.leftovers.threads():
            touched = None  # a thread may have changed anything
        if between:
            touched = None
            # Of a value that is gone an identity is no proof; numbers and the like come and go.
            rebound |= {name for name in names if plain_value(scope[name])}
        if orders.get("session"):
            failure = result.error_in_exec or result.error_before_exec if result is not None else None
            if not error or failure is not None:
                self.session.after_cell(
                    self.names.transformed(raw_cell),
                    failure if error else None,
                    celltexts.code_name(raw_cell),
                )
        if orders.get("everything"):  # no cell since the last snapshot was looked at
            rebound, touched = set(values), None
        rebound &= values.keys()
        if (
            (error and not orders.get("keep_on_error"))
            or orders.get("discard")
            or self._leaves_none(raw_cell)
        ):
            if between:
                self.between.note()
            reply["dirty"] = self.snapshots.dirty(values, rebound, touched)
            return reply
        nonce = str(orders.get("nonce", "0"))
        read = set(symbols.accessed) if symbols.certain else set(values)
        taken = self.snapshots.take(values, rebound, touched, read, nonce, str(orders.get("state", "")))
        reply.update(taken)
        reply["lost"] = sorted(self.snapshots.lost)
        if any(
            unit["engine"] == "live" and unit["roots"][:1] and unit["roots"][0].startswith(PATCH)
            for unit in reply["units"]
        ):
            reply["bound"].append("a patched attribute that cannot be saved")
        if not self.rest:
            reply["cells"] = celltexts.cells_of(self.shell.compile, reply["units"])
            self._last_ids = {name: id(value) for name, value in scope.items()}
            if (self.kernel.get_parent("shell") or {}).get("content", {}).get("user_expressions"):
                self.between.note()  # they are evaluated after the cell
        reply["engine"] = picklers.engine_name()
        reply["order"] = names if names != self._order else None
        self._order = names
        return reply

    def _leaves_none(self, code: str) -> bool:
        """Whether a cell leaves no state: it goes to another one, or does nothing but command the bridge."""
        moving, self.moving = self.moving, False
        return moving or (not self.rest and bridge_magics.only_commands(code))

    def _was_stopped(self, rebound: set[str]) -> bool:
        """Whether a shell command of the cell was ended by an interrupt, of which IPython makes no error."""
        return "_exit_code" in rebound and self.shell.user_ns.get("_exit_code") in _STOPPED

    def _names(self) -> list[str]:
        """The user's names, in the namespace's order."""
        baseline, missing, own = self._baseline, object(), self.names.own()
        return [
            name
            for name, value in self.shell.user_ns.items()
            if baseline.get(name, missing) is not value
            and type(name) is str
            and name not in self.aliases
            and name not in own
        ]

    def _explain_absence(self) -> None:
        """Let the NameError of a name that could not be brought back say why."""
        error = sys.exc_info()[1]
        name = getattr(error, "name", None)
        if isinstance(error, NameError) and name in self.absent and error.args:
            explanation = self.absent[name]
            if explanation not in str(error.args[0]):
                error.args = (f"{error.args[0]}: {explanation}", *error.args[1:])

    def _ask_exit(self) -> None:
        """`exit()` in a cell: the payload says so; the kernel, which is not the cell's to end, goes on."""
        self.shell.payload_manager.write_payload({"source": "ask_exit", "keepkernel": True})

    # Requests.

    def _on_request(self, stream: Any, ident: Any, message: dict[str, Any]) -> None:
        """Answer one `bridge_request`."""
        content = message["content"]
        interrupt = _signal.signal(signal.SIGINT, _IGNORE)
        buffers: list[Any] = []
        try:
            self._stand()
            self.streams.settle()
            reply = self._handlers[content["op"]](content, message.get("buffers", []))
            reply.setdefault("status", "ok")
            buffers = reply.pop("buffers", buffers)
        except Exception as error:  # the server decides what to do about a fault of ours
            reply = {"status": "error", "reason": "".join(traceback.format_exception(error))}
        finally:
            _signal.signal(signal.SIGINT, interrupt)
        session = self.kernel.session
        session.send(stream, "bridge_reply", reply, parent=message, ident=ident, buffers=buffers)

    def _sources(self, records: list[Request], buffers: list[Any]) -> list[Source]:
        """The units of a request: their pickles come as buffers, or lie in the blob folder."""
        folder, sources = self.snapshots.folder, []
        for record in records:
            data: Any = b""
            if record.get("chunks"):
                data = folder.read_chunks(record["chunks"], record["length"])
            elif record.get("buffer") is not None:
                data = bytes(buffers[record["buffer"]])
            sources.append(Source(record, data))
        return sources

    def _switch(self, request: Request, buffers: list[Any]) -> Reply:
        """Make the namespace, and all that belongs to a state, those of another state."""
        self.streams.remember(self._header)
        scope = self.shell.user_ns
        snapshots = self.snapshots
        for name in self._names():
            if name not in snapshots.ledger.of_root:
                del scope[name]  # what a failed cell left behind
        dropped = snapshots.drop(request["drop"])
        with live.nothing_finalized():
            for name in dropped:
                if is_name(name):
                    scope.pop(name, None)
        sources = self._sources(request["load"], buffers)
        roots = self._kept_roots(dropped)
        failed = self._load_early(sources, roots)
        values, missing = snapshots.load([source for source in sources if not self._is_early(source)])
        roots.update((root, value) for root, value in values.items() if not is_name(root))
        # As the compiler has them: a name that is another string, if an equal one, is found more slowly.
        scope.update({sys.intern(root): value for root, value in values.items() if is_name(root)})
        self._reorder(request["order"])
        environment = {root: value for root, value in roots.items() if root.startswith(ENVIRONMENT)}
        failed += self.environment.put(environment, early=False)
        # Read as the line's own transformers would.
        celltexts.make_known(self.shell.compile, request["cells"], self.names.transformed)
        self.environment.seed(request["seed"], environment)
        self.patches.put({root: value for root, value in roots.items() if root.startswith(PATCH)})
        outputs = {int(root.removeprefix(OUTPUT)): roots[root] for root in roots if root.startswith(OUTPUT)}
        self.names.restore(request["inputs"], outputs, request["keep_inputs"], request["count"])
        self.absent = {**request["absent"], **{lost["name"]: _why(lost) for lost in missing}}
        self._order = self._names()
        self._last_ids = {name: id(value) for name, value in scope.items()}
        self.tracker.restored()
        return {"failed": failed, "missing": [_plain(lost) for lost in missing]}

    def _kept_roots(self, dropped: set[str]) -> dict[str, Any]:
        """The values of the private roots that stay as they are."""
        held = self.snapshots.ledger.of_root
        current: dict[str, Any] = {f"{OUTPUT}{number}": value for number, value in self.names.outputs.items()}
        current.update({item.root: item.value for item in self.environment.items if item.stored()})
        current.update(self.patches.changed()[0])
        return {root: value for root, value in current.items() if root in held and root not in dropped}

    def _is_early(self, source: Source) -> bool:
        roots = source.record["roots"]
        return len(roots) == 1 and roots[0] in self.environment.early_roots

    def _load_early(self, sources: list[Source], roots: dict[str, Any]) -> list[dict[str, str]]:
        """Bring back what imports depend on, before anything is imported."""
        values, _ = self.snapshots.load([source for source in sources if self._is_early(source)])
        roots.update(values)
        return self.environment.put(
            {k: v for k, v in roots.items() if k in self.environment.early_roots}, early=True
        )

    def _reorder(self, order: list[str]) -> None:
        """Give the names the order that they had."""
        scope = self.shell.user_ns
        wanted = [name for name in order if name in scope]
        if [name for name in self._names() if name in scope] == wanted:
            return
        for name in wanted:
            scope[sys.intern(name)] = scope.pop(name)

    def _know_source(self, text: str) -> str:
        """Make a definition's source known as a cell's is; the file name of its code."""
        name = celltexts.code_name(text)
        celltexts.make_known(self.shell.compile, [[text, 0, name]], self.names.transformed)
        return name

    def _adopt(self, request: Request, buffers: list[Any]) -> Reply:
        """The state at hand is a session's from now on."""
        cells = [self.names.transformed(text) for text in request["cells"]]
        return self.session.adopt({"cells": cells}, buffers)

    def _forked(self, request: Request, buffers: list[Any]) -> Reply:
        """This process is a kernel of that id, just forked; no cell has run in it."""
        kernel_id = request["kernel_id"]
        self.options["kernel_id"] = self.snapshots.live.kernel_id = kernel_id
        self.environment.modules.settle()
        self.forks.settle()
        self.leftovers.know_threads()
        self.tracker.know_threads()
        streams.drop_nothing(self.kernel)
        return {}

    # Over states that this kernel does not hold.

    def _inspect(self, request: Request, buffers: list[Any]) -> Reply:
        """Hashes, groups, reprs or a display bundle of a state's values, in a namespace apart."""
        scratch = inspection.Scratch(self.snapshots.folder, self.options["kernel_id"])
        scratch.load(self._sources(request["load"], buffers))
        return inspection.answer(request, scratch.scope, scratch.failed, self.shell)

    def _inspect_here(self, request: Request, buffers: list[Any]) -> Reply:
        """Hashes and groups of the values at hand; `known` is false when that takes a namespace apart."""
        if has_tasks() or not inspection.are_plain(request, self.shell.user_ns):
            return {"known": False}
        return {"known": True, **inspection.answer(request, self.shell.user_ns, {}, self.shell)}

    def _set_aliases(self, request: Request, buffers: list[Any]) -> Reply:
        """Give the next cells one object for each aliased state; an empty request takes them away."""
        for alias in self.aliases:
            self.shell.user_ns.pop(alias, None)
        folder, kernel_id = self.snapshots.folder, self.options["kernel_id"]
        self.aliases = {
            alias: inspection.StateView(
                inspection.Aliased(
                    alias, inspection.Scratch(folder, kernel_id), self._sources(records, buffers)
                )
            )
            for alias, records in request["aliases"].items()
        }
        return {}


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _why(lost: dict[str, Any]) -> str:
    """What a NameError says of a live value that is not here."""
    record = lost.get("live")
    if record is None:
        return f"it could not be brought back: {lost['reason']}"
    where = f" (made in state {record['made_in']!r})" if record.get("made_in") else ""
    return (
        f"the {record['type']}{where} could not be saved ({record['reason']}), "
        "and the kernel that held it is gone or has moved it on"
    )


def _plain(lost: dict[str, Any]) -> dict[str, str]:
    return {"name": lost["name"], "reason": lost["reason"]}


def start(shell: Any, options: dict[str, Any]) -> Helper:
    """Install the helper in this kernel. Called once, by the code that the server sends."""
    helper = Helper(shell, options)
    helper.install()
    frozen.freeze(helper.modules.values())
    forks.start(helper.forks)
    return helper


assert threading.current_thread() is threading.main_thread(), "the helper works in the main thread"
