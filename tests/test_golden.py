"""Homes written by earlier versions open in this one, and what they hold comes back as it was."""

from __future__ import annotations

import importlib.util
import re
import tarfile
import uuid
from pathlib import Path

import pytest

from bridge import Kernel
from bridge.settings import Settings
from tests.golden import make
from tests.support import text_of

ARCHIVES = sorted(make.FOLDER.glob("home-*.tar.gz"))


@pytest.mark.parametrize("path", ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.gz"))
def test_an_old_home_gives_back_what_it_holds(path: Path, tmp_path: Path) -> None:
    found = re.fullmatch(r"home-\d+-(\w+[\d.]*)\.tar\.gz", path.name)
    assert found is not None
    kind = found.group(1)
    if kind not in make.KINDS:
        pytest.skip(f"the code in it is {kind}'s, this is {make.MINOR}")
    if kind == "data" and importlib.util.find_spec("numpy") is None:
        pytest.skip("it holds NumPy arrays, and NumPy is not installed here")
    with tarfile.open(path) as packed:
        packed.extractall(tmp_path, filter="data")
    golden = make.KINDS[kind]
    kernel = Kernel(Settings(home=tmp_path / "home", workspace=make.WORKSPACE, pool_size=1))
    try:
        last = f"s{len(golden.cells)}"
        assert kernel.list_states() == ["initial", *(f"s{n}" for n in range(1, len(golden.cells) + 1))]
        for check, expected in golden.checks:
            reply = kernel.execute(check, uuid.uuid4().hex, last)
            assert reply["error"] is None, reply["error"]
            assert text_of(reply) == expected
        assert kernel.get_state("s1") is not None
        # It goes on from there: old and new units meet in one state.
        reply = kernel.execute(golden.cells[0], uuid.uuid4().hex, last, "again")
        assert reply["state_name"] == "again"
    finally:
        kernel.close()


def test_this_version_and_python_have_golden_homes() -> None:
    assert make.archive("data").exists(), "run python -m tests.golden.make"
    if not make.archive(make.MINOR).exists():
        pytest.skip(f"no home was written by {make.MINOR}; python -m tests.golden.make does")
