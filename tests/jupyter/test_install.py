"""`jupyter bridge install`, `status` and `uninstall`, and what Jupyter then finds."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

from bridge.cli import command
from bridge.errors import KernelStartFailed
from bridge.pool.launch import find_kernelspec

Bridge = Callable[..., tuple[int, str, str]]


@pytest.fixture
def bridge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Bridge:
    """The command line, with a data folder of its own; gives exit code, standard output and error."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))

    def run(*words: str) -> tuple[int, str, str]:
        try:
            code = command(words)
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


def test_what_is_installed_is_found_by_jupyter(bridge: Bridge, tmp_path: Path) -> None:
    assert bridge("install")[0] == 0
    spec = KernelSpecManager().get_kernel_spec("bridge")
    assert spec.argv == [sys.executable, "-m", "bridge.jupyter", "-f", "{connection_file}"]
    assert os.path.isabs(spec.argv[0])
    assert (spec.display_name, spec.language) == ("Python 3 (bridge)", "python")
    assert spec.interrupt_mode == "message"
    assert spec.metadata["debugger"] is True
    folder = Path(spec.resource_dir)
    assert folder == tmp_path / "data" / "kernels" / "bridge"
    for size in (32, 64):
        image = (folder / f"logo-{size}x{size}.png").read_bytes()
        assert image[:8] == b"\x89PNG\r\n\x1a\n"
        assert int.from_bytes(image[16:20], "big") == size
    assert b"<svg" in (folder / "logo-svg.svg").read_bytes()


def test_installing_again_changes_what_is_there(bridge: Bridge) -> None:
    bridge("install", "--display-name", "Old")
    flags = ["--kernel", "python3", "--home", "/a/home", "--memory-limit", "2G", "--resume"]
    assert bridge("install", "--display-name", "Größer", *flags)[0] == 0
    spec = KernelSpecManager().get_kernel_spec("bridge")
    assert spec.display_name == "Größer"
    assert spec.argv[5:] == flags


def test_a_prefix_holds_a_kernelspec_of_its_own(bridge: Bridge, tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    code, out, _ = bridge("install", "--prefix", str(prefix), "--name", "Other")
    assert code == 0
    assert f"Jupyter here does not look in {prefix}" in out
    assert (prefix / "share/jupyter/kernels/other/kernel.json").is_file()
    with pytest.raises(NoSuchKernel):
        KernelSpecManager().get_kernel_spec("other")
    assert bridge("uninstall", "--name", "other")[0] == 2
    assert bridge("uninstall", "--name", "other", "--prefix", str(prefix))[0] == 0
    assert not (prefix / "share/jupyter/kernels/other").exists()


def test_status_tells_what_works(bridge: Bridge) -> None:
    assert bridge("status") == (
        0,
        "no kernelspec of the bridge is installed; to install one: jupyter bridge install\n",
        "",
    )
    bridge("install")
    code, out, _ = bridge("status")
    assert code == 0
    assert f"works with {sys.executable}" in out


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (["/gone/bin/python"], "its interpreter /gone/bin/python is gone"),
        (["/bin/false"], "jupyter-bridge is not installed in /bin/false"),
    ],
)
def test_k18_a_command_that_status_gives_repairs_a_broken_kernelspec(
    bridge: Bridge, tmp_path: Path, fault: list[str], told: str
) -> None:
    bridge("install", "--name", "big", "--display-name", "Big 'un", "--memory-limit", "2G")
    path = tmp_path / "data" / "kernels" / "big" / "kernel.json"
    whole = path.read_text()
    broken = json.loads(whole)
    broken["argv"][:1] = fault
    path.write_text(json.dumps(broken))
    code, out, _ = bridge("status")
    assert code == 1
    assert f"does not work: {told}\n" in out
    repair = shlex.split(out.partition("to repair it: ")[2].splitlines()[0])
    assert repair[:3] == ["jupyter", "bridge", "install"]
    assert bridge(*repair[2:])[0] == 0
    assert path.read_text() == whole
    assert bridge("status")[0] == 0


def test_a_kernelspec_whose_inner_kernel_is_gone_can_be_repaired(bridge: Bridge, tmp_path: Path) -> None:
    bridge("install", "--kernel", "python3", "--resume")
    path = tmp_path / "data" / "kernels" / "bridge" / "kernel.json"
    path.write_text(path.read_text().replace('"python3"', '"gone"'))
    code, out, _ = bridge("status")
    assert code == 1
    assert "the kernelspec gone that it runs is gone" in out
    repair = shlex.split(out.partition("to repair it: ")[2].splitlines()[0])
    assert bridge(*repair[2:])[0] == 0
    assert KernelSpecManager().get_kernel_spec("bridge").argv[5:] == ["--resume"]


@pytest.mark.parametrize(
    "words",
    [
        ["install", "--kernel", "no-such"],
        ["install", "--kernel", "bridge"],
        ["install", "--name", "a b"],
        ["install", "--name", "theirs"],
        ["install", "--memory-limit", "much"],
        ["install", "--user", "--sys-prefix"],
        ["install", "--prefix", "/proc/nowhere"],
        ["install", "more"],
        ["uninstall", "--name", "theirs"],
        ["uninstall", "--name", "no-such"],
        ["status", "--all"],
        ["upgrade"],
    ],
)
def test_what_cannot_be_done_is_one_line_and_changes_nothing(
    bridge: Bridge, tmp_path: Path, words: list[str]
) -> None:
    bridge("install")
    theirs = tmp_path / "data" / "kernels" / "theirs" / "kernel.json"
    theirs.parent.mkdir()
    theirs.write_text(json.dumps({"argv": ["x"], "display_name": "Theirs", "language": "python"}))
    code, out, err = bridge(*words)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert theirs.is_file()
    assert sorted(os.listdir(theirs.parent.parent)) == ["bridge", "theirs"]


def test_the_bridge_is_no_kernel_to_run_cells_in(bridge: Bridge) -> None:
    bridge("install")
    with pytest.raises(KernelStartFailed, match="'bridge' is the bridge itself"):
        find_kernelspec("bridge")


def test_jupyter_has_the_command(tmp_path: Path) -> None:
    scripts = Path(sys.executable).parent
    done = subprocess.run(
        [str(scripts / "jupyter"), "bridge", "status"],
        env={
            **os.environ,
            "JUPYTER_DATA_DIR": str(tmp_path),
            "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "to install one: jupyter bridge install" in done.stdout, done
