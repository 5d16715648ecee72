"""An outpost against a naive log: everything that it reported as accepted is in the log once, in its order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconvene.corel.events import Color
from reconvene.errors import Malformed, Rejected, Unavailable
from reconvene.outpost.forwarding import Answer, Refusal, Step
from reconvene.outpost.layout import RECORD, boot, load_record
from reconvene.outpost.limits import OutpostLimits
from reconvene.outpost.outpost import Outpost, OutpostTurn
from reconvene.storage.memory import MemoryTables
from reconvene.storage.tables import Op, Put
from reconvene.wire.client_log import Appended, Confirm, Confirmed, Forward

MS = 1_000_000
SMALL = OutpostLimits(
    messages=60,
    batch_bytes=12,
    batch_messages=3,
    close_bytes=24,
    cache_bytes=20,
    forward_bytes=12,
    forward_messages=3,
    window_bytes=20,
    window_requests=3,
)


class NaiveLog:
    """One list, as all sites together would have it."""

    def __init__(self) -> None:
        self.order: list[tuple[bytes, int, bytes]] = []
        self.sources: list[tuple[bytes, int, bytes]] = []

    def answer(self, request: Forward | Confirm) -> Answer | None:
        known = {(session, number): at for at, (session, number, _) in enumerate(self.order)}
        if isinstance(request, Confirm):
            places = []
            number = request.first
            while (at := known.get((request.session, number))) is not None:
                places.append((number, 1, at))
                number += 1
            return Confirmed(request.request, places) if places else None
        before = request.number - 1
        if before > request.after and (request.session, before) not in known:
            return Refusal(request.request, "out of order")
        for number, message in enumerate(request.messages, request.number):
            if (request.session, number) not in known:
                self.order.append((request.session, number, message))
        for session, number, start, count in request.sources:
            for index in range(count):
                self.sources.append((session, number + index, request.messages[start + index]))
        return Appended(request.request, [], 0)


class Shop:
    """An outpost whose disk syncs when told to, and whose link delivers when told to."""

    def __init__(self, limits: OutpostLimits = SMALL) -> None:
        self.tables = MemoryTables()
        self.log = NaiveLog()
        self.limits = limits
        self.now = 0
        self.accepted: dict[int, tuple[int, bytes]] = {}
        """By counter: (incarnation, data) of what was reported as durable."""
        self.places: dict[int, int] = {}
        self.start()

    def start(self) -> None:
        self.tables.write(boot(self.tables, b"i" * 16))
        self.outpost = Outpost("o", 3, self.tables, self.limits)
        self.given: dict[int, bytes] = {
            batch.first + at: message
            for batch in self.outpost.queue.batches
            for at, message in enumerate(self.outpost.queue.read(batch).messages)
        }
        self.writing: tuple[int, list[Op]] | None = None
        self.requests: list[Forward | Confirm] = []
        self.asked: list[Confirm] = []
        self.connecting = self.open = False
        self.turn()

    def turn(self) -> OutpostTurn:
        turn = self.outpost.flush(self.now, self.now)
        for first, count, incarnation in turn.accepted:
            for counter in range(first, first + count):
                self.accepted[counter] = (incarnation, self.given[counter])
        for first, count, position in turn.places:
            self.places.update((first + at, position + at) for at in range(count))
        if turn.token:
            assert self.writing is None, "one write at a time"
            self.writing = (turn.token, turn.ops)
        if turn.disconnect:
            self.open = False
            self.requests, self.asked = [], []
        if turn.connect is not None:
            self.connecting = True
        assert not turn.requests or self.open
        self.requests += turn.requests
        self.outpost.invariants()
        return turn

    def append(self, *messages: bytes, session: bytes | None = None, number: int = 0) -> None:
        at = 0
        for taken in self.outpost.append(messages, session, number):
            self.given.update((taken.first + i, messages[at + i]) for i in range(taken.count) if taken.new)
            at += taken.count
        self.turn()

    def sync(self) -> None:
        if self.writing is not None:
            (token, ops), self.writing = self.writing, None
            self.tables.write(ops)
            self.outpost.synced(token)
            self.turn()

    def crash(self) -> None:
        self.start()

    def connect(self) -> None:
        self.now += self.outpost.limits.retry_most_ns
        self.turn()
        if self.connecting:
            self.connecting, self.open = False, True
            self.outpost.connected(self.now)
            self.turn()

    def cut(self) -> None:
        if self.open or self.connecting:
            self.open = self.connecting = False
            self.requests, self.asked = [], []
            self.outpost.lost("cut", self.now)
            self.turn()

    def deliver(self, *, answers: bool = True) -> None:
        """The site gets one request; without `answers` the link is cut before its answer."""
        if self.requests:
            request = self.requests.pop(0)
            answer = self.log.answer(request)
            if answer is None:
                assert isinstance(request, Confirm)
                self.asked.append(request)
            elif answers:
                self.outpost.answered(answer, self.now)
                self.turn()
        for confirm in list(self.asked):
            answer = self.log.answer(confirm)
            if answer is not None and answers and confirm in self.asked:
                self.asked.remove(confirm)
                self.outpost.answered(answer, self.now)
                self.turn()
        if not answers:
            self.cut()

    def settle(self) -> None:
        for _ in range(400):
            self.sync()
            if not self.open:
                self.connect()
            self.deliver()
            if not self.outpost.queue.messages and self.writing is None:
                return
        raise AssertionError("it does not come to rest")


_STEP = st.sampled_from(["append", "append", "session", "sync", "sync", "crash", "connect", "cut", "deliver", "lose"])


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(_STEP, st.integers(1, 5)), max_size=60))
def test_what_was_accepted_is_in_the_log_once_and_in_order(steps: list[tuple[str, int]]) -> None:
    shop = Shop()
    made = 0
    for step, count in steps:
        match step:
            case "append" | "session":
                messages = [b"m%d" % (made + at) for at in range(count)]
                made += count
                try:
                    if step == "session":
                        shop.append(*messages, session=b"client", number=made - count + 1)
                    else:
                        shop.append(*messages)
                except Unavailable:
                    assert shop.outpost.queue.messages + count > SMALL.messages
            case "sync":
                shop.sync()
            case "crash":
                shop.crash()
            case "connect":
                shop.connect()
            case "cut":
                shop.cut()
            case "deliver":
                shop.deliver()
            case "lose":
                shop.deliver(answers=False)
    shop.settle()
    order = shop.log.order
    assert len({session for session, _, _ in order}) <= 1, "one session for ever"
    assert [number for _, number, _ in order] == list(range(1, len(order) + 1)), "once, and in order"
    for counter, (_, message) in shop.accepted.items():
        assert order[counter - 1][2] == message
    for counter, position in shop.places.items():
        assert position == counter - 1
    for _, number, message in shop.log.sources:
        assert message in {data for _, _, data in order}
        assert number > 0
    # Nothing is left behind on the disk.
    assert [key for key, _ in shop.tables.scan(b"", b"\xff")] == [RECORD]


def test_a_message_is_accepted_only_after_its_sync_and_sent_only_then() -> None:
    shop = Shop()
    shop.append(b"one")
    shop.append(b"two")
    assert not shop.accepted
    assert shop.outpost.forwarding.step is Step.IDLE
    shop.sync()
    assert shop.accepted == {1: (1, b"one")}, "what came during the sync shares the next one"
    shop.sync()
    assert shop.accepted == {1: (1, b"one"), 2: (1, b"two")}


def test_pending_shows_what_a_site_has() -> None:
    shop = Shop(OutpostLimits())
    shop.append(b"one", b"two")
    assert shop.outpost.pending(10) == [], "not durable: not accepted"
    shop.sync()
    assert [(one.color, one.messages) for one in shop.outpost.pending(10)] == [(Color.RED, [b"one", b"two"])]
    shop.connect()
    forward = shop.requests.pop(0)
    assert isinstance(forward, Forward)
    answer = shop.log.answer(forward)
    assert answer is not None
    shop.outpost.answered(answer, shop.now)
    assert [one.color for one in shop.outpost.pending(10)] == [Color.YELLOW]
    shop.deliver()
    assert shop.outpost.pending(10) == []
    assert shop.places == {1: 0, 2: 1}


def test_at_its_limit_it_says_so_and_takes_nothing() -> None:
    shop = Shop(OutpostLimits(messages=3))
    shop.append(b"one", b"two")
    with pytest.raises(Unavailable, match="outpost o: 2 messages of 6 bytes wait to be ordered: at most 3"):
        shop.append(b"three", b"four")
    shop.append(b"three")
    shop.settle()
    shop.append(b"four")
    shop.settle()
    assert [message for _, _, message in shop.log.order] == [b"one", b"two", b"three", b"four"]


def test_a_client_that_retries_gets_the_message_that_is_there() -> None:
    shop = Shop()
    outpost = shop.outpost
    (first,) = outpost.append([b"x", b"y"], b"s", 7)
    assert (first.first, first.new) == (1, True)
    again = outpost.append([b"y", b"z"], b"s", 8)
    assert [(taken.first, taken.count, taken.new) for taken in again] == [(2, 1, False), (3, 1, True)]
    with pytest.raises(Rejected, match="was taken before with other data"):
        outpost.append([b"other"], b"s", 8)
    shop.given = {1: b"x", 2: b"y", 3: b"z"}
    shop.turn()
    shop.sync()
    shop.crash()
    (known,) = shop.outpost.append([b"z"], b"s", 9)
    assert (known.first, known.new, known.incarnation) == (3, False, 1), "also after a restart"
    with pytest.raises(Rejected, match="without a session"):
        outpost.append([b"x"], None, 7)


def test_a_site_that_does_not_answer_is_left_for_the_next() -> None:
    shop = Shop()
    shop.append(b"one")
    shop.sync()
    shop.connect()
    assert shop.outpost.forwarding.site == 0
    shop.now += shop.limits.patience_ns
    assert shop.turn().disconnect
    assert shop.outpost.forwarding.site == 1
    assert "nothing became green" in shop.outpost.forwarding.trouble
    shop.settle()
    assert shop.outpost.forwarding.trouble == ""


def test_a_site_that_talks_nonsense_is_left() -> None:
    shop = Shop()
    shop.append(b"one")
    shop.sync()
    shop.connect()
    confirm = next(request for request in shop.requests if isinstance(request, Confirm))
    for places in ([], [(2, 1, 0)], [(1, 5, 0)], [(1, 0, 0)]):
        shop.outpost.answered(Confirmed(confirm.request, places), shop.now)
        assert shop.turn().disconnect
        shop.connect()
        confirm = next(request for request in shop.requests if isinstance(request, Confirm))
    shop.settle()


def test_storage_of_a_later_program_is_refused() -> None:
    tables = MemoryTables()
    tables.write([Put(RECORD, b"\x92\x63\xa0")])
    with pytest.raises(Unavailable, match="format 99"):
        load_record(tables)
    tables.write([Put(RECORD, b"\x92\x01\xa0")])
    with pytest.raises(Malformed):
        load_record(tables)
