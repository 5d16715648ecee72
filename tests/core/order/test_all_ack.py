"""All-ack, lazy and eager."""

import pytest
from tests.sim.core_cluster import SimCluster

from reconvene.core.options import MS, Options
from reconvene.core.order import AllAck, Note, Stamp, make_engine
from reconvene.core.order.all_ack import LAZY_FOR_NS
from reconvene.wire.messages import Frame


def frame(sender: int, clock: int, slot: int | None = None) -> Frame:
    return Frame(1, sender, clock, clock, [], 2, 0, 0, [b"x"], 0, clock if slot is None else slot)


def given(engine: AllAck) -> list[tuple[int, int]]:
    keys = []
    while (found := engine.peek()) is not None:
        engine.advance()
        keys.append(found[0])
    engine.invariants()
    return keys


def test_a_frame_waits_for_every_members_clock() -> None:
    engine = AllAck(1, 3, 2)
    engine.receive(frame(0, 5), 0)
    engine.heard(1, 5)
    assert given(engine) == []
    engine.heard(2, 5)
    assert given(engine) == [(5, 0)]


def test_equal_clocks_go_by_rank() -> None:
    engine = AllAck(1, 3, 2)
    engine.receive(frame(1, 4), 0)
    engine.receive(frame(0, 4), 0)
    engine.receive(frame(2, 5), 0)
    assert given(engine) == [(4, 0), (4, 1)]


def test_stamp_and_timestamp() -> None:
    engine = AllAck(7, 3, 2)
    assert engine.stamp(12, 0) == Stamp(0, 12)
    assert engine.timestamp((12, 2)) == (7, 0, 12, 2)
    assert engine.note(0) is None
    assert engine.deadline() is None


def test_frames_outside_the_order_bring_their_clock() -> None:
    engine = AllAck(1, 2, 0)
    engine.receive(frame(0, 3), 0)
    engine.receive(frame(1, 4, slot=-1), 0)
    assert given(engine) == [(3, 0)]
    assert not engine.wants_alive()


def test_an_eager_site_speaks_when_waited_for_and_once() -> None:
    engine = AllAck(1, 2, 0)
    assert not engine.wants_alive()
    engine.receive(frame(1, 3), 0)
    assert engine.awaited()
    assert engine.wants_alive()
    engine.heard(0, 3)
    assert not engine.awaited()
    assert not engine.wants_alive()
    assert given(engine) == [(3, 1)]


def test_an_eager_site_numbers_nothing_besides() -> None:
    engine = AllAck(1, 2, 0)
    engine.receive(frame(1, 3), 0)
    assert engine.deadline() is None
    assert engine.note(10 * LAZY_FOR_NS) is None


def test_a_lazy_site_counts_numbered_frames_only() -> None:
    engine = AllAck(1, 3, 0, eager=False)
    engine.receive(frame(1, 3), 0)
    assert engine.awaited()
    assert not engine.wants_alive()
    for rank in range(3):
        engine.heard(rank, 9)
    assert engine.clocks() == [0, 3, 0]
    assert given(engine) == []
    engine.receive(frame(0, 4), 0)
    assert given(engine) == []
    engine.receive(frame(2, 5), 0)
    assert given(engine) == [(3, 1)]


def test_a_lazy_site_speaks_once_it_has_been_waited_for_too_long() -> None:
    engine = AllAck(1, 2, 0, eager=False)
    assert engine.deadline() is None
    engine.receive(frame(1, 3), 50)
    engine.receive(frame(1, 4), 90)
    assert engine.deadline() == 50 + LAZY_FOR_NS, "the first one has waited longest"
    assert engine.note(49 + LAZY_FOR_NS) is None
    assert engine.note(50 + LAZY_FOR_NS) == Note(0, 0, [])
    engine.receive(frame(0, 5, slot=-1), 50 + LAZY_FOR_NS)
    assert given(engine) == [(3, 1), (4, 1)]
    assert engine.deadline() is None
    assert engine.note(3 * LAZY_FOR_NS) is None, "what says no more is not waited for"


def test_an_own_message_makes_a_lazy_site_wait_anew() -> None:
    engine = AllAck(1, 2, 0, eager=False)
    engine.receive(frame(1, 3), 0)
    engine.receive(frame(0, 4), 7)
    assert engine.deadline() is None
    engine.receive(frame(1, 5), 20)
    assert engine.deadline() == 20 + LAZY_FOR_NS


def test_a_frame_outside_the_order_waits_for_no_member() -> None:
    engine = AllAck(1, 2, 0, eager=False)
    engine.receive(frame(1, 3, slot=-1), 0)
    assert not engine.awaited()
    assert engine.deadline() is None


def test_a_lazy_site_takes_over_what_others_counted_and_then_is_silent() -> None:
    engine = AllAck(1, 2, 0, eager=False)
    engine.receive(frame(1, 3), 0)
    engine.merge([3, 3])
    assert given(engine) == [(3, 1)]
    engine.receive(frame(1, 5), 0)
    engine.skip_empty()
    assert engine.note(LAZY_FOR_NS) is None


@pytest.mark.parametrize(("eager", "at_least_ns", "at_most_ns"), [(True, 0, 5 * MS), (False, LAZY_FOR_NS, None)])
def test_in_a_quiet_group_a_message_arrives_all_the_same(
    eager: bool, at_least_ns: int, at_most_ns: int | None
) -> None:
    cluster = SimCluster(3, options=Options(order="all-ack", eager=eager))
    cluster.wait_together()
    start = cluster.now_ns
    cluster.send("a", b"alone")
    cluster.run_until(lambda: all(cluster.deliveries(node) for node in cluster.nodes))
    took_ns = cluster.now_ns - start
    assert at_least_ns <= took_ns <= (at_most_ns or LAZY_FOR_NS + 5 * MS)
    cluster.settle()
    assert cluster.verify().ok


def test_clocks_counted_by_any_decide_what_is_regular() -> None:
    engine = AllAck(1, 3, 0)
    engine.receive(frame(1, 3), 0)
    engine.receive(frame(1, 9), 0)
    engine.receive(frame(0, 10), 0)
    assert engine.clocks() == [10, 9, 0]
    engine.merge([10, 9, 5])
    assert given(engine) == [(3, 1)]
    engine.skip_empty()
    assert given(engine) == [(9, 1), (10, 0)]


def test_make_engine() -> None:
    engine = make_engine(Options(order="all-ack", eager=False), 7, (2, 5), 1)
    assert isinstance(engine, AllAck)
    assert not engine.eager
    engine.round_trips([None, 3])
