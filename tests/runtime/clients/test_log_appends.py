"""Appends of one client, at a fake log that takes each step when the test says so."""

import asyncio

from tests.client.fake_log import FakeLog

from reconvene.errors import ReconveneError, Unavailable
from reconvene.runtime.clients.log_appends import ClientAppends
from reconvene.wire.client_log import Append, Appended
from reconvene.wire.clients import ToClient


class Answered:
    def __init__(self) -> None:
        self.structs: list[ToClient] = []
        self.failed: list[tuple[int, str]] = []

    def push(self, struct: ToClient, size: int = 64) -> None:
        self.structs.append(struct)

    appended = push

    def answer(self, request: int) -> None:
        raise AssertionError("an append is answered by what became of it")

    def fail(self, request: int, error: ReconveneError, taken: int = 0) -> None:
        assert isinstance(error, Unavailable)
        self.failed.append((request, str(error)))

    @property
    def requests(self) -> list[int]:
        return [struct.request for struct in self.structs if isinstance(struct, Appended)]


def appends_at(log: FakeLog) -> tuple[ClientAppends, Answered]:
    answered = Answered()
    return ClientAppends(log, answered, lambda role, what: None, 1_000), answered


def test_a_site_that_was_replaced_answers_when_the_append_is_durable() -> None:
    """A replaced site has a new author name, which differs from the site's own name."""

    async def scenario() -> None:
        log = FakeLog()
        log.author, log.sync = "a#2", False
        appends, answered = appends_at(log)
        appends.append(Append(1, [b"x"], b"session", 1))
        await asyncio.sleep(0.01)
        assert answered.requests == []
        log.sync = True
        log.turn()
        await asyncio.sleep(0)
        assert answered.requests == [1]

    asyncio.run(scenario())


def test_appends_wait_for_room_in_their_order() -> None:
    async def scenario() -> None:
        log = FakeLog()
        log.order, log.most = False, 3
        appends, answered = appends_at(log)
        for request, count in enumerate((2, 2, 1)):
            appends.append(Append(request, [b"x"] * count))
        await asyncio.sleep(0.01)
        assert answered.requests == [0]  # the last would fit, but is not accepted before the second
        log.order_all()
        await asyncio.sleep(0.01)
        assert answered.requests == [0, 1, 2]

    asyncio.run(scenario())


def test_appends_that_wait_are_refused_when_the_log_takes_nothing_more() -> None:
    async def scenario() -> None:
        log = FakeLog()
        log.order, log.most = False, 1
        appends, answered = appends_at(log)
        for request in range(3):
            appends.append(Append(request, [b"x"]))
        await asyncio.sleep(0.01)
        log.trouble = "the disk is full"
        log.room.wake()
        await asyncio.sleep(0.01)
        assert (answered.requests, answered.failed) == ([0], [(1, "the disk is full"), (2, "the disk is full")])

    asyncio.run(scenario())


def test_a_client_that_is_gone_leaves_the_queue() -> None:
    async def scenario() -> None:
        log = FakeLog()
        log.order, log.most = False, 1
        gone, _ = appends_at(log)
        stays, answered = appends_at(log)
        gone.append(Append(1, [b"x"]))
        gone.append(Append(2, [b"x"]))
        stays.append(Append(7, [b"y"]))
        gone.close()
        assert len(log.room.waiting) == 1
        log.order_all()
        await asyncio.sleep(0.01)
        assert answered.requests == [7]

    asyncio.run(scenario())
