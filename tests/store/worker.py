"""What the tests run in other processes: `python -m tests.store.worker TASK HOME [ARGUMENT]`.

Each writes a line when something is done; those that wait do so until their input ends.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
from pathlib import Path

from bridge.errors import StateNotFound, StoreError
from bridge.store.home import Home
from bridge.store.store import Store
from tests.store.support import put, unit


def say(line: object) -> None:
    print(line, flush=True)


def put_forever(path: Path, workspace: str) -> None:
    """Store states for ever, with blobs, replacing some, sweeping now and then; says each name."""
    store = Store(Home.open(path))
    number = len(store.names(workspace))
    units = {f"k{index}": unit(f"k{index}") for index in range(50)}
    parent = None
    while True:
        number += 1
        key = f"k{number % 50}"
        address = store.blobs.put(f"blob {workspace} {number}".encode() * 100)
        units[key] = unit(key, None, (address,), number=number)
        parent = put(store, workspace, f"s{number}", *units.values(), parent=parent, code=f"n = {number}").id
        say(f"s{number}")
        if number % 7 == 0:
            put(store, workspace, "replaced", *units.values(), parent=parent, info={"number": number})
        if number % 20 == 0:
            store.collect()


def churn(path: Path, workspace: str) -> None:
    """Store states for ever, each with an old blob of its own and one of ten that come again and again.

    Says +NAME of each when it is stored, -NAME before an older one is deleted, and =NAME of labels.
    """
    store = Store(Home.open(path))
    number = 0
    while True:
        number += 1
        own = store.blobs.put(f"{workspace} {number} ".encode() * 500)
        shared = store.blobs.put(f"shared {number % 10} ".encode() * 500)
        state = put(
            store, workspace, f"s{number}", unit("own", None, (own,)), unit("shared", None, (shared,))
        )
        os.utime(store.blobs.path(own), (0, 0))  # so that it may go at once when it is not needed
        say(f"+s{number}")
        if number % 5 == 0:
            with contextlib.suppress(StateNotFound):  # evicted before it was labelled
                store.label(workspace, f"label{number}", state)
                say(f"=label{number}")
        if number > 10:
            say(f"-s{number - 10}")
            store.delete(workspace, f"s{number - 10}")


def free_forever(path: Path, limit: str) -> None:
    """Sweep for ever, and with a limit evict too; says when each round begins."""
    store = Store(Home.open(path), housekeeping=False)
    while True:
        say("round")
        store.collect(strays=0)
        if int(limit):
            store.evict(int(limit), grace=0)


def put_many(path: Path, workspace: str) -> None:
    """Store 200 states and say how many names there are."""
    store = Store(Home.open(path))
    say("ready")
    sys.stdin.readline()
    for number in range(200):
        put(
            store,
            workspace,
            f"{workspace}-{number}",
            unit("common"),
            unit("own", f"{workspace} {number}".encode()),
        )
    say(len(store.names(workspace)))
    store.close()


def pin(path: Path, name: str) -> None:
    """Pin the state w:NAME, until the input ends."""
    store = Store(Home.open(path))
    state = store.find("w", name)
    assert state is not None
    with store.pin(state):
        say("pinned")
        sys.stdin.read()
    store.close()


def hold(path: Path, name: str) -> None:
    """Have a kernel that holds the state w:NAME, until the input ends."""
    store = Store(Home.open(path))
    state = store.find("w", name)
    assert state is not None
    held = [state.id]
    store.keep_under(None, holding=lambda: held)
    with store.pin(state):  # as the cell that brought it there did
        pass
    store._uses.write()
    say("held")
    sys.stdin.read()
    store.close()


def open_workspace(path: Path, name: str) -> None:
    """Hold a new workspace open until the input ends; says its name."""
    store = Store(Home.open(path))
    say(store.open_workspace(None if name == "-" else name))
    sys.stdin.read()
    store.close()


def fill_disk(path: Path, _: str) -> None:
    """Store with a disk that is "full" (files may not grow), then with room; says what came of it."""
    store = Store(Home.open(path))
    put(store, "w", "before", unit("x"))
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        put(store, "w", "large", unit("x", b"x" * 1_000_000))
    except StoreError as error:
        say(f"put: {error}")
    try:
        store.blobs.put(b"b" * 1_000_000)
    except StoreError as error:
        say(f"blob: {error}")
    state = store.find("w", "before")
    assert state is not None
    say(f"names: {store.names('w')} {state.code}")
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    put(store, "w", "after", unit("x", b"x" * 1_000_000))
    say(f"names: {store.names('w')}")
    say(f"blobs: {[file.name for file in store.blobs.root.rglob('*') if file.is_file()]}")
    store.close()


def ephemeral(path: Path, how: str) -> None:
    """Open a temporary home in `path` and say where; then end, or wait to be killed."""
    home = Home.open(path, ephemeral=True)
    put(Store(home), "w", "s", unit("x"))
    say(home.path)
    if how == "wait":
        sys.stdin.read()


def create(path: Path, _: str) -> None:
    """Open the home at the signal; says its seed."""
    say("ready")
    sys.stdin.readline()
    say(Home.open(path).hash_seed)


TASKS = {
    task.__name__: task
    for task in (
        put_forever,
        churn,
        free_forever,
        put_many,
        pin,
        hold,
        open_workspace,
        fill_disk,
        ephemeral,
        create,
    )
}

if __name__ == "__main__":
    TASKS[sys.argv[1]](Path(sys.argv[2]), sys.argv[3])
