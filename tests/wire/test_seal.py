"""A sealed datagram opens exactly once, and a datagram of another origin is refused with its own reason."""

import os
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reconvene.errors import Malformed
from reconvene.wire.codec import decode, encode
from reconvene.wire.messages import Alive, Frame
from reconvene.wire.seal import (
    HEADER_BYTES,
    MAJOR,
    MINOR,
    SEAL_BYTES,
    WINDOW,
    ClusterKey,
    Header,
    Kind,
    Opener,
    PlainOpener,
    Reason,
    Refused,
    Sealer,
    Seen,
    cluster_tag,
    parse,
    split,
    unseal,
)

quick = settings(max_examples=200, derandomize=True, deadline=None)

KEY = ClusterKey(b"k" * 32)
OTHER_KEY = ClusterKey(b"o" * 32)
TAG = cluster_tag("shop")


@dataclass
class Receiver:
    """Opens what one boot of site 2 sealed."""

    sealer: Sealer
    key: ClusterKey = KEY

    def __post_init__(self) -> None:
        self.seen = Seen()
        self.opener = Opener(2, self.key.session("shop", self.sealer.salt), self.seen)

    def open(self, packet: bytes) -> bytes | None:
        return self.opener.open(memoryview(packet), parse(packet, TAG, sealed=True).counter)


@pytest.fixture
def sealer() -> Sealer:
    return Sealer("shop", 2, [KEY])


def refusal(packet: bytes, sealed: bool = True) -> Reason:
    with pytest.raises(Refused) as caught:
        parse(packet, TAG, sealed)
    assert "\n" not in str(caught.value)
    return caught.value.reason


def test_a_refusal_is_malformed_data() -> None:
    assert issubclass(Refused, Malformed)


@pytest.mark.parametrize("size", [0, 1, 100, 60_000])
def test_what_is_sealed_opens(sealer: Sealer, size: int) -> None:
    data = os.urandom(size)
    packet = sealer.seal(data)
    assert len(packet) == size + SEAL_BYTES
    assert data == b"" or size < 8 or data not in packet
    assert Receiver(sealer).open(packet) == data


def test_the_header(sealer: Sealer) -> None:
    sealer.seal(b"")
    packet = sealer.seal_control(Kind.ANSWER, b"x")
    header = parse(packet, TAG, sealed=True)
    assert header == Header(0xB2, MAJOR, MINOR, 2, TAG, KEY.id, sealer.salt, 2)
    assert header.kind is Kind.ANSWER
    assert header.sealed
    assert split(packet) == (packet[:24], 2)
    assert split(sealer.seal(b"")) == (sealer.prefix, 3)


def test_every_byte_is_covered(sealer: Sealer) -> None:
    packet = sealer.seal(b"datagram")
    for place in range(len(packet)):
        changed = bytearray(packet)
        changed[place] ^= 0x01
        with pytest.raises(Refused):
            Receiver(sealer).open(bytes(changed))


@pytest.mark.parametrize("length", [0, 1, 2, 31, 32, 47])
def test_what_is_cut_short_is_malformed(sealer: Sealer, length: int) -> None:
    assert refusal(sealer.seal(b"datagram")[:length]) is Reason.MALFORMED


def test_each_refusal_has_its_reason(sealer: Sealer) -> None:
    packet = sealer.seal(b"datagram")
    plain = Sealer("shop", 2, []).seal(b"datagram")
    assert refusal(bytes([packet[0], MAJOR + 1]) + packet[2:]) is Reason.VERSION
    assert refusal(Sealer("ship", 2, [KEY]).seal(b"")) is Reason.FOREIGN_CLUSTER
    assert refusal(plain) is Reason.UNSEALED
    assert refusal(packet, sealed=False) is Reason.SEALED
    assert refusal(b"\x16\x03\x01" + bytes(100)) is Reason.MALFORMED
    assert refusal(bytes([0xB3]) + packet[1:]) is Reason.MALFORMED
    assert refusal(packet[:24] + bytes(8) + packet[32:]) is Reason.MALFORMED


def test_another_major_version_is_told(sealer: Sealer) -> None:
    with pytest.raises(Refused, match=f"^speaks wire version 7, this site {MAJOR}$"):
        parse(b"\xb0\x07" + bytes(3), TAG, sealed=True)


def test_another_minor_version_is_welcome(sealer: Sealer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconvene.wire.seal.MINOR", MINOR + 1)
    newer = Sealer("shop", 2, [KEY])
    monkeypatch.undo()
    packet = newer.seal(b"datagram")
    assert packet[2] == MINOR + 1
    assert Receiver(newer).open(packet) == b"datagram"


def test_a_newer_minor_version_may_add_fields() -> None:
    """An older site decodes the fields that it knows, and ignores the rest."""
    for old in (Alive(5, 1, 2, 3, [4], 6), Frame(1, 0, 1, 1, [], 2, 0, 1, [b"x"])):
        fields: list[object] = msgspec.msgpack.decode(encode(old))
        assert decode(msgspec.msgpack.encode([*fields, "new", {"also": [1]}])) == old


def test_the_name_of_the_cluster_is_in_the_key(sealer: Sealer) -> None:
    """Even if the four bytes of the hash were the same, the seal would not open."""
    packet = sealer.seal(b"datagram")
    with pytest.raises(Refused) as caught:
        unseal(KEY.session("ship", sealer.salt), packet)
    assert caught.value.reason is Reason.BAD_SEAL


def test_a_session_and_a_key_are_no_other(sealer: Sealer) -> None:
    again = Sealer("shop", 2, [KEY])
    assert again.salt != sealer.salt
    packet = sealer.seal(b"datagram")
    for session in (KEY.session("shop", again.salt), OTHER_KEY.session("shop", sealer.salt)):
        with pytest.raises(Refused):
            unseal(session, packet)


def test_a_key_is_not_shown() -> None:
    assert "k" * 4 not in repr(KEY)
    assert KEY.id != OTHER_KEY.id
    with pytest.raises(ValueError, match="32 expected"):
        ClusterKey(b"short")


def test_a_datagram_opens_once(sealer: Sealer) -> None:
    receiver = Receiver(sealer)
    packets = [sealer.seal(b"%d" % number) for number in range(50)]
    for packet in [*packets[10:], *packets[:10]]:
        receiver.open(packet)
    for packet in packets:
        assert receiver.open(packet) is None


def test_what_does_not_open_is_not_remembered(sealer: Sealer) -> None:
    receiver = Receiver(sealer)
    packet = sealer.seal(b"datagram")
    with pytest.raises(Refused):
        receiver.open(packet[:-1] + bytes([packet[-1] ^ 1]))
    assert receiver.open(packet) == b"datagram"


@quick
@given(st.lists(st.integers(-WINDOW + 1, 3 * WINDOW), max_size=60))
def test_the_window_against_a_set(steps: list[int]) -> None:
    """No counter is accepted twice; one that is less than the window late is accepted."""
    sealer = Sealer("shop", 2, [KEY])
    receiver = Receiver(sealer)
    taken: set[int] = set()
    highest = WINDOW
    for step in steps:
        counter = max(1, highest + step)
        sealer._counter = counter - 1
        packet = sealer.seal(b"")
        if receiver.open(packet) is not None:
            assert counter not in taken
            taken.add(counter)
        else:
            assert receiver.open(packet) is None
            assert counter in taken or counter <= max(taken) - WINDOW
        highest = max(highest, counter)


def test_the_counter_goes_on_when_the_key_changes(sealer: Sealer) -> None:
    first = Receiver(sealer)
    old = sealer.seal(b"old")
    assert first.open(old) == b"old"
    sealer.use([OTHER_KEY, KEY])
    new = sealer.seal(b"new")
    assert parse(new, TAG, sealed=True)[5:] == (OTHER_KEY.id, sealer.salt, 2)
    second = Opener(2, OTHER_KEY.session("shop", sealer.salt), first.seen)
    assert second.open(memoryview(new), 2) == b"new"
    assert first.open(old) is None


def test_counters_up_to_a_floor_are_never_taken(sealer: Sealer) -> None:
    packets = [sealer.seal(b"") for _ in range(10)]
    opener = Opener(2, KEY.session("shop", sealer.salt), Seen(7))
    for counter, packet in enumerate(packets, start=1):
        assert opener.open(memoryview(packet), counter) == (None if counter <= 7 else b"")


def test_not_sealed() -> None:
    sealer = Sealer("shop", 2, [])
    assert not sealer.sealed
    packet = sealer.seal(b"datagram")
    assert len(packet) == HEADER_BYTES + len(b"datagram")
    header = parse(packet, TAG, sealed=False)
    assert (header.key, header.sealed, header.site) == (bytes(4), False, 2)
    assert PlainOpener(2).open(memoryview(packet), header.counter) == b"datagram"


@quick
@given(
    data=st.binary(max_size=120),
    cut=st.integers(0, 80),
    flips=st.dictionaries(st.integers(0, 79), st.integers(0, 255)),
)
@example(data=b"", cut=0, flips={})
@example(data=b"\xb0\x01", cut=80, flips={})
def test_whatever_comes_is_opened_or_refused(data: bytes, cut: int, flips: dict[int, int]) -> None:
    sealer = Sealer("shop", 2, [KEY], salt=bytes(12))
    altered = bytearray(sealer.seal(bytes(32)))
    for place, value in flips.items():
        altered[place] = value
    reasons = set()
    for packet in (data, bytes(altered[:cut]), bytes(altered) + data):
        for sealed in (True, False):
            try:
                header = parse(packet, TAG, sealed)
                if sealed:
                    Receiver(sealer).opener.open(memoryview(packet), header.counter)
            except Refused as refused:
                reasons.add(refused.reason)
    assert reasons <= set(Reason)
