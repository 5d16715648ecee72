"""Every message is decoded as it was encoded, and other bytes raise Malformed and nothing else."""

import struct
import tracemalloc

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Raw, msgpack

from reconvene.errors import Malformed
from reconvene.wire.codec import DATAGRAM_BYTES, decode, decode_reports, encode
from reconvene.wire.messages import (
    VERSION,
    Alive,
    Beacon,
    Datagram,
    Frame,
    Nack,
    Packet,
    Progress,
    Propose,
    Rebroadcast,
    Relay,
    Report,
    State,
)

quick = settings(max_examples=60, derandomize=True, deadline=None)

count = st.integers(0, 2**62)
rank = st.integers(0, 63)
mask = st.integers(0, 2**64 - 1)
flag = st.booleans()


def counts(most: int) -> st.SearchStrategy[list[int]]:
    return st.lists(count, max_size=min(most, 8)) | st.just([2**62] * most)


vector = counts(64)
frame = st.builds(
    Frame, count, rank, st.integers(1, 2**62), count, counts(128), st.integers(0, 3), st.integers(0, 2), count,
    st.lists(st.binary(max_size=20), max_size=5), count, st.integers(-1, 2**62), count, vector, counts(2), count,
    flag,
)  # fmt: skip
report = st.builds(Report, rank, count, count, mask, count, count, flag, count)
reports = st.lists(report, max_size=4)
beacon = st.builds(
    Beacon, count, rank, count, count, counts(192), count, reports.map(lambda found: Raw(encode(found))), flag
)
state = st.builds(
    State, count, rank, vector, vector, count, count, vector, vector, counts(1024),
    st.lists(vector, max_size=3) | st.just([[2**62] * 64] * 64), vector, mask,
)  # fmt: skip
MESSAGES: dict[str, st.SearchStrategy[Datagram]] = {
    "frame": frame,
    "alive": st.builds(Alive, count, rank, count, count, vector, count, flag),
    "nack": st.builds(Nack, count, rank, counts(768)),
    "beacon": beacon,
    "propose": st.builds(Propose, count, rank, vector, vector),
    "state": state,
    "progress": st.builds(Progress, count, rank, count, mask, counts(768), flag),
    "rebroadcast": st.builds(Rebroadcast, count, frame),
    "relay": st.builds(Relay, frame),
    "packet": st.builds(
        Packet, rank, count, count, count, count, mask, count, count, count, count, count, count, st.integers(0, 2),
        st.lists(st.binary(max_size=20), max_size=5), flag, flag,
    ),
}  # fmt: skip
message = st.one_of(list(MESSAGES.values()))


def test_every_message_is_tried() -> None:
    assert {kind.__name__.lower() for kind in Datagram.__args__} == set(MESSAGES)


@pytest.mark.parametrize("kind", sorted(MESSAGES))
def test_round_trip(kind: str) -> None:
    @quick
    @given(MESSAGES[kind])
    def there_and_back(sent: Datagram) -> None:
        data = encode(sent)
        got = decode(data)
        assert type(got) is type(sent)
        # Raw compares by identity, so their encodings are compared.
        assert encode(got) == data
        if not isinstance(sent, Beacon):
            assert got == sent

    there_and_back()


@quick
@given(reports)
def test_reports_round_trip_inside_a_beacon(sent: list[Report]) -> None:
    got = decode(encode(Beacon(VERSION, 1, 1, 0, [], 0, Raw(encode(sent)))))
    assert isinstance(got, Beacon)
    assert decode_reports(got.reports) == sent


@quick
@given(message)
def test_the_longest_message_without_payload_fits_a_datagram(sent: Datagram) -> None:
    assert len(encode(sent)) <= DATAGRAM_BYTES


def only_malformed(data: bytes) -> None:
    try:
        got = decode(data)
        if isinstance(got, Beacon):
            decode_reports(got.reports)
    except Malformed:
        pass


@settings(quick, max_examples=300)
@given(st.binary(max_size=200))
@example(b"")
@example(b"\xc1")
def test_random_bytes(data: bytes) -> None:
    only_malformed(data)


@settings(quick, max_examples=200)
@given(message, st.data())
def test_cut_and_flipped(sent: Datagram, data: st.DataObject) -> None:
    whole = encode(sent)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(Malformed):
        decode(whole[:cut])
    with pytest.raises(Malformed):
        decode(whole + b"\x00")
    flipped = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        flipped[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    only_malformed(bytes(flipped))


anything = st.recursive(
    st.none() | flag | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=3) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=8,
)


@settings(quick, max_examples=200)
@given(message, st.data(), anything)
def test_fields_of_another_kind(sent: Datagram, data: st.DataObject, value: object) -> None:
    fields = msgpack.decode(encode(sent))
    fields[data.draw(st.integers(0, len(fields) - 1))] = value
    only_malformed(msgpack.encode(fields))


@pytest.mark.parametrize("tag", range(1, 10))
@pytest.mark.parametrize("field", range(1, 13))
def test_counts_that_promise_too_much(tag: int, field: int) -> None:
    """The decoder does not allocate memory for a length that the datagram only claims."""
    for opening in (b"\xdd", b"\xdf", b"\xc6", b"\xdb", b"\xc9"):
        data = bytes([0xDC, 0, 13, tag]) + b"\x00" * (field - 1) + opening + struct.pack(">I", 2**32 - 1)
        with pytest.raises(Malformed):
            decode(data + b"\x00" * 20)


@pytest.mark.parametrize("nest", [b"\x91", b"\x81\xa1a", b"\xdc\x00\x01", b"\xdd\x00\x00\x00\x01"])
def test_deep_nesting(nest: bytes) -> None:
    deep = nest * (60_000 // len(nest))
    for head in (b"", b"\x99\x01", b"\x99\x04\x01\x01\x01\x01\x90\x00"):
        with pytest.raises(Malformed):
            decode(head + deep)
    with pytest.raises(Malformed):
        decode_reports(deep)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 10])
def test_what_is_made_is_not_much_larger_than_the_datagram(size: int) -> None:
    many = 65_000 // (size + 2)
    data = encode(Frame(1, 0, 1, 0, [], 0, 0, 1, [b"x" * size] * many))
    tracemalloc.start()
    made = decode(data)
    current, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(made, Frame)
    assert current <= peak < 16 * len(data)


def test_a_datagram_longer_than_udp_allows() -> None:
    with pytest.raises(Malformed, match="at most"):
        decode(encode(Frame(1, 0, 1, 0, [], 0, 0, 1, [b"x" * DATAGRAM_BYTES])))


def test_extension_types_and_invalid_text() -> None:
    for data in (b"\xc7\x04\xff\x00\x00\x00\x00", b"\xd6\xff\x00\x00\x00\x00", b"\x93\x03\xa2\xff\xfe\x00"):
        with pytest.raises(Malformed):
            decode(data)


def test_what_is_out_of_range_is_malformed() -> None:
    good = Progress(1, 2, 1, 0, [], False)
    decode(encode(good))
    for name, value in [("site", 64), ("number", 2**62 + 1), ("inc", -1), ("missing", [0] * 769)]:
        bad = msgspec.structs.replace(good, **{name: value})
        with pytest.raises(Malformed):
            decode(encode(bad))
