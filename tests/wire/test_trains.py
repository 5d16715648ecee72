"""Trains: cut and joined again, whatever happens to their segments on the way, and whoever else sends some."""

import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconvene.wire.codec import DATAGRAM_BYTES
from reconvene.wire.seal import MAJOR, Reason, Refused
from reconvene.wire.trains import (
    AGE_S,
    MOST_SEGMENTS,
    PARTIAL_TRAINS,
    SEGMENT_HEADER_BYTES,
    SEGMENT_MARK,
    Joiner,
    cut,
)

A, B, STRANGER = ("10.0.0.1", 7000), ("10.0.0.2", 7000), ("10.9.9.9", 1)
ROOM = 100


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def segments(packet: bytes, number: int, room: int = ROOM) -> list[memoryview]:
    """As they are on the wire."""
    train = cut(packet, number, room)
    assert train is not None
    step = room + SEGMENT_HEADER_BYTES
    return [memoryview(train)[at : at + step] for at in range(0, len(train), step)]


def packet_of(number: int, length: int = 950) -> bytes:
    return random.Random(number).randbytes(length)


def header(index: int, count: int, number: int, mark: int = SEGMENT_MARK, major: int = MAJOR) -> bytes:
    return bytes([mark, major, index, count]) + number.to_bytes(4)


@given(st.integers(ROOM + 1, ROOM * MOST_SEGMENTS), st.integers(0, 2**32 - 1), st.randoms(use_true_random=False))
def test_a_train_is_joined_in_any_order(length: int, number: int, chance: random.Random) -> None:
    packet = chance.randbytes(length)
    parts = segments(packet, number)
    assert len(parts) == -(-length // ROOM)
    assert all(len(part) == ROOM + SEGMENT_HEADER_BYTES for part in parts[:-1])
    chance.shuffle(parts)
    joiner = Joiner([A], Clock())
    assert [joiner.take(part, A) for part in parts] == [None] * (len(parts) - 1) + [packet]
    assert (joiner.joined, joiner.held, joiner.dropped, joiner.doubled) == (1, 0, 0, 0)


@given(st.integers(ROOM + 1, ROOM * MOST_SEGMENTS), st.integers(0, 2**32 - 1))
def test_a_train_that_is_received_as_one(length: int, number: int) -> None:
    packet = packet_of(number, length)
    run = cut(packet, number, ROOM)
    assert run is not None
    joiner = Joiner([A], Clock())
    size = ROOM + SEGMENT_HEADER_BYTES
    assert joiner.take_run(memoryview(run), size, A) == packet
    assert joiner.take_run(memoryview(run), size, A) is None, "a second time"
    assert all(joiner.take(part, A) is None for part in segments(packet, number))
    assert joiner.take_run(memoryview(run)[size:], size, A) is None, "without its first segment"
    assert (joiner.joined, joiner.held) == (1, 0)


def test_a_run_that_is_no_whole_train_in_order() -> None:
    """The kernel joins datagrams of one sender and size, whatever is in them."""
    size = ROOM + SEGMENT_HEADER_BYTES
    parts = segments(packet_of(1, 1_000), 1)
    other = segments(packet_of(2, 1_000), 2)
    swapped = [*parts[:3], parts[4], parts[3], *parts[5:]]
    doubled = [*parts[:3], parts[2], *parts[4:]]
    mixed = [*parts[:3], other[3], *parts[4:]]
    for run in (swapped, doubled, mixed, parts[1:], parts[:-1], [*parts, other[0]]):
        joiner = Joiner([A], Clock())
        assert joiner.take_run(memoryview(b"".join(run)), size, A) is None
        assert (joiner.joined, joiner.segments, joiner.held) == (0, 0, 0), "nothing was taken"
    assert Joiner([A], Clock()).take_run(memoryview(b"".join(parts)), size, A) == packet_of(1, 1_000)


@given(st.randoms(use_true_random=False))
def test_as_a_naive_joiner_would(chance: random.Random) -> None:
    """Segments get lost, doubled and swapped with later ones, of two senders: exactly the trains of which every
    segment arrived are joined, each once."""
    packets = {
        (source, number): packet_of(number, chance.randint(101, 900)) for source in (A, B) for number in range(30)
    }
    sent: list[tuple[float, tuple[str, int], int, memoryview]] = []
    arrived: dict[tuple[tuple[str, int], int], set[int]] = {key: set() for key in packets}
    for at, ((source, number), packet) in enumerate(sorted(packets.items(), key=lambda item: item[0][1])):
        for index, part in enumerate(segments(packet, number)):
            for _ in range(chance.choice((0, 1, 1, 1, 1, 1, 1, 2))):
                # Late by less than three trains of its sender: doubles come while the train is remembered.
                sent.append((at + chance.random() * chance.choice((0, 0, 6)), source, number, part))
                arrived[source, number].add(index)
    joiner = Joiner([A, B], Clock())
    got: list[tuple[tuple[str, int], bytes]] = []
    for _, source, _, part in sorted(sent, key=lambda each: each[:3]):
        joined = joiner.take(part, source)
        if joined is not None:
            got.append((source, joined))
    whole = [
        (source, packet)
        for (source, number), packet in packets.items()
        if len(arrived[source, number]) == len(segments(packet, number))
    ]
    assert sorted(got) == sorted(whole)
    assert joiner.held <= 2 * PARTIAL_TRAINS


def test_a_lost_segment_costs_its_train_only() -> None:
    clock = Clock()
    joiner = Joiner([A], clock)
    for number in range(50):
        parts = segments(packet_of(number), number)
        if number % 5 == 0:
            del parts[number % len(parts)]
        got = [joiner.take(part, A) for part in parts]
        assert got[-1] == (None if number % 5 == 0 else packet_of(number))
        assert joiner.held <= PARTIAL_TRAINS
    assert joiner.joined == 40
    assert joiner.dropped + joiner.held == 10
    assert joiner.dropped > 0
    clock.now = AGE_S
    joiner.sweep()
    assert (joiner.held, joiner.held_bytes, joiner.dropped) == (0, 0, 10)


def test_an_old_train_makes_room_without_being_asked_for() -> None:
    clock = Clock()
    joiner = Joiner([A], clock)
    first, *rest = segments(packet_of(1), 1)
    joiner.take(first, A)
    clock.now = AGE_S / 2
    joiner.sweep()
    assert joiner.held == 1
    clock.now = AGE_S
    joiner.take(segments(packet_of(2), 2)[0], A)
    assert (joiner.held, joiner.dropped) == (1, 1)
    assert [joiner.take(part, A) for part in rest] == [None] * len(rest), "its first segment is gone"


def test_strangers_have_no_part_in_what_is_kept_for_sites() -> None:
    joiner = Joiner([A, B], Clock())
    *begun, last = segments(packet_of(1), 1)
    for part in begun:
        joiner.take(part, A)
    for port in range(1_000):
        for number in (1, 2):
            joiner.take(segments(packet_of(9), number)[0], ("10.9.9.9", port))
    assert joiner.held == 1 + PARTIAL_TRAINS
    assert joiner.take(last, B) is None, "of another address"
    assert joiner.take(last, A) == packet_of(1)


def test_a_train_from_an_unknown_address_is_joined_too() -> None:
    joiner = Joiner([A], Clock())
    assert [joiner.take(part, STRANGER) for part in segments(packet_of(1), 1)][-1] == packet_of(1)


@pytest.mark.parametrize(
    ("segment", "reason"),
    [
        (b"", Reason.MALFORMED),
        (bytes([SEGMENT_MARK]), Reason.MALFORMED),
        (header(0, 2, 1), Reason.MALFORMED),
        (header(0, 2, 1, major=MAJOR + 1) + b"x", Reason.VERSION),
        (header(0, 2, 1, mark=0xB0) + b"x", Reason.MALFORMED),
        (header(0, 0, 1) + b"x", Reason.MALFORMED),
        (header(0, 1, 1) + b"x", Reason.MALFORMED),
        (header(2, 2, 1) + b"x", Reason.MALFORMED),
        (header(0, MOST_SEGMENTS + 1, 1) + b"x", Reason.MALFORMED),
        (header(255, 255, 1) + b"x", Reason.MALFORMED),
    ],
)
def test_a_malformed_segment(segment: bytes, reason: Reason) -> None:
    joiner = Joiner([A], Clock())
    with pytest.raises(Refused) as refused:
        joiner.take(memoryview(segment), A)
    assert refused.value.reason is reason
    assert joiner.held == 0


def test_segments_that_contradict_each_other() -> None:
    joiner = Joiner([A], Clock())
    joiner.take(memoryview(header(0, 3, 1) + b"x"), A)
    with pytest.raises(Refused, match="a segment of 4 in a train of 3"):
        joiner.take(memoryview(header(1, 4, 1) + b"x"), A)
    assert joiner.held == 1


def test_a_train_longer_than_a_datagram() -> None:
    joiner = Joiner([A], Clock())
    joiner.take(memoryview(header(0, 3, 1) + bytes(40_000)), A)
    with pytest.raises(Refused, match="more than 65507 bytes"):
        joiner.take(memoryview(header(1, 3, 1) + bytes(40_000)), A)
    assert (joiner.held, joiner.held_bytes, joiner.dropped) == (0, 0, 1)


@given(
    st.lists(
        st.tuples(
            st.sampled_from((A, B, STRANGER, ("10.9.9.9", 2))),
            st.integers(0, 255), st.integers(0, 70), st.integers(0, 12), st.integers(0, 9_000),
        ),
        max_size=300,
    )
)  # fmt: skip
def test_what_strangers_can_make_a_site_hold(sent: list[tuple[tuple[str, int], int, int, int, int]]) -> None:
    joiner = Joiner([A, B], Clock())
    for source, index, count, number, length in sent:
        with suppress(Refused):
            joiner.take(memoryview(header(index, count, number) + bytes(length)), source)
        assert joiner.held <= 3 * PARTIAL_TRAINS
        assert joiner.held_bytes <= 3 * PARTIAL_TRAINS * DATAGRAM_BYTES


@given(st.binary(max_size=400), st.integers(1, 200))
def test_any_bytes_as_a_run(run: bytes, size: int) -> None:
    joiner = Joiner([A], Clock())
    got = joiner.take_run(memoryview(run), size, A)
    assert got is None or run[0] == SEGMENT_MARK
    with suppress(Refused):
        joiner.take(memoryview(run), A)


def test_what_is_too_long_for_one_call_is_not_cut() -> None:
    assert cut(bytes(ROOM * MOST_SEGMENTS + 1), 1, ROOM) is None
    assert cut(bytes(DATAGRAM_BYTES), 1, 1_400) is None, "with its headers it is longer than a datagram"
