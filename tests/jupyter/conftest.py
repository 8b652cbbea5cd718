"""A Jupyter of the tests' own: data, settings and history in a temporary folder, with the bridge installed in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.cli import command


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory: pytest.TempPathFactory, nothing_left_behind: None) -> Iterator[Path]:
    """The folder in which this process and what it starts find the kernelspecs `bridge` and `python3`.

    The bridge's home is `home` in it.
    """
    folder = tmp_path_factory.mktemp("jupyter")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
            patch.setenv(name, str(folder / name.lower()))
        patch.setenv("BRIDGE_HOME", str(folder / "home"))
        patch.delenv("PYTEST_CURRENT_TEST", raising=False)
        assert command(["install", "--user"]) == 0
        yield folder
