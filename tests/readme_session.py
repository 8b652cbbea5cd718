"""The first session in the README: its commands are run, and its replies compared or written anew.

    .venv/bin/python -m tests.readme_session        writes the replies of today into README.md

A line that begins with `$ ` is a command, what follows up to the next one is what it printed.
"""

from __future__ import annotations

import re
import subprocess

from tests.support import ROOT, Server

README = ROOT / "README.md"
ADDRESS = "http://127.0.0.1:8080"
TOKEN = "SECRET"
_BLOCK = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)
_CHANGES_FROM_RUN_TO_RUN = (
    (re.compile(r'"(duration|started_at)": [0-9.e-]+'), r'"\1": 0'),
    (re.compile(r'"kernel_id": "[0-9a-f]+"'), '"kernel_id": ""'),
    (re.compile(r'"timestamp": "[^"]+"'), '"timestamp": ""'),
    (re.compile(r'"bytes": [0-9]+'), '"bytes": 0'),
)


def session() -> str:
    """The console block as the README has it."""
    found = _BLOCK.search(README.read_text())
    assert found is not None
    return found.group()


def commands(text: str) -> list[str]:
    """The session's commands; one goes on in the lines after it that are indented by four spaces."""
    whole = re.findall(r"^\$ (.*(?:\n    .*)*)$", text, re.MULTILINE)
    assert whole
    return whole


def played(text: str, server: Server) -> str:
    """The session with what its commands print against `server`, which stands at another address."""
    shell = "\n".join(
        f"cat <<'END_OF_COMMAND'\n$ {command}\nEND_OF_COMMAND\n{command.replace(ADDRESS, server.url)}"
        for command in commands(text)
    )
    ran = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=120, check=True)
    assert ran.stderr == "", ran.stderr
    return ran.stdout


def steady(text: str) -> str:
    """A session without what is another every time it is run."""
    for pattern, instead in _CHANGES_FROM_RUN_TO_RUN:
        text = pattern.sub(instead, text)
    return text


def main() -> None:
    server = Server(token=TOKEN).ready()
    try:
        replies = played(session(), server)
    finally:
        server.close()
    README.write_text(_BLOCK.sub(lambda _: replies, README.read_text(), count=1))


if __name__ == "__main__":
    main()
