"""What a client is told of casts between clusters, and of processes of other clusters."""

from collections.abc import Iterator

from reconvene.isis.events import IsisEvent
from reconvene.isis.far_events import (
    FarCallOver,
    FarFailed,
    FarReachable,
    FarReceived,
    FarUnreachable,
    FarUnwatched,
)
from reconvene.wire import client_isis as wire
from reconvene.wire.client_isis import Reached

__all__ = ["said_of"]

_KINDS = {"cbcast": 0, "abcast": 1}
_SMALL_BYTES = 64


def said_of(event: IsisEvent) -> Iterator[tuple[wire.IsisEvent, int]]:
    """With its bytes. Nothing of an event that is not of several clusters."""
    match event:
        case FarReceived(answers=0):
            received = wire.IsisWideReceived(
                _KINDS[event.kind], event.sender, event.group, event.id.counter, event.payload, event.replies,
                event.clock if event.replies else 0,
            )  # fmt: skip
            yield received, len(event.payload) + _SMALL_BYTES
        case FarReceived(answers=counter):
            yield wire.IsisWideReplied(counter, event.sender, event.payload), len(event.payload) + _SMALL_BYTES
        case FarFailed(id=None):
            yield wire.IsisWideTold(event.failed, Reached.FAILED), _SMALL_BYTES
        case FarFailed(id=cast) if cast is not None:
            yield wire.IsisWideReplied(cast.counter, event.failed, None), _SMALL_BYTES
        case FarUnreachable(id=None):
            yield wire.IsisWideTold(event.other, Reached.AWAY), _SMALL_BYTES
        case FarUnreachable(id=cast) if cast is not None:
            yield wire.IsisWideReplied(cast.counter, event.other, None, True), _SMALL_BYTES
        case FarReachable():
            yield wire.IsisWideTold(event.other, Reached.BACK), _SMALL_BYTES
        case FarUnwatched():
            yield wire.IsisWideTold(event.other, Reached.UNWATCHED), _SMALL_BYTES
        case FarCallOver():
            yield wire.IsisWideOver(event.id.counter), _SMALL_BYTES
