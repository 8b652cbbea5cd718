"""The fields that several routes take."""

from __future__ import annotations

from bridge.rest.body import SECONDS, TEXT, TEXTS, Field

CODE = Field("code", TEXT, "the cell's source", default="")
EXEC_ID = Field("exec_id", TEXT, "names this execution, for /interrupt", required=True)
TIMEOUT = Field("timeout", SECONDS, "seconds after which the execution ends as TimeoutError")
STDIN = Field("stdin", TEXTS, "the lines that input() reads, one after the other; EOFError after the last")
