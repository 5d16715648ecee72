"""One object for a site's core: each layer is handed its own messages, and each sync goes to the layer that waits."""

from collections.abc import Sequence

import pytest
from tests.stack.wired import Wired, alone, first_replicas, replica

from reconvene.core.effects import Changed, Delivered, LayerEvent
from reconvene.corel.events import Green
from reconvene.corel.messages import STATE
from reconvene.ids import Service
from reconvene.stack.layer import Outlet
from reconvene.stack.log import LogLayer
from reconvene.stack.no_log import NoLog
from reconvene.stack.turn import Turn, Write
from reconvene.storage.memory import MemoryTables
from reconvene.storage.tables import Put


class Recording:
    """A layer that keeps what it is handed, and sends and writes what a test gives it."""

    def __init__(self, *kinds: int) -> None:
        self.kinds = kinds
        self.damage: str | None = None
        self.settled = True
        self.events: list[LayerEvent] = []
        self.came_back: list[tuple[Service, bytes]] = []
        self.tokens: list[int] = []
        self.to_send: list[bytes] = []
        self.to_write: Write | None = None
        self.due: int | None = None

    def begin(self, outlet: Outlet, time: int) -> None:
        pass

    def take(self, events: Sequence[LayerEvent]) -> None:
        self.events += events

    def take_back(self, unsent: Sequence[tuple[Service, bytes]]) -> None:
        self.came_back += unsent

    def speak(self, outlet: Outlet) -> bool:
        sent = False
        while self.to_send and outlet.submit(Service.AGREED, self.to_send[0]):
            self.to_send.pop(0)
            sent = True
        return sent

    def flush(self, now: int, turn: Turn) -> Write | None:
        write, self.to_write = self.to_write, None
        return write

    def synced(self, token: int) -> None:
        self.tokens.append(token)

    def deadline(self) -> int | None:
        return self.due

    def invariants(self) -> None:
        pass

    @property
    def delivered(self) -> list[bytes]:
        return [data for event in self.events if isinstance(event, Delivered) for data in event.payloads]

    @property
    def configurations(self) -> int:
        return sum(isinstance(event, Changed) for event in self.events)


def test_a_layer_is_handed_its_own_messages_and_the_configurations() -> None:
    one, two = Recording(40, 41), Recording(50)
    stack = alone(one, two)
    assert (one.configurations, two.configurations) == (1, 1)
    groups = stack.groups
    process = groups.open()
    membership = groups.join(process, "fleet", False, 1)
    stack.flush(1, 1)
    groups.send(membership, Service.AGREED, [b"a"], None, 2)
    groups.submit_other(Service.AGREED, [b"\x28x", b"\x32y", b"\x29z", b"\x3cof a layer that is not here"], 2)
    groups.send(membership, Service.AGREED, [b"b"], None, 2)
    turn = stack.flush(2, 2)
    assert one.delivered == [b"\x28x", b"\x29z"]
    assert two.delivered == [b"\x32y"]
    assert [event.payloads for _, events in turn.processes for event in events] == [[b"a"], [b"b"]]  # type: ignore[union-attr]
    # Where each stood in its frame completes its timestamp.
    part = one.events[-1]
    assert isinstance(part, Delivered)
    (frame,) = [event for event in turn.events if isinstance(event, Delivered)]
    assert part.indices is not None
    assert [frame.payloads[index] for index in part.indices] == part.payloads
    assert part.timestamp == frame.timestamp


def test_a_layer_that_speaks_is_handed_the_answer_in_the_same_turn() -> None:
    layer = Recording(40)
    stack = alone(layer)
    layer.to_send = [b"\x28one", b"\x28two"]
    turn = stack.flush(1, 1)
    assert layer.delivered == [b"\x28one", b"\x28two"]
    assert sum(len(event.payloads) for event in turn.events if isinstance(event, Delivered)) == 2


def test_a_kind_has_one_owner() -> None:
    with pytest.raises(AssertionError, match="kind 40 has an owner"):
        alone(Recording(40), Recording(40))


def test_each_sync_goes_to_the_layer_that_waits_for_it() -> None:
    one, two = Recording(40), Recording(41)
    stack = alone(one, two)
    one.to_write, two.to_write = Write(7, [Put(b"\x01", b"1")]), Write(7, [Put(b"\x02", b"2")])
    first, second = stack.flush(1, 1).writes
    assert [first.ops, second.ops] == [[Put(b"\x01", b"1")], [Put(b"\x02", b"2")]]
    assert first.token != second.token
    stack.synced(first.token, 1)
    assert (one.tokens, two.tokens) == ([7], [])
    stack.synced(second.token, 1)
    assert (one.tokens, two.tokens) == ([7], [7])


def test_what_waits_for_another_write_is_written_at_the_end() -> None:
    one, two = Recording(40), Recording(41)
    stack = alone(one, two)
    one.to_write, two.to_write = Write(1, []), Write(1, [])
    one.due, two.due, two.settled = 10, 10, False
    assert (stack.deadline(), stack.settled) == (10, False)
    (write,) = stack.finish().writes
    stack.synced(write.token, 10)
    assert (one.tokens, two.tokens) == ([1], [])


def test_a_damaged_layer_silences_its_site() -> None:
    layers = [[Recording(40)], [Recording(40)]]
    wired = Wired(layers, [MemoryTables(), MemoryTables()])
    wired.run(500)
    assert [core.members for core in wired.stacks] == [(0, 1), (0, 1)]
    layers[0][0].damage = "a value is corrupt"
    before = len(wired.turns[0])
    wired.run(100)
    assert not any(turn.datagrams for turn in wired.turns[0][before:])
    assert any(turn.datagrams for turn in wired.turns[1][before:])
    assert (wired.stacks[0].damage, wired.stacks[1].damage) == ("a value is corrupt", None)


def test_what_is_not_sent_in_its_configuration_comes_back_to_its_layer() -> None:
    layers = [[Recording(40), Recording(41)], [Recording(40), Recording(41)]]
    wired = Wired(layers, [MemoryTables(), MemoryTables()])
    groups = wired.stacks[0].groups
    wired.stacks[0].flush(0, 0)
    sent = 0
    while not layers[0][0].came_back:
        assert wired.now < 10**9, "a configuration is being installed while something waits"
        sent += groups.submit_other(Service.AGREED, [b"\x28x"], wired.now)
        wired.run(1)
    assert set(layers[0][0].came_back) == {(Service.AGREED, b"\x28x")}
    assert layers[0][1].came_back == []


class Handed(LogLayer):
    """The log, and what it is handed."""

    def take(self, events: Sequence[LayerEvent]) -> None:
        self.payloads = [*getattr(self, "payloads", []), *payloads_of(events)]
        super().take(events)


class HandedNoLog(NoLog):
    def take(self, events: Sequence[LayerEvent]) -> None:
        self.payloads = [*getattr(self, "payloads", []), *payloads_of(events)]
        super().take(events)


def payloads_of(events: Sequence[LayerEvent]) -> list[bytes]:
    return [data for event in events if isinstance(event, Delivered) for data in event.payloads]


def test_the_log_is_handed_no_message_of_a_group_and_a_site_without_it_next_to_nothing() -> None:
    """c takes no part in the log of a and b: they recover since it says so, and all three have the group."""
    (a, a_tables), (b, b_tables) = replica("a", "abc", "ab"), replica("b", "abc", "ab")
    logs = Handed(a), Handed(b)
    no_log = HandedNoLog("abc", first_replicas("ab"))
    wired = Wired([[logs[0]], [logs[1]], [no_log]], [a_tables, b_tables, MemoryTables()])
    wired.run(500)
    assert [core.members for core in wired.stacks] == [(0, 1, 2)] * 3
    assert a.participants == b.participants == ("a", "b")
    memberships = [wired.join(site, "fleet") for site in range(3)]
    wired.run(100)
    for number in range(10):
        a.append([b"entry %d" % number])
        for site, membership in enumerate(memberships):
            wired.send(site, membership, b"%d from %d" % (number, site))
        wired.run(10)
    wired.run(200)
    assert [len(wired.arrived(site)) for site in range(3)] == [30, 30, 30]
    greens = [event for turn in wired.turns[1] for event in turn.log if isinstance(event, Green)]
    assert sum(event.batch.count for event in greens) == 10
    for log in logs:
        assert len(log.payloads) > 10
        assert {data[0] for data in log.payloads} <= log.kinds
    assert {data[0] for data in no_log.payloads} == {STATE}
    states = sum(data[0] == STATE for data in logs[0].payloads)
    assert len(no_log.payloads) <= states + 3, "one of each member of each configuration"
    assert (no_log.behind, no_log.malformed) == ({}, 0)
    assert not any(turn.log for turn in wired.turns[2])
