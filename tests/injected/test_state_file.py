"""State files: caps that hold while a value is pickled, values apart from each other, and the way back."""

from __future__ import annotations

import array
import importlib
import io
import json
import os
import pickle
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridge.injected import state_file
from bridge.injected.captured import looked_up
from bridge.injected.state_file import (
    DEFINITION_CAP,
    TOTAL_CAP,
    VALUE_CAP,
    NotAStateFile,
    TooLarge,
    dump,
    load,
    read,
)
from tests.support import ROOT

MIB = 1 << 20


def saved(values: dict[str, Any], definitions: dict[str, str] | None = None) -> state_file.Saved:
    return state_file.save(values, definitions or {}, cwd="/", count=1, used=looked_up)


def test_each_value_is_by_itself() -> None:
    found = saved({"a": 1, "bad": (n for n in ()), "b": [1], "worse": Bad(), "c": {"k": 2}})
    assert found.names == ["a", "b", "c"]
    assert [item["name"] for item in found.skipped] == ["bad", "worse"]
    assert "no way" in found.skipped[1]["reason"]
    content = read(found.data)
    assert {name: load(data) for name, data in content.names.items()} == {"a": 1, "b": [1], "c": {"k": 2}}


class Bad:
    def __reduce__(self) -> Any:
        raise SystemExit("no way")


def test_caps_of_values() -> None:
    full = b"x" * (VALUE_CAP - 4096)
    values: dict[str, Any] = {f"v{n}": full + bytes([n]) for n in range(9)}
    values |= {"over": b"x" * (VALUE_CAP + 1), "small": 1}
    found = saved(values)
    assert found.names == [*(f"v{n}" for n in range(8)), "small"]  # smaller later ones still go in
    reasons = {item["name"]: item["reason"] for item in found.skipped}
    assert reasons.keys() == {"v8", "over"}
    assert "64 MiB are full" in reasons["v8"]
    assert len(found.data) < TOTAL_CAP + MIB
    assert [item["name"] for item in found.largest] == [f"v{n}" for n in range(5)]
    assert "8 MiB" in saved({"over": "x" * (VALUE_CAP + 1)}).skipped[0]["reason"]


def test_largest_are_at_least_64_kib_biggest_first() -> None:
    found = saved({"small": b"x" * 60_000, "b": b"x" * 70_000, "a": b"x" * 90_000})
    assert [item["name"] for item in found.largest] == ["a", "b"]
    assert all(item["bytes"] >= 64 << 10 for item in found.largest)


def test_caps_of_definitions() -> None:
    def sized(number: int, size: int) -> str:
        head = f"def f{number}():\n    pass  #"
        return head + "x" * (size - len(head))

    fits = sized(0, DEFINITION_CAP)
    found = saved({"f0": 1, "f1": 1}, {"f0": fits, "f1": fits.replace("f0", "f1") + "x"})
    assert (found.definitions, found.names) == (["f0"], ["f0"])
    assert [item["name"] for item in found.skipped] == ["f1"]
    many = {f"f{n}": sized(n, DEFINITION_CAP) for n in range(9)} | {"last": "def last(): ..."}
    found = saved(dict.fromkeys(many, 1), many)
    assert [item["name"] for item in found.skipped] == ["f8", "last"]
    assert "256 KiB" in found.skipped[0]["reason"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: list(range(MIB // 2)),
        lambda: [[n] for n in range(MIB // 4)],
        lambda: {n: str(n) for n in range(MIB // 8)},
        lambda: [b"x" * 1000] * 10 + [bytes([n % 256]) * 1000 for n in range(2000)],
        lambda: 1 << (MIB * 8 + 64),
        lambda: array.array("d", bytes(MIB + 8)),
        lambda: bytearray(MIB + 1),
    ],
    ids=["numbers", "lists", "dict", "pieces", "int", "array", "bytearray"],
)
def test_what_grows_beyond_the_cap_is_stopped(make: Callable[[], Any]) -> None:
    value = make()
    with pytest.raises(TooLarge):
        dump(value, MIB, {})
    assert load(dump(value, 4 * MIB, {})[0]) == value


GIANTS = {
    "contiguous": "np.empty(SIZE, 'u1')",
    "fortran": "np.empty((1024, SIZE // 1024), 'u1', order='F')",
    "strided": "np.empty(SIZE, 'u1')[::2]",
    "reversed": "np.empty((1024, SIZE // 1024), 'u1')[::-1, ::-1]",
    "broadcast": "np.broadcast_to(np.uint8(1), (SIZE,))",
    "frame": "pd.DataFrame(np.empty((SIZE // 64, 8)), copy=False)",
    "series": "pd.Series(np.empty(SIZE // 8), copy=False)",
    "nested array": "[1, {'k': np.empty(SIZE, 'u1')}]",
    "nested frame": "[pd.DataFrame(np.empty((SIZE // 64, 8)), copy=False)]",
    "subclass": "np.empty(SIZE, 'u1').view(np.recarray)",
    "beside a lambda": "[lambda: 1, np.empty(SIZE, 'u1')]",  # dill's turn
    "buffer": "[pickle.PickleBuffer(memoryview(np.empty(SIZE, 'u1')))]",
    "str": "'x' * TEXT",
    "bytes": "b'x' * TEXT",
    "nested str": "['x' * TEXT]",
    "text of a wide kind": "'\\u20ac' * TEXT",
}
SCRIPT = """
import gc, json, pickle, sys, time
import numpy as np, pandas as pd
from bridge.injected import state_file
SIZE, TEXT = 4 << 30, 128 << 20
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
def save(value):
    return state_file.save({"v": value}, {}, cwd=None, count=1, used=None)
save([lambda: 1])
found = {}
for name, code in json.load(sys.stdin).items():
    value = eval(code)
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")  # the peak counts from here
    before, started = peak(), time.perf_counter()
    saved = save(value)
    found[name] = [saved.names, saved.skipped, (peak() - before) / 1024, time.perf_counter() - started]
    del value
    gc.collect()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def refusals() -> dict[str, Any]:
    """What a process of its own says of each giant: names, skipped, MiB more at the peak, seconds."""
    if not os.path.exists("/proc/self/clear_refs"):
        pytest.skip("the peak of memory can be measured on Linux alone")
    words = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(
        words, cwd=ROOT, input=json.dumps(GIANTS), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("giant", GIANTS)
def test_four_gigabytes_are_refused_for_nothing(refusals: dict[str, Any], giant: str) -> None:
    """Untouched arrays cost no memory to make; texts do, so theirs are 128 MiB: far over the allowance, too."""
    names, skipped, grown, _ = refusals[giant]
    assert names == []
    assert "larger than the 8 MiB" in skipped[0]["reason"]
    assert grown < 64


def test_open_files_are_skipped_and_keep_their_content(tmp_path: Path) -> None:
    """Opened anew in its mode, one that is written to would be empty."""
    with open(tmp_path / "results", "w") as file:
        print("kept", file=file, flush=True)
        found = saved({"file": file, "inside": [file], "text": io.StringIO("text"), "out": sys.__stdout__})
        assert found.names == ["text", "out"]
        assert {item["reason"] for item in found.skipped} == {"it is an open file"}
        names = read(found.data).names
        assert (load(names["text"]).getvalue(), load(names["out"])) == ("text", sys.__stdout__)
    assert (tmp_path / "results").read_text() == "kept\n"


def test_modules_are_imported_and_keep_their_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "module_of_a_user.py").write_text("version = 1\n")
    module = importlib.import_module("module_of_a_user")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # and gone with the test
    data = read(saved({"inside": [module, lambda: 1]}).data).names["inside"]
    module.version = 2  # edited and reloaded since
    assert load(data)[0] is module
    assert module.version == 2
    own = types.ModuleType("own")
    own.n, own.me = 3, own
    found = load(read(saved({"own": own}).data).names["own"])
    assert (found.__name__, found.n, found.me) == ("own", 3, found)


class Refused(Exception):
    def __init__(self, code: int, url: str) -> None:
        super().__init__(f"{url}: {code}")
        self.code = code


def test_exceptions_come_back_whatever_their_class_takes() -> None:
    data = read(saved({"error": Refused(404, "/x")}).data).names["error"]
    found = load(data)
    assert (type(found), str(found), found.code) == (Refused, "/x: 404", 404)


def test_the_oldest_files_load() -> None:
    content = read(pickle.dumps({"cwd": "/tmp", "names": {"a": pickle.dumps(1)}}))
    assert (content.cwd, content.definitions, load(content.names["a"])) == ("/tmp", {}, 1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK\x03\x04 a zip",
        pickle.dumps([1]),
        pickle.dumps({"cwd": "/"}),
        pickle.dumps({"names": {1: b""}}),
        pickle.dumps({"names": {"a": 3}}),
        pickle.dumps(os.getcwd),
        pickle.dumps({"names": {}})[:-3],
        pickle.dumps({"names": {}, "definitions": [1]}),
    ],
)
def test_damaged_and_foreign_files_are_told(data: bytes) -> None:
    with pytest.raises(NotAStateFile):
        read(data)


def test_a_file_runs_no_code_before_its_values_load() -> None:
    with pytest.raises(NotAStateFile, match="system"):
        read(pickle.dumps({"names": {}, "cwd": Evil()}))


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("exit 3",)


def test_without_dill_what_pickle_can_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dill", None)
    assert state_file.engine_name() == "pickle"
    found = saved({"a": [1, "x"], "f": lambda: 1})
    assert (found.names, [item["name"] for item in found.skipped]) == (["a"], ["f"])
    assert load(read(found.data).names["a"]) == [1, "x"]
