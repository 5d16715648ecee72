"""What clients are told of casts between clusters, by the version of their protocol."""

import asyncio

import pytest

from reconvene.core.groups.events import Process
from reconvene.errors import ReconveneError, Unavailable
from reconvene.ids import MessageId
from reconvene.isis.events import IsisEvent, Sent
from reconvene.isis.far_events import (
    FarCallOver,
    FarFailed,
    FarProcess,
    FarReachable,
    FarReceived,
    FarUnreachable,
    FarUnwatched,
)
from reconvene.runtime.clients.isis_requests import ClientIsis
from reconvene.wire import client_isis as wire
from reconvene.wire.clients import MINOR, WIDE_ISIS_MINOR, ToClient

ME = Process(0, 1, 1)
Z = FarProcess("paris", "z", 1, 1)
ASKED = MessageId("berlin", "a", 1, 7)
REQUEST = FarReceived(ME, "cbcast", Z, MessageId("paris", "z", 1, 2), b"?", "bank", "1", 3, 1, 0, 9)
EVENTS: list[IsisEvent] = [
    REQUEST,
    FarReceived(ME, "cbcast", Z, MessageId("paris", "z", 1, 3), b"!", None, "1", 4, 0, 7),
    FarFailed(ME, Z),
    FarFailed(ME, Z, ASKED),
    FarUnreachable(ME, Z),
    FarUnreachable(ME, Z, ASKED),
    FarReachable(ME, Z),
    FarUnwatched(ME, Z),
    FarCallOver(ME, ASKED),
]


class Here:
    """The site's side and the client's: one process, what it replies, and what its client is told."""

    name = "a"
    process = ME

    def __init__(self) -> None:
        self.replies: list[tuple[MessageId, bytes]] = []
        self.told: list[ToClient] = []
        self.away = False

    def open(self, receiver: object, name: str, *, answers: bool = True) -> "Here":
        return self

    def wide_reply(self, cast: MessageId, payload: bytes, done: Sent) -> None:
        if self.away:
            raise Unavailable("out of reach")
        self.replies.append((cast, payload))
        done(None)

    def push(self, struct: ToClient, size: int = 64) -> None:
        self.told.append(struct)

    def answer(self, request: int) -> None:
        raise AssertionError("nothing is asked that would be answered so")

    def fail(self, request: int, error: ReconveneError, taken: int = 0) -> None:
        raise error


def hear(here: Here, minor: int) -> list[ToClient]:
    async def events() -> None:
        client = ClientIsis(here, here, lambda role, what: None, minor=minor)  # type: ignore[arg-type]
        client.receive(wire.IsisOpen(1))
        client.isis_events(EVENTS)

    asyncio.run(events())
    return here.told[1:]


def test_each_event_is_told() -> None:
    assert hear(Here(), MINOR) == [
        wire.IsisWideReceived(0, Z, "bank", 2, b"?", 1, 9),
        wire.IsisWideReplied(7, Z, b"!"),
        wire.IsisWideTold(Z, wire.Reached.FAILED),
        wire.IsisWideReplied(7, Z, None),
        wire.IsisWideTold(Z, wire.Reached.AWAY),
        wire.IsisWideReplied(7, Z, None, True),
        wire.IsisWideTold(Z, wire.Reached.BACK),
        wire.IsisWideTold(Z, wire.Reached.UNWATCHED),
        wire.IsisWideOver(7),
    ]


@pytest.mark.parametrize("away", [False, True])
def test_an_older_client_is_told_nothing_and_its_site_replies(away: bool) -> None:
    """It could not read that, and would end the connection."""
    here = Here()
    here.away = away
    assert hear(here, WIDE_ISIS_MINOR - 1) == []
    assert here.replies == ([] if away else [(REQUEST.id, b"")])
