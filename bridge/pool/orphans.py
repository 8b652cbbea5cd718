"""Processes that an interrupted cell leaves behind: children of a shell that is gone.

A shell that is not interactive starts its background jobs deaf to SIGINT. The interrupt ends the shell, and
the jobs stay, nobody's children any more. Processes that still have a parent in the kernel's group are the
kernel's affair: a pool of workers survives an interrupt of the cell that made it, as in any Jupyter kernel.

Known from /proc, so on Linux alone; elsewhere there are no orphans to be found.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from typing import NamedTuple

from bridge.pool.moment import moment

log = logging.getLogger(__name__)

LOOKS, LOOK_SECONDS = 10, 0.25
"""How often to look for orphans after an interrupt, and the seconds before each look."""


class Member(NamedTuple):
    """One process of a group; `born` is on the clock of `moment`, to a hundredth of a second."""

    pid: int
    parent: int
    born: float


def members(group: int) -> list[Member]:
    """The processes of a group that have not ended."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc/self") else ()):
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                # The fields from the third on, proc(5); the second is a name in brackets that may hold any.
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it ended as we looked
        state, parent, its_group, started = fields[0], int(fields[1]), int(fields[2]), int(fields[19])
        if its_group == group and state not in (b"Z", b"X"):
            found.append(Member(int(entry), parent, started / os.sysconf("SC_CLK_TCK")))
    return found


def find_orphans(group: int, since: float, until: float) -> set[int]:
    """The ids of a group's processes that were born between two moments and have no parent in the group.

    The group's leader, the kernel itself, is never among them.
    """
    found = members(group)
    pids = {member.pid for member in found}
    tick = 1 / os.sysconf("SC_CLK_TCK")  # times of birth are rounded down
    return {
        member.pid
        for member in found
        if member.pid != group and member.parent not in pids and since - tick <= member.born <= until
    }


async def end_orphans(group: int, since: float) -> None:
    """Ends the orphans born from `since` until now, each first politely.

    It takes a while and several looks: a shell may need a moment to end, and has no orphans before that.
    """
    until, warned = moment(), set[int]()
    for _ in range(LOOKS):
        await asyncio.sleep(LOOK_SECONDS)
        if not members(group):
            return  # the kernel is gone, and its whole group with it
        for pid in find_orphans(group, since, until):
            try:
                os.kill(pid, signal.SIGKILL if pid in warned else signal.SIGTERM)
            except ProcessLookupError:
                log.debug("process %s ended by itself", pid)
            warned.add(pid)
