"""JupyterLab as a server of the tests' own, and a headless Chromium that has a notebook of it open."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import psutil
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from tests.support import ROOT

ARTEFACTS = ROOT / "tests" / "artefacts"
"""Where screenshots are kept; git ignores it."""
WAIT = 60.0
"""Seconds that anything in a page may take."""
CHROMIUM = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")
SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none"},  # every cell is in the page, seen or not
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}

T = TypeVar("T")


class Lab:
    """A JupyterLab server whose files, settings and run-time files lie in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.files = folder / "files"
        runtime, settings = folder / "runtime", folder / "settings"
        for place in (self.files, runtime):
            place.mkdir()
        for name, content in SETTINGS.items():
            path = settings / "@jupyterlab" / f"{name}.jupyterlab-settings"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(content))
        places = {
            "JUPYTER_RUNTIME_DIR": runtime,
            "JUPYTERLAB_SETTINGS_DIR": settings,
            "JUPYTERLAB_WORKSPACES_DIR": folder / "workspaces",
        }
        self._log = folder / "lab.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
                    *("--ServerApp.port=0", "--ServerApp.ip=127.0.0.1", f"--ServerApp.root_dir={self.files}"),
                ],
                env={**os.environ, **{name: str(place) for name, place in places.items()}},
                cwd=self.files,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        told = wait_until(lambda: next(runtime.glob("jpserver-*.json"), None), "JupyterLab tells its address")
        server: Mapping[str, Any] = wait_until(lambda: _json(told), "JupyterLab tells its address")
        self.url, self.token = str(server["url"]), str(server["token"])
        wait_until(lambda: _answers(int(server["port"])), "JupyterLab answers")

    def page(self, notebook: str) -> str:
        """The address at which that notebook opens."""
        return f"{self.url}lab/tree/{notebook}?token={self.token}"

    def kernels(self) -> list[psutil.Process]:
        """Every process that the server has started, however indirectly."""
        return list(psutil.Process(self.process.pid).children(recursive=True))

    def close(self) -> None:
        """End the server and its kernels; one that does not end is killed, and says what it wrote last."""
        kernels = self.kernels()
        self.process.terminate()
        try:
            self.process.wait(WAIT)
        except subprocess.TimeoutExpired:
            for process in kernels:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            self.process.kill()
            self.process.wait(WAIT)
            last = self._log.read_text(errors="replace")[-4000:]
            raise AssertionError(f"JupyterLab did not end within {WAIT:g} s, its log ends:\n{last}") from None


class Page:
    """A notebook in a browser; cells are counted from 0."""

    def __init__(self, folder: Path, address: str) -> None:
        options = ChromeOptions()
        options.binary_location = str(CHROMIUM)
        for flag in (
            *(
                "headless=new",
                "no-sandbox",
                "disable-gpu",
                "disable-quic",
                "no-first-run",
                "disable-dev-shm-usage",
            ),
            *("disable-background-networking", "disable-component-update", "disable-sync"),
            *("window-size=1100,900", f"user-data-dir={folder / 'chromium'}"),
        ):
            options.add_argument(f"--{flag}")
        self.driver = Chrome(options=options, service=Service(str(DRIVER)))
        self.driver.get(address)

    def find(self, css: str, within: WebElement | None = None) -> list[WebElement]:
        """The elements that are there now."""
        return list((within or self.driver).find_elements(By.CSS_SELECTOR, css))

    def one(self, css: str) -> WebElement:
        """The first such element that can be seen, once there is one."""
        return self.until(lambda: next((e for e in self.find(css) if e.is_displayed()), None), css)

    def until(self, condition: Callable[[], T | None], what: str) -> T:
        """What `condition` gives once that is true; an element may vanish while it is looked at."""
        waiting = WebDriverWait(self.driver, WAIT, 0.1, ignored_exceptions=[Exception])
        found = waiting.until(lambda _: condition(), what)
        assert found is not None
        return found

    def keys(self, *keys: str) -> None:
        """Press keys, with shift held while the first of them is Keys.SHIFT."""
        chain = ActionChains(self.driver)
        if keys[0] == Keys.SHIFT:
            chain.key_down(Keys.SHIFT).send_keys(*keys[1:]).key_up(Keys.SHIFT)
        else:
            chain.send_keys(*keys)
        chain.perform()

    def choose_kernel(self, name: str) -> None:
        """Answer the question for a kernel that JupyterLab asks of a notebook without one."""
        self.one(".jp-Dialog select")
        options = self.find(".jp-Dialog select option")
        next(option for option in options if option.text == name).click()
        self.one(".jp-Dialog .jp-mod-accept").click()
        # A cell that is run before the kernel is there is not run at all.
        self.until(
            lambda: self.find(".jp-Notebook-ExecutionIndicator[data-status='idle']"), "the kernel is ready"
        )

    def begin(self, cell: int) -> None:
        """Select a cell and run it; the next one is selected then."""
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", self.cell(cell))
        self.find(".jp-InputPrompt", self.cell(cell))[0].click()
        self.keys(Keys.SHIFT, Keys.ENTER)

    def finish(self, cell: int) -> WebElement:
        """A cell that runs, after its end."""
        self.until(
            lambda: self.prompt(cell).strip("[]: ").isdigit(), f"cell {cell} ends, not {self.prompt(cell)}"
        )
        return self.cell(cell)

    def run(self, cell: int) -> str:
        """The text that a cell shows after its run."""
        self.begin(cell)
        return self.text(self.finish(cell))

    def cell(self, cell: int) -> WebElement:
        """One code cell."""
        return self.find(".jp-Notebook .jp-CodeCell")[cell]

    def prompt(self, cell: int) -> str:
        """What stands beside a cell: `[ ]:`, `[*]:`, `[3]:`."""
        return self.find(".jp-InputPrompt", self.cell(cell))[0].text

    def text(self, cell: WebElement) -> str:
        """The text of a cell's outputs."""
        return "\n".join(output.text for output in self.find(".jp-OutputArea-output", cell))

    def shoot(self, name: str) -> None:
        """Keep a picture of the page."""
        ARTEFACTS.mkdir(exist_ok=True)
        self.driver.save_screenshot(str(ARTEFACTS / f"{name}.png"))

    def close(self) -> None:
        """End the browser."""
        self.driver.quit()


def wait_until(condition: Callable[[], T | None], what: str, bound: float = WAIT) -> T:
    """What `condition` gives once that is true; fails after `bound` seconds."""
    end = time.monotonic() + bound
    while not (found := condition()):
        assert time.monotonic() < end, f"not within {bound:g} s: {what}"
        time.sleep(0.05)
    return found


def _answers(port: int) -> bool:
    """Whether the server listens: it tells its address a little before it does."""
    try:
        socket.create_connection(("127.0.0.1", port), WAIT).close()
    except ConnectionRefusedError:
        return False
    return True


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except ValueError:
        return None  # half written
