"""Many messages on their way to a site: several requests are out at once, and their answers are added up."""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator

from reconvene.errors import OutcomeUnknown, ReconveneError

__all__ = ["cut", "failure", "first_answered"]

_SEND_BYTES = 256 << 10
"""About how much one request carries."""


def cut(slices: Iterable[list[bytes]]) -> Iterator[list[bytes]]:
    """Into pieces of about `_SEND_BYTES`."""
    for piece in slices:
        if sum(map(len, piece)) <= _SEND_BYTES:
            yield piece
            continue
        part: list[bytes] = []
        size = 0
        for payload in piece:
            if part and size + len(payload) > _SEND_BYTES:
                yield part
                part, size = [], 0
            part.append(payload)
            size += len(payload)
        yield part


def first_answered(open_sends: "deque[tuple[asyncio.Future[None], int]]") -> int:
    """How many messages the first answer is for. Raises it if it is an error."""
    future, count = open_sends.popleft()
    future.result()
    return count


async def failure(error: ReconveneError, open_sends: "list[asyncio.Future[None]]", taken: int) -> ReconveneError:
    """The error of the whole when a part failed: the outcome is unknown if that of any part is."""
    if open_sends:
        await asyncio.wait(open_sends)
    unknown = (future.exception() for future in open_sends)
    worst = next((other for other in unknown if isinstance(other, OutcomeUnknown)), error)
    raised = type(worst)(str(worst))
    raised.taken = taken + error.taken
    return raised
