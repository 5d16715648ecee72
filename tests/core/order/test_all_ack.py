"""All-ack, lazy and eager."""

from reconvene.core.options import Options
from reconvene.core.order import AllAck, Stamp, make_engine
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
    eager, lazy = AllAck(1, 2, 0), AllAck(1, 2, 0, eager=False)
    for engine in (eager, lazy):
        assert not engine.wants_alive()
        engine.receive(frame(1, 3), 0)
        assert engine.awaited()
    assert eager.wants_alive()
    assert not lazy.wants_alive()
    for engine in (eager, lazy):
        engine.heard(0, 3)
        assert not engine.awaited()
        assert not engine.wants_alive()
        assert given(engine) == [(3, 1)]


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
