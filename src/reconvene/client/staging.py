"""Transactions as writers make them: messages that are staged, then one commit that makes all of them visible."""

import asyncio
from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from msgspec import Struct

from reconvene.client.arguments import check_count, check_position, check_ranges, check_text, check_timeout
from reconvene.client.group import Data
from reconvene.client.log_link import LogLink
from reconvene.client.pending_append import PendingAppend
from reconvene.client.pieces import pieces
from reconvene.client.positions import Positions
from reconvene.client.receipts import known_runs
from reconvene.client.time_limits import within
from reconvene.client.transactions import heed
from reconvene.corel.batch import Kind
from reconvene.corel.clients.commits import MOST_RANGES, Commit, Range
from reconvene.entries import Truncated
from reconvene.errors import InvalidArgument, PlaceForgotten, ReconveneError, Unavailable

__all__ = ["NAME_LENGTH", "Committed", "Staging", "made_commit", "still_there", "told"]

_UNDER_WAY = 32
"""Pieces whose places are not known: as much is unordered of one writer, and kept, whatever there is to write."""
_STALL_S = 1.0
"""Without an answer, for another look at where the connection is."""
NAME_LENGTH = 1_024
_NUMBERS = 1 << 61


class Committed(Struct, frozen=True):
    """What became of a commit."""

    known_position: int | None
    """Its position; None where the log no longer knows it, which only happens to duplicates."""
    duplicate: bool
    """It counts for nothing: the log has one of the same name and version, or of a later version."""

    @property
    def position(self) -> int:
        """Its position; of a duplicate, that of the commit that counts. Raises PlaceForgotten where the log no
        longer knows it."""
        if self.known_position is None:
            raise PlaceForgotten("the log has this commit, and no longer knows where")
        return self.known_position


class Staging:
    """From `log.staging`: one writer's part of a transaction. Use it from one task. After the end of an `async with`
    block nothing more can be staged; what no commit has named by then is never seen."""

    def __init__(self, link: LogLink, timeout: float | None) -> None:
        self._link = link
        self._timeout = check_timeout(timeout)
        self._under_way: deque[tuple[list[bytes], PendingAppend]] = deque()
        self._runs: list[tuple[int, int]] = []
        self._closed = False
        self._lost = False
        """The block ended before all messages were ordered."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closed = True
        self._lost = bool(self._under_way)
        self._under_way.clear()

    async def put(self, payloads: Iterable[Data]) -> None:
        """Appends messages that nobody sees yet, in their order. Returns when they are on their way, and all but the
        last few megabytes are ordered. What a lost site may have is appended again at the next one: it may be in the
        log twice, and one of the two is committed.

        Raises OutcomeUnknown where for `timeout` s there is no room, or nothing is ordered; further as `append`.
        """
        self._link.here.check()
        if self._closed:
            raise Unavailable("the block of this staging has ended")
        for piece in pieces(payloads):
            if self._link.appends.waiting:
                await within(self._timeout, self._link.room(), "taken")
            self._under_way.append((piece, self._send(piece)))
            while len(self._under_way) > _UNDER_WAY:
                await self._settle()

    async def ordered(self) -> Positions:
        """Waits until all of them are ordered: where they are, for the commit.

        Raises Unavailable after the block if not all of them were ordered within it."""
        if self._closed and self._lost:
            raise Unavailable("the block of this staging has ended before all of its messages were ordered")
        while self._under_way:
            await self._settle()
        return Positions(self._runs)

    def _send(self, piece: list[bytes]) -> PendingAppend:
        pending = PendingAppend(piece, None, 0, Kind.STAGED)
        self._link.appends.append(pending)
        return pending

    async def _settle(self) -> None:
        for position, count in await within(self._timeout, self._places(), "ordered"):
            if self._runs and sum(self._runs[-1]) == position:
                self._runs[-1] = (self._runs[-1][0], self._runs[-1][1] + count)
            else:
                self._runs.append((position, count))
        self._under_way.popleft()

    async def _places(self) -> list[tuple[int, int]]:
        """Of the oldest piece that is under way."""
        while True:
            self._link.here.check()
            piece, pending = self._under_way[0]
            appended = await pending.accepted()
            finding = asyncio.ensure_future(self._link.ordered(pending))
            finding.add_done_callback(heed)
            try:
                done, _ = await asyncio.wait([finding], timeout=_STALL_S)
            finally:
                finding.cancel()
            error = finding.exception() if done else None
            if done and error is None:
                return known_runs(finding.result())
            if error is not None and not isinstance(error, ReconveneError):
                raise error
            # The site that took it may be down or cut off for long, while the site of the present connection works.
            if done or any(part.author != self._link.name for part in appended.parts):
                self._under_way[0] = piece, self._send(piece)
                if done:
                    await asyncio.sleep(_STALL_S)


def made_commit(
    name: str | None, version: int, ranges: Iterable[Range], index: Iterable[Range], previous: int | None
) -> Commit:
    """Raises TypeError, and InvalidArgument for what can't be one."""
    if name is not None:
        check_text(name, "name", NAME_LENGTH)
    check_count(version, "version", end=_NUMBERS)
    if previous is not None:
        check_position(previous, "previous")
    found, hidden = list(check_ranges(ranges, "places")), list(check_ranges(index, "index"))
    commit = Commit(name or "", version, found, hidden, previous)
    named = max(len(commit.ranges), len(commit.index))
    if named > MOST_RANGES:
        raise InvalidArgument(
            f"a transaction of {named} ranges of staged messages: at most {MOST_RANGES}; write less at once"
        )
    return commit


async def still_there(link: LogLink, commit: Commit) -> None:
    """Raises Truncated where the site has lost some of what is to be committed."""
    lowest = commit.lowest
    if lowest is None:
        return
    base = (await link.fetch(lowest, 1, 1, False)).base
    if lowest < base:
        raise Truncated(
            f"staged messages are not in the log any more: they begin at {lowest}, the log at {base}; "
            "the transaction took longer than the log keeps them",
            base,
        )


async def told(link: LogLink, data: bytes, position: int) -> Committed:
    """What became of a commit that was found at `position`: it counts if it is what stands there."""
    chunk = await link.fetch(position, 1, 1, True)
    here = [batch for batch in chunk.batches if batch.position == position]
    counts = not here or (here[0].messages[0] == data and 0 not in here[0].void)
    return Committed(position, not counts)
