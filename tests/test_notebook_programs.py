"""What programs that keep a notebook's cells as states rely on, and what their users then see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.concurrency import Flag, background
from tests.support import Client, text_of

INSPECTION = """
import json
import types

def _look():
    try: import pandas as pd
    except ImportError: pd = None
    found = {}
    for name, value in list(globals().items()):
        if name.startswith('_') or isinstance(value, (types.ModuleType, types.FunctionType)):
            continue
        found[name] = type(value).__name__
        if pd is not None and isinstance(value, pd.DataFrame):
            found[name] += str(value.shape)
    return found

print(json.dumps(_look()))
"""


@pytest.mark.parametrize("code", ["", "   \n\t\n", "# only a comment", "\n\n'''text'''\n"])
def test_a_cell_that_does_nothing_is_a_cell(client: Client, code: str) -> None:
    start = client.run("x = [1]")["state_name"]
    reply = client.run(code, start)
    assert reply["state_name"] not in (None, start)
    assert reply["changed_symbols"] == reply["modified_symbols"] == reply["deleted_symbols"] == []
    assert text_of(client.run("x.append(2); print(x)", reply["state_name"])) == "[1, 2]\n"
    # And a cell that did something is told apart from the empty one before it.
    assert client.run("y = 1", reply["state_name"])["modified_symbols"] == ["y"]


def test_globals_hold_what_a_plain_script_would_have(client: Client) -> None:
    state = client.run("import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]}); n = 1; _own = 2; w = 'w'")
    for isolation in ("shared", "fresh"):
        reply = client.run(INSPECTION, state["state_name"], isolation=isolation)
        [output] = reply["output"]
        assert json.loads(output["text"]) == {"df": "DataFrame(2, 1)", "n": "int", "w": "str"}
    shown = client.run("print([k for k in globals() if k[0] != '_'], [k for k in dir() if k[0] != '_'])")
    assert text_of(shown) == "[] []\n"
    resolved = client.run(
        "print(len(In) > 0, type(Out), callable(get_ipython), callable(exit), callable(open))"
    )
    assert text_of(resolved) == "True <class 'dict'> True True True\n"


def test_inspecting_a_state_changes_nothing(client: Client) -> None:
    start = client.run("a = [1]; b = {'a': a}\ndef f(): return a")["state_name"]
    reply = client.run(INSPECTION, start, "look")
    assert reply["changed_symbols"] == []
    assert reply["accessed_symbols"] == ["a", "b", "f"]
    before = client.post("/alias_groups", {"state_name": start})[1]
    after = client.post("/alias_groups", {"state_name": "look"})[1]
    pairs = dict(zip(map(tuple, after["groups"]), after["fingerprints"], strict=True))
    for group, fingerprint in zip(before["groups"], before["fingerprints"], strict=True):
        assert pairs[tuple(group)] == fingerprint
    assert client.delete("/states/look")[0] == 200


def test_modules_functions_and_private_names_are_in_a_group_with_a_fingerprint(client: Client) -> None:
    code = "import math\nfrom os import path\n_k = 2\ndef f(): return _k\nclass C: pass\n"
    code += "lam = lambda: f\nn = None"
    states = [client.run(code, isolation="fresh")["state_name"] for _turn in range(2)]
    told = []
    for state in states:
        groups = client.post("/alias_groups", {"state_name": state})[1]
        names = [name for group in groups["groups"] for name in group]
        assert sorted(names) == sorted(["math", "path", "_k", "f", "C", "lam", "n"])
        assert all(isinstance(f, str) and len(f) == 64 for f in groups["fingerprints"])
        told.append(sorted(zip(map(tuple, groups["groups"]), groups["fingerprints"], strict=True)))
    assert told[0] == told[1]


def test_swapped_values_are_not_taken_for_unchanged_ones(client: Client) -> None:
    """Programs compare the set of fingerprints: the names must be part of what is hashed."""
    sets = []
    for code in ("a = [1]; b = [2]", "a = [2]; b = [1]"):
        state = client.run(code)["state_name"]
        sets.append(set(client.post("/alias_groups", {"state_name": state})[1]["fingerprints"]))
    assert not sets[0] & sets[1]


def test_a_live_value_that_moved_has_another_fingerprint(client: Client) -> None:
    """None, or one constant for all, would compare equal and let a program skip a cell wrongly."""
    before = client.run("gen = (k for k in range(5)); kept = [1]")["state_name"]
    moved = client.run("next(gen)", before)["state_name"]

    def prints(state: str) -> dict[str, Any]:
        groups = client.post("/alias_groups", {"state_name": state})[1]
        return {g[0]: f for g, f in zip(groups["groups"], groups["fingerprints"], strict=True)}

    first, second = prints(before), prints(moved)
    assert first["kept"] == second["kept"]
    assert first["gen"]
    assert second["gen"]
    assert first["gen"] != second["gen"]


def test_a_skipped_cell_is_rebuilt_from_two_states(client: Client) -> None:
    """The sequence of a program that reuses a cell's result: overwrite a state while reading from it."""
    client.run("L = []; x = [L]; u = L; w = 1", new="one")
    client.run("x[0].append(1); x.pop()", "one", "two")
    client.run("L = []; x = [L]; u = L; w = 100", new="one")
    status, rebuilt = client.post(
        "/rebuild_state",
        {
            "input_state": "one",
            "source_state": "two",
            "source_vars": ["L", "nobody", "u", "x"],
            "input_vars": ["nobody", "w", "x"],
            "new_state_name": "two",
        },
    )
    assert (status, rebuilt["state_name"]) == (200, "two")
    for isolation in ("shared", "fresh"):
        reply = client.run("print(u, x, w, u is L)", "two", isolation=isolation)
        assert text_of(reply) == "[1] [] 100 True\n"
    executed = client.run("L = [1]; u = L; x = []; w = 100", new="same")["state_name"]
    expected = client.post("/alias_groups", {"state_name": executed})[1]
    assert dict(zip(map(tuple, rebuilt["groups"]), rebuilt["fingerprints"], strict=True)) == dict(
        zip(map(tuple, expected["groups"]), expected["fingerprints"], strict=True)
    )


def test_instances_and_classes_meet_again_in_a_rebuilt_state(client: Client) -> None:
    client.run("class Box: pass\nbox = Box()\ndef f(): return n\nn = 1", new="from")
    client.run("n = 2", "from", "other")
    for source, rest in (("box", ["Box", "f", "n"]), ("Box", ["box", "f", "n"])):
        status, _ = client.post(
            "/rebuild_state",
            {"input_state": "other", "source_state": "from", "source_vars": [source], "input_vars": rest}
            | {"new_state_name": "mixed"},
        )
        assert status == 200
        assert text_of(client.run("print(type(box) is Box, f())", "mixed", isolation="fresh")) == "True 2\n"


@pytest.mark.parametrize("alias", ["__state__load", "__state__Load data", "a.b", "ü", "class"])
def test_any_text_is_an_alias(client: Client, alias: str) -> None:
    client.run("x = 42", new="s")
    body = {"code": f"print(globals()[{alias!r}].x)", "exec_id": "m", "state_mapping": {alias: "s"}}
    status, reply = client.post("/multistate_execute", body | {"default_state": None})
    assert status == 200
    assert reply["error"] is None
    assert text_of(reply) == "42\n"
    status, reply = client.post("/multistate_execute", {"code": "1", "exec_id": "m", "state_mapping": {}})
    assert (status, reply["error"]) == (200, None)


def test_a_missing_module_is_found_once_it_is_there(client: Client, tmp_path: Path) -> None:
    """The failed cell, unchanged, succeeds once something outside the notebook has mended it."""
    state = client.run(f"import sys; sys.path.append({str(tmp_path)!r})")["state_name"]
    cell = "import mended_later; print(mended_later.word)"
    reply = client.execute(cell, state)
    assert reply["error"]["ename"] == "ModuleNotFoundError"
    assert reply["error"]["evalue"] == "No module named 'mended_later'"
    assert [o["output_type"] for o in reply["output"]] == ["error"]
    (tmp_path / "mended_later.py").write_text("word = 'found'\n")
    assert text_of(client.run(cell, state)) == "found\n"


def test_the_notebooks_classes_can_be_pickled_by_its_own_code(client: Client) -> None:
    state = client.run("class Box:\n    def __init__(self): self.v = 1")["state_name"]
    for isolation in ("shared", "fresh"):
        reply = client.run(
            "import pickle\nb = pickle.loads(pickle.dumps(Box()))\nprint(__name__, b.v, type(b) is Box)",
            state,
            isolation=isolation,
        )
        assert text_of(reply) == "__main__ 1 True\n"


def test_a_database_connection_is_usable_in_the_next_cell(client: Client) -> None:
    reply = client.run(
        "import sqlite3\ndb = sqlite3.connect(':memory:'); db.execute('create table t (n)'); None"
    )
    assert reply["state"]["live"] == ["db"]
    state = client.run("db.execute('insert into t values (7)'); None", reply["state_name"])["state_name"]
    assert text_of(client.run("print(db.execute('select n from t').fetchall())", state)) == "[(7,)]\n"


def test_a_class_changed_later_is_as_it_was_for_an_earlier_cell(client: Client) -> None:
    early = client.run("class Tax:\n    rate = 1\n    def of(self): return self.rate\nt = Tax()")[
        "state_name"
    ]
    late = client.run("Tax.rate = 5\nTax.of = lambda self: 'changed'\nTax.extra = 1", early)["state_name"]
    for isolation in ("shared", "fresh"):
        look = "print(t.of(), Tax.rate, hasattr(Tax, 'extra'))"
        assert text_of(client.run(look, early, isolation=isolation)) == "1 1 False\n"
        assert text_of(client.run(look, late, isolation=isolation)) == "changed 5 True\n"


def test_a_changed_global_reaches_through_functions_and_class_bodies(client: Client) -> None:
    state = client.run("rate = 2\ndef tax(v): return v * rate\ndef total(): return tax(10)")["state_name"]
    state = client.run("rate = 3", state)["state_name"]
    reply = client.run("class Bill:\n    sum = total()\nprint(Bill.sum)", state)
    assert text_of(reply) == "30\n"
    assert reply["accessed_symbols"] == ["rate", "tax", "total"]


def test_a_big_cell_is_a_cell(client: Client) -> None:
    reply = client.run(f"text = {'v' * 300_000!r}\nprint(len(text))")
    assert text_of(reply) == "300000\n"


def test_replacing_a_state_keeps_its_place_and_a_failed_run_its_content(client: Client) -> None:
    client.post("/reset")
    for name in ("a", "b", "c"):
        client.run(f"v = {name!r}", new=name)
    client.run("v = 'new'", "b", "b")
    assert client.get("/states")[1]["states"] == ["initial", "a", "b", "c"]
    assert client.execute("v = 'bad'; nope", "b", "b")["error"]["ename"] == "NameError"
    assert text_of(client.run("print(v)", "b")) == "new\n"


def test_prints_of_a_thread_of_an_earlier_cell_do_not_spoil_the_inspection(
    client: Client, tmp_path: Path
) -> None:
    go, done = Flag(tmp_path), Flag(tmp_path)
    body = "\n".join("    " + line for line in go.waiting.splitlines())
    code = f"import threading\ndef talk():\n{body}\n    for _ in range(100): print('noise', flush=True)\n"
    code += f"    {done.raising}\nthreading.Thread(target=talk).start(); n = 1"
    state = client.run(code)["state_name"]
    looking = background(client.run, f"{go.raising}\n{done.waiting}\n{INSPECTION}", state)
    [output] = looking.result(60)["output"]
    assert json.loads(output["text"])["n"] == "int"
