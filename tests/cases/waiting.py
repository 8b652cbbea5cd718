"""Rows of the case list that wait for a part of the product that does not exist yet, with the reason."""

from __future__ import annotations

WAITING = {
    "O10": "widget state travels over comms: needs the JupyterLab kernelspec",
    "K07": "a memory limit for each kernel: not built yet",
    "K11": "completion requests while a cell runs: needs the JupyterLab kernelspec",
    "K13": "the stop button of JupyterLab: needs the kernelspec",
    "K17": "the idle limit belongs to sessions",
    "K18": "the interpreter in the installed kernelspec: needs the kernelspec",
    "K19": "processes that outlive a session are named when it closes: needs sessions",
    "K21": "undo after a named checkpoint: needs the JupyterLab kernelspec",
}
