"""What is submitted leaves in order, in parcels of one service that fit a frame, and can be put together again."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconvene.core.multicast.packing import FRAGMENT, LAST, WHOLE, Outbox, Parcel
from reconvene.core.options import Limits
from reconvene.errors import Rejected, Unavailable
from reconvene.ids import Service

quick = settings(max_examples=150, derandomize=True, deadline=None)
LIMITS = Limits(frame_bytes=40, message_bytes=300, queue_messages=50)
messages = st.lists(st.tuples(st.sampled_from(Service), st.integers(0, 200)), max_size=20)


def payload(place: int, size: int) -> bytes:
    return bytes([place]) * size


def unpack(parcels: list[Parcel]) -> list[tuple[Service, bytes]]:
    """As a receiver does it."""
    found: list[tuple[Service, bytes]] = []
    pieces: list[bytes] = []
    for parcel in parcels:
        if parcel.part == WHOLE:
            assert not pieces, "nothing between fragments"
            found += [(parcel.service, one) for one in parcel.payloads]
            continue
        pieces += parcel.payloads
        if parcel.part == LAST:
            found.append((parcel.service, b"".join(pieces)))
            pieces = []
    assert not pieces
    return found


@quick
@given(messages)
def test_there_and_back(sizes: list[tuple[Service, int]]) -> None:
    outbox = Outbox(LIMITS)
    sent = [(service, payload(place, size)) for place, (service, size) in enumerate(sizes)]
    for service, one in sent:
        outbox.submit(service, one)
    parcels: list[Parcel] = []
    while outbox:
        most = outbox.peek_size()
        parcels.append(outbox.take())
        assert parcels[-1].size <= most <= LIMITS.frame_bytes
    assert outbox.bytes == 0
    assert unpack(parcels) == sent
    for parcel in parcels:
        assert sum(map(len, parcel.payloads)) <= LIMITS.frame_bytes
        assert parcel.part == WHOLE or len(parcel.payloads) == 1


@quick
@given(messages, st.integers(0, 30))
def test_after_a_change_an_unfinished_message_starts_anew(sizes: list[tuple[Service, int]], before: int) -> None:
    outbox = Outbox(LIMITS)
    sent = [(service, payload(place, size)) for place, (service, size) in enumerate(sizes)]
    for service, one in sent:
        outbox.submit(service, one)
    first: list[Parcel] = []
    while outbox and len(first) < before:
        first.append(outbox.take())
    while first and first[-1].part == FRAGMENT:
        first.pop()
    outbox.restart()
    rest: list[Parcel] = []
    while outbox:
        rest.append(outbox.take())
    assert outbox.bytes == 0
    assert unpack(first) + unpack(rest) == sent


@quick
@given(messages)
def test_a_parcel_is_as_full_as_its_service_allows(sizes: list[tuple[Service, int]]) -> None:
    outbox = Outbox(LIMITS)
    for place, (service, size) in enumerate(sizes):
        outbox.submit(service, payload(place, size))
    parcels: list[Parcel] = []
    while outbox:
        parcels.append(outbox.take())
    for one, following in pairwise(parcels):
        if one.part == following.part == WHOLE and one.service is following.service:
            assert one.size + len(following.payloads[0]) + 5 > LIMITS.frame_bytes


def test_limits() -> None:
    outbox = Outbox(Limits(message_bytes=10, queue_messages=2))
    with pytest.raises(Rejected):
        outbox.submit(Service.FIFO, b"x" * 11)
    outbox.submit(Service.FIFO, b"1")
    assert outbox.room() == 1
    outbox.submit(Service.FIFO, b"2")
    with pytest.raises(Unavailable):
        outbox.submit(Service.FIFO, b"3")
    outbox.take()
    assert outbox.room() == 2


def test_a_queue_full_of_bytes_takes_no_more() -> None:
    outbox = Outbox(Limits(queue_bytes=100))
    outbox.submit(Service.FIFO, b"x" * 100)
    assert outbox.room() == 0
    with pytest.raises(Unavailable):
        outbox.submit(Service.FIFO, b"")
