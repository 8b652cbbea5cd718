"""What a route is: one method on one path, its fields, and its handler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bridge.rest.body import Field

if TYPE_CHECKING:
    from bridge.engine import Kernel

Given = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Route:
    """One method on one path. `rule` is bottle's; `reply` names a schema of the OpenAPI document.

    `status` is that of a success. `executes` marks a route whose answer may take as long as a cell does: its handler
    finds a `feed` among the fields when the client wants events; `streams` one that answers with an execution's events,
    whose handler gives `{"feed": Feed}`. `public` ones answer without a token, and are told by the field `authorised`
    whether there was one.
    """

    method: str
    rule: str
    about: str
    handler: Callable[[Kernel, Given], dict[str, Any]]
    reply: str
    body: tuple[Field, ...] = ()
    query: tuple[Field, ...] = ()
    executes: bool = False
    public: bool = False
    streams: bool = False
    status: int = 200
