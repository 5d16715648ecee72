"""Reading what a commit makes visible, at whichever replica has it."""

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from msgspec import Struct

from reconvene.client.log import Log
from reconvene.client.loop_thread import LoopThread
from reconvene.entries import EntryBatch
from reconvene.errors import Rejected
from reconvene.pipeline.source.options import Access
from reconvene.pipeline.source.plan import Shown
from reconvene.pipeline.source.route import How, Lost, Route

__all__ = ["read_shown", "rest_of"]

_log = logging.getLogger("reconvene.source")


class _Part(Struct, frozen=True):
    batch: EntryBatch | None
    end: int
    """How many of the rows are read with it: a route goes along that, as if they were positions."""


def read_shown(thread: LoopThread, access: Access, shown: Shown, how: How) -> Iterator[EntryBatch]:
    """Raises Rejected where some of it is truncated, unless that is not to fail: then the rest is left out."""
    route = Route(access, 0, shown.rows, _opening(shown), how)
    try:
        while (some := thread.run(route.next())) is not None:
            yield from (part.batch for part in some if part.batch is not None)
    except Lost as lost:
        line = f"{shown.rows - lost.position} messages of the transaction that is committed at {shown.commit}"
        if how.fail_on_loss:
            raise Rejected(
                f"{line} are not in the log any more: they were truncated; start at {shown.commit + 1} or later, or "
                "set failOnDataLoss to false to go on without them"
            ) from None
        _log.warning("%s were truncated, and are left out", line)
    finally:
        if not thread.over:
            thread.run(route.close())


def _opening(shown: Shown) -> "Callable[[Log, int, int], AsyncIterator[list[_Part]]]":
    async def parts(log: Log, start: int, stop: int) -> AsyncIterator[list[_Part]]:
        ranges = list(rest_of(shown.ranges, start))
        read = start
        async for batch in log.staged(shown.commit, ranges):
            while not ranges[0][0] <= batch.position < sum(ranges[0]):
                read += ranges.pop(0)[1]  # it is done, or it has nothing that was staged
            yield [_Part(batch, read + batch.end - ranges[0][0])]
        yield [_Part(None, stop)]

    return parts


def rest_of(ranges: Sequence[tuple[int, int]], skipped: int) -> Iterator[tuple[int, int]]:
    """What comes after the first so many messages."""
    for position, count in ranges:
        if skipped < count:
            yield position + skipped, count - skipped
        skipped = max(0, skipped - count)
