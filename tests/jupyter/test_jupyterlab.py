"""JupyterLab itself, in a browser: a notebook whose kernel is the bridge."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import nbformat
import psutil
import pytest

from tests.concurrency import left_of
from tests.jupyter.browser import CHROMIUM, DRIVER, WAIT, Lab, Page, wait_until

CELLS = {
    "plot": "%matplotlib inline\nimport matplotlib.pyplot as plt\nprices = [3, 4, 5]\nplt.plot(prices);",
    "widget": (
        "import ipywidgets as widgets\npressed = []\nbutton = widgets.Button(description='dearer')\n"
        "label = widgets.Label('not pressed')\n\n"
        "def press(_):\n    pressed.append(1)\n    label.value = f'pressed {len(pressed)}'\n\n"
        "button.on_click(press)\nwidgets.HBox([button, label])"
    ),
    "input": "name = input('who? ')\nprint('hello', name)",
    "loop": "print('round and round')\nwhile True: pass",
    "raise": "prices.append(100)",
    "death": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "after": "prices, name, len(pressed)",
    "undo": "%undo 2",
    "undone": "prices",
    "states": "%states",
}
PLACE = {name: place for place, name in enumerate(CELLS)}


@pytest.fixture
def lab(jupyter: Path, tmp_path: Path) -> Iterator[Lab]:
    started = Lab(tmp_path)
    yield started
    started.close()


@pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="there is no chromium with its chromedriver, and `make test` could not install them",
)
def test_a_notebook_in_a_browser(lab: Lab, tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in CELLS.values()])
    nbformat.write(notebook, lab.files / "prices.ipynb")
    page = Page(tmp_path, lab.page("prices.ipynb"))
    try:
        walk(page)
    except BaseException:
        page.shoot("failed")
        raise
    finally:
        page.close()


def walk(page: Page) -> None:
    """From the choice of the kernel to the table of states."""
    page.choose_kernel("Python 3 (bridge)")
    page.run(PLACE["plot"])
    page.until(lambda: page.find("img[src^='data:image/png']", page.cell(PLACE["plot"])), "the plot is seen")

    page.run(PLACE["widget"])
    page.one(".jupyter-button").click()
    page.until(lambda: "pressed 1" in page.text(page.cell(PLACE["widget"])), "the callback ran")
    page.shoot("1-plot-and-widget")

    page.begin(PLACE["input"])
    page.one(".jp-Stdin-input").send_keys("Ada\n")
    assert "hello Ada" in page.text(page.finish(PLACE["input"]))

    page.begin(PLACE["loop"])
    # A star is there once the cell is sent; an interrupt that overtakes it finds nothing to interrupt.
    page.until(lambda: "round and round" in page.text(page.cell(PLACE["loop"])), "the loop runs")
    page.keys("i", "i")
    assert "KeyboardInterrupt" in page.text(page.finish(PLACE["loop"]))

    page.run(PLACE["raise"])
    died = page.run(PLACE["death"])
    assert "KernelDied" in died
    assert "SIGKILL" in died
    page.shoot("2-death-of-the-kernel")
    assert page.run(PLACE["after"]).endswith("([3, 4, 5, 100], 'Ada', 1)")
    assert not page.find(".jp-Dialog")

    page.run(PLACE["undo"])
    assert page.run(PLACE["undone"]).endswith("[3, 4, 5]")
    page.run(PLACE["states"])
    table = page.until(lambda: page.find("table", page.cell(PLACE["states"])), "the table is seen")[0]
    assert "prices.append(100)" in table.text
    assert "here" in table.text
    page.shoot("3-states")


def words(process: psutil.Process) -> list[str]:
    """A process's command line; nothing of one that has just ended."""
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def test_no_kernel_outlives_a_killed_jupyterlab(lab: Lab) -> None:
    request = urllib.request.Request(
        f"{lab.url}api/kernels",
        data=json.dumps({"name": "bridge"}).encode(),
        headers={"Authorization": f"token {lab.token}"},
    )
    with urllib.request.urlopen(request, timeout=WAIT) as answer:
        assert answer.status == 201

    def all_there() -> list[psutil.Process]:
        running = lab.kernels()
        real = [process for process in running if "IPKernelApp" in " ".join(words(process))]
        return running if len(real) > 1 else []  # the starter, and what was forked from it

    running = wait_until(all_there, "the real kernel runs")
    os.kill(lab.process.pid, signal.SIGKILL)
    assert left_of(running, 3) == []
