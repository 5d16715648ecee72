"""A client session: a program's own name for a sequence of messages, each of which the log takes once."""

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from reconvene.client.arguments import check_count, check_payloads, check_timeout
from reconvene.client.group import Data, as_bytes
from reconvene.client.receipts import Receipt, Receipts
from reconvene.errors import InvalidArgument, Rejected, Unavailable

if TYPE_CHECKING:
    from reconvene.client.log import Log

__all__ = ["Session", "check_session"]

_SESSION_BYTES = 64
_NUMBERS = 1 << 62


class Session:
    """From `log.session`. Any number of tasks may append.

    Each message has a number in the session, from 1 on. What the log has under a number it does not take again, from
    whichever program and at whichever site.

    With `after`, the session numbers by itself, from `after + 1` on. It remembers its numbers in memory only. A
    program that goes on with the same name after a restart has to know the last number that it used, as from its own
    storage; or it takes a new name for each run.
    """

    def __init__(self, log: "Log", name: bytes, after: int | None) -> None:
        _check_name(name)
        self._log = log
        self._name = name
        self._last = None if after is None else check_count(after, "after", end=_NUMBERS - 1)
        self._unused: list[int] = []
        """A heap of numbers below `_last` that the log is known not to have."""
        self._unknown: set[int] = set()

    @property
    def name(self) -> bytes:
        return self._name

    @property
    def last(self) -> int | None:
        """The highest number that the session gave to a message by itself, `after` at first. None without `after`."""
        return self._last

    @property
    def unknown(self) -> list[int]:
        """Numbers of messages whose append ended without an answer. Append the same messages again under the same
        numbers: the log takes each once."""
        return sorted(self._unknown)

    async def append(self, data: Data, *, number: int | None = None, timeout: float | None = None) -> Receipt:
        """As `Log.append`. Without a number it is the next one.

        Where this raises OutcomeUnknown, `unknown` has the number. After any other error the number is used for the
        next message."""
        own = self._next() if number is None else number
        try:
            receipt = await self._log.append(data, session=self._name, number=own, timeout=timeout)
        except (InvalidArgument, TypeError, Rejected, Unavailable):
            if number is None:
                heappush(self._unused, own)
            raise
        except BaseException:
            self._unknown.add(own)
            raise
        self._unknown.discard(own)
        return receipt

    async def append_many(
        self, payloads: Iterable[Data], *, number: int | None = None, timeout: float | None = None
    ) -> Receipts:
        """As `Log.append_many`. Without a number the messages get the next ones; then `payloads` must have an end.

        Where this fails, `unknown` has the numbers of the messages that are not known to be taken."""
        check_payloads(payloads)
        if number is not None:
            return await self._append_many(payloads, number, timeout)
        check_timeout(timeout)
        messages = list(map(as_bytes, payloads))
        first = self._expect_last() + 1
        self._last = first + len(messages) - 1
        try:
            return await self._append_many(messages, first, timeout)
        except BaseException as error:
            taken = getattr(error, "taken", 0)
            self._unknown.update(range(first + taken, first + len(messages)))
            raise

    async def _append_many(self, payloads: Iterable[Data], number: int, timeout: float | None) -> Receipts:
        receipts = await self._log.append_many(payloads, session=self._name, number=number, timeout=timeout)
        self._unknown.difference_update(range(number, number + len(receipts)))
        return receipts

    def _next(self) -> int:
        last = self._expect_last()
        if self._unused:
            return heappop(self._unused)
        self._last = last + 1
        return self._last

    def _expect_last(self) -> int:
        if self._last is None:
            raise InvalidArgument(
                "number: expected, since the session was made without after=: log.session(name, after=0) numbers by "
                "itself from 1 on"
            )
        return self._last


def check_session(session: object, number: object) -> tuple[bytes, int] | None:
    """Both, or neither."""
    if session is None:
        if number is not None:
            raise InvalidArgument(f"number={number!r} without a session: give session= too, or neither")
        return None
    name = _check_name(session)
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"number: the message's place in its session expected, from 1 on, not {number!r}")
    if not 0 < number < _NUMBERS:
        raise InvalidArgument(f"number: the message's place in its session expected, from 1 on, not {number}")
    return name, number


def _check_name(session: object) -> bytes:
    if not isinstance(session, bytes):
        raise TypeError(f'session: bytes expected, not {type(session).__name__}: encode a name, as with b"till 7"')
    if not 0 < len(session) <= _SESSION_BYTES:
        raise InvalidArgument(f"session: 1 to {_SESSION_BYTES} bytes expected, not {len(session)}")
    return session
