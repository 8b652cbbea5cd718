"""What the README says is so."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable

import pytest

from bridge import home_commands
from bridge.jupyter import install
from bridge.rest.options import FLAGS
from bridge.rest.routes import ROUTES
from tests.readme_session import README, TOKEN, played, session, steady
from tests.support import Server


@pytest.mark.skipif(shutil.which("curl") is None, reason="the session is one by curl, which is not installed")
def test_the_first_session_prints_what_the_readme_shows(make_server: Callable[..., Server]) -> None:
    shown = session()
    assert steady(played(shown, make_server(token=TOKEN))) == steady(shown)


def test_every_route_is_named() -> None:
    text = README.read_text()
    for route in ROUTES:
        assert route.rule.split("<")[0].rstrip("/") in text, route.rule


def test_no_flag_is_named_that_does_not_exist() -> None:
    named = set(re.findall(r"(?<![\w-])--([a-z][a-z-]+)", README.read_text()))
    of_others = {"param", "server", "strict", "help"}
    helps = [install.parser("install"), *map(home_commands.parser, home_commands.COMMANDS)]
    of_commands = {name for each in helps for name in re.findall(r"--([a-z-]+)", each.format_help())}
    assert named - of_others <= {flag.name for flag in FLAGS} | of_commands
