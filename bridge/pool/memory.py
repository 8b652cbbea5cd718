"""How much memory a kernel takes of its own, and that it is not more than it may.

Counted is what the system can only get back by killing: anonymous pages and swap, of the kernel and of what it
started. What a restored state maps from the store is not, until a cell writes to it: the pages are the files'.
(Limits of the system's own do not fit: RLIMIT_AS and RLIMIT_DATA count such maps and what is only reserved.)
"""

from __future__ import annotations

import re
from pathlib import Path

from bridge.pool.descendants import family, read

_OWN = re.compile(rb"^(?:RssAnon|VmSwap):\s+(\d+) kB", re.MULTILINE)
_SHARE = re.compile(rb"^(?:Pss_Anon|SwapPss):\s+(\d+) kB", re.MULTILINE)


def describe_size(size: int) -> str:
    """A number of bytes in the largest unit that leaves it short: "4 GiB", "1.5 GiB", "300 MiB"."""
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size} bytes"


def is_over(pid: int, limit: int) -> bool:
    """Whether a process and its descendants have more than `limit` bytes of memory of their own.

    Pages that forked processes still share count once; that look costs milliseconds a gigabyte, so it is taken
    only when they would be over the limit with each page counted in every process.
    """
    pids = family(pid)
    return own(pids) > limit and share(pids) > limit


def own(pids: list[int]) -> int:
    """Bytes of memory of their own that these processes have; a page that several share counts in each."""
    return _sum(pids, "status", _OWN)


def share(pids: list[int]) -> int:
    """Bytes of memory of their own that these processes have; a page that n processes share counts 1/n in each."""
    return _sum(pids, "smaps_rollup", _SHARE)


def _sum(pids: list[int], file: str, pattern: re.Pattern[bytes]) -> int:
    texts = (read(Path(f"/proc/{pid}/{file}")) for pid in pids)
    return 1024 * sum(int(kilobytes) for text in texts for kilobytes in pattern.findall(text))
