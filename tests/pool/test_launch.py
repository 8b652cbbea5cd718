"""The choice of a kernelspec, a kernel's environment and the folder of its sockets."""

from __future__ import annotations

import json
import os
import stat
import sys
import tempfile
from pathlib import Path

import pytest

from bridge.errors import KernelStartFailed
from bridge.pool.launch import RuntimeFolder, find_kernelspec, kernel_environment

PLAIN = {"HOME": "/home/a", "PATH": "/bin", "LANG": "C.UTF-8"}


@pytest.mark.parametrize(
    ("base", "secrets"),
    [
        ({"BRIDGE_HOME": "x", "BRIDGE_TOKEN": "t-1"}, ()),
        ({"ALBEDO_STATE_EXPIRY_SECONDS": "1"}, ()),
        ({"PYTEST_CURRENT_TEST": "a::b", "PYTEST_XDIST_WORKER": "gw0"}, ()),
        ({"JPY_PARENT_PID": "1", "JPY_SESSION_NAME": "n.ipynb", "JPY_API_TOKEN": "z"}, ()),
        ({"SECRET": "t-1", "BRIDGE_TOKEN": "t-1"}, ()),
        ({"URL": "http://localhost/?token=t-2"}, ("t-2",)),
    ],
)
def test_a_kernel_gets_nothing_of_the_servers(base: dict[str, str], secrets: tuple[str, ...]) -> None:
    assert kernel_environment(PLAIN | base, {}, secrets) == PLAIN


def test_added_variables_win() -> None:
    assert kernel_environment(PLAIN, {"LANG": "de", "PYTHONHASHSEED": "7"}) == PLAIN | {
        "LANG": "de",
        "PYTHONHASHSEED": "7",
    }


def test_an_empty_secret_holds_nothing_back() -> None:
    assert kernel_environment(PLAIN | {"BRIDGE_TOKEN": ""}, {}, ("",)) == PLAIN


def test_the_default_kernel_is_this_interpreter() -> None:
    spec = find_kernelspec(None)
    assert spec.argv[0] == sys.executable
    assert spec.language == "python"


def install(folder: Path, name: str, language: str) -> None:
    (folder / "kernels" / name).mkdir(parents=True)
    spec = {"argv": ["/x", "{connection_file}"], "display_name": name, "language": language}
    (folder / "kernels" / name / "kernel.json").write_text(json.dumps(spec))


def test_an_installed_kernelspec_is_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "mine", "python")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    assert find_kernelspec("mine").argv[0] == "/x"


@pytest.mark.parametrize(
    ("name", "message"), [("rr", "is for R"), ("nowhere", "no kernelspec named 'nowhere'")]
)
def test_other_kernelspecs_are_refused(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "rr", "R")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    with pytest.raises(KernelStartFailed, match=message):
        find_kernelspec(name)


def test_the_runtime_folder_is_private_and_goes_away() -> None:
    folder = RuntimeFolder()
    assert stat.S_IMODE(os.stat(folder.path).st_mode) == 0o700
    folder.connection_file("one").write_text("{}")
    (folder.path / "one-ipc-1").touch()
    (folder.path / "oneself.json").touch()
    folder.clear("one")
    assert [path.name for path in folder.path.iterdir()] == ["oneself.json"]
    folder.close()
    assert not folder.path.exists()


@pytest.mark.skipif(os.name != "posix", reason="the platform has no unix sockets")
def test_sockets_find_a_short_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 90)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    folder = RuntimeFolder()
    try:
        assert folder.transport == "ipc"
        assert len(str(folder.path)) < 90
    finally:
        folder.close()
