"""Fifo messages that arrive before the join or the table that names their sender.

Given: nothing is held for longer than a configuration. Promised: bounded; what is beyond the bound is dropped and
counted.
"""

from collections.abc import Collection
from dataclasses import dataclass

from reconvene.core.groups.events import Process
from reconvene.ids import Service

__all__ = ["Early", "MessageRun"]

_MOST_MESSAGES = 100_000
_MOST_BYTES = 32 << 20


@dataclass(slots=True)
class MessageRun:
    """Messages of one membership that follow each other in a frame."""

    site: int
    number: int
    """The membership's."""
    service: Service
    payloads: list[bytes]
    first: int
    timestamp: tuple[int, ...] | None
    index: int
    to: Collection[Process] | None


class Early:
    def __init__(self) -> None:
        self._runs: dict[tuple[int, int], list[MessageRun]] = {}
        self._messages = 0
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._runs)

    def hold(self, run: MessageRun) -> bool:
        size = sum(map(len, run.payloads))
        if self._messages + len(run.payloads) > _MOST_MESSAGES or self._bytes + size > _MOST_BYTES:
            return False
        self._messages += len(run.payloads)
        self._bytes += size
        self._runs.setdefault((run.site, run.number), []).append(run)
        return True

    def waiting(self) -> list[tuple[int, int]]:
        """Returns the (site, membership) of each sender of which something is held."""
        return list(self._runs)

    def take(self, site: int, number: int) -> list[MessageRun]:
        runs = self._runs.pop((site, number), [])
        for run in runs:
            self._messages -= len(run.payloads)
            self._bytes -= sum(map(len, run.payloads))
        return runs

    def clear(self) -> int:
        """Returns how many messages were held."""
        count = self._messages
        self._runs.clear()
        self._messages = self._bytes = 0
        return count
