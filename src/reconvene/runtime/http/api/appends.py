"""One append over HTTP, from the message to its receipt.

Given: the site's log. Promised: a refusal before the log has taken the message says that nothing happened. From then
until it is durable, a failure says that the outcome is unknown. Once it is durable the answer is a receipt, whatever
becomes of its position, unless another message under its key turns out to count instead.
"""

import asyncio
from dataclasses import dataclass

from reconvene.corel.clients.refusals import NoRoom, SessionConflict
from reconvene.errors import OutcomeTimedOut, OutcomeUnknown, PlaceForgotten, ReconveneError, Unavailable
from reconvene.ids import message_id
from reconvene.runtime.http.api.documents import LogReceipt
from reconvene.runtime.log.interface import SiteLog
from reconvene.wire.client_log import Append, Appended, Order, Part

__all__ = ["append"]


async def append(
    port: SiteLog, data: bytes, key: tuple[bytes, int] | None, ordered: bool, seconds: float
) -> LogReceipt:
    """`key`: (session, number). `ordered`: waits for the position, too. Raises as `SiteLog.append` does, NoRoom if
    there was no room in time, OutcomeUnknown if the message may or may not be durable."""
    deadline = asyncio.get_running_loop().time() + seconds
    request = Append(0, [data]) if key is None else Append(0, [data], *key)
    appended = await _taken(port, request, deadline)
    await _durable(port, appended, deadline)
    part = appended.parts[0]
    place = _Place(part.position is not None or not part.author, part.position)
    if ordered and not place.ordered:
        place = await _place(port, appended, part, key is not None, deadline)
    known = message_id(part.author, part.incarnation, part.first) if part.incarnation else None
    return LogReceipt(known, not part.new, place.ordered, place.position, place.why)


@dataclass(frozen=True, slots=True)
class _Place:
    ordered: bool
    position: int | None = None
    why: str | None = None


async def _taken(port: SiteLog, request: Append, deadline: float) -> Appended:
    if not port.room.waiting:
        try:
            return port.append(request)
        except Unavailable:
            if port.room.free() > 0:
                raise
    entered: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()

    def enter() -> None:
        if entered.done():
            return
        try:
            entered.set_result(port.append(request))
        except ReconveneError as error:
            entered.set_exception(error)

    waiter = port.when_room(1, enter)
    try:
        async with asyncio.timeout_at(deadline):
            return await asyncio.shield(entered)
    except TimeoutError:
        if entered.done():
            return entered.result()
        why = port.why_no_appends() or f"site {port.name}: others wait for room"
        raise Unavailable(why) if port.begins else NoRoom(why) from None
    finally:
        entered.cancel()
        waiter.leave()


async def _durable(port: SiteLog, appended: Appended, deadline: float) -> None:
    durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def then(_: Appended, error: ReconveneError | None) -> None:
        if durable.done():
            return
        if error is None:
            durable.set_result(None)
        else:
            durable.set_exception(OutcomeUnknown(f"site {port.name}: not known to be durable: {error}"))

    port.durable.when(appended, port.author, then)
    try:
        async with asyncio.timeout_at(deadline):
            await durable
    except TimeoutError:
        raise OutcomeTimedOut(f"site {port.name}: not known to be durable in time") from None


async def _place(port: SiteLog, appended: Appended, part: Part, retried: bool, deadline: float) -> _Place:
    """Raises SessionConflict if another message with this number counts instead."""
    order = Order(0, part.author, part.first, 1, appended.green, retried, appended.outpost)
    try:
        async with asyncio.timeout_at(deadline):
            while (places := await port.find(order)) is None:
                pass
        return _Place(True, places[0][0])
    except PlaceForgotten:
        return _Place(True)
    except TimeoutError:
        why = port.why_no_order() or f"site {port.name}: not ordered in time"
        return _Place(False, why=why)
    except SessionConflict:
        raise
    except ReconveneError as error:
        return _Place(False, why=str(error))
