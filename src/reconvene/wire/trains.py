"""Trains: a sealed datagram that is longer than a packet is cut into segments, and joined before it is opened.

One call of the operating system sends a whole train, and one may receive it. So what a site does for a frame, it does
for many packets at once. Each segment is a datagram of its own, with a header in clear:

| bytes | in a segment's header |
| --- | --- |
| 1 | mark: 0xB3 |
| 1 | major version: at the same place as in every datagram |
| 1 | the segment's index, from 0 |
| 1 | how many segments the train has: 2 to 64 |
| 4 | number of the train: its sender draws the first one at random, and counts on |

Nothing in it is authenticated: the seal of the whole datagram is. So anyone can send segments. What they make a site
hold is bounded for each address of a site, and for all other addresses together.

Promised: for any input, `Joiner.take` and `Joiner.take_run` return or raise `Refused`, and nothing else.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from struct import Struct

from reconvene.wire.codec import DATAGRAM_BYTES
from reconvene.wire.seal import MAJOR, Reason, Refused

__all__ = [
    "AGE_S",
    "MINOR_WITH_TRAINS",
    "MOST_SEGMENTS",
    "PARTIAL_TRAINS",
    "SEGMENT_HEADER_BYTES",
    "SEGMENT_MARK",
    "Joiner",
    "cut",
]

SEGMENT_MARK = 0xB3
"""The mark of a datagram, with a kind that no sealed datagram has (`seal.Kind`)."""
MINOR_WITH_TRAINS = 2
"""Sites of a lower minor version of the wire can't join segments."""
MOST_SEGMENTS = 64
"""What every kernel that knows UDP_SEGMENT takes in one call."""
PARTIAL_TRAINS = 8
"""Trains that lack segments, from one site's address; as many from all other addresses together. One more drops the
oldest."""
AGE_S = 1.0
"""A train that lacks segments for so long is dropped: its frame was nacked long ago."""

_DONE = 16
"""Joined trains that are remembered for each address, so that a doubled segment does not begin one again."""
_header = Struct(">BBBBI")
SEGMENT_HEADER_BYTES = _header.size


def cut(packet: bytes, number: int, room: int) -> bytes | None:
    """The segments one after the other. All but the last have `SEGMENT_HEADER_BYTES + room` bytes.

    None: the packet is too long for one call.
    """
    count = -(-len(packet) // room)
    if count > MOST_SEGMENTS or len(packet) + count * SEGMENT_HEADER_BYTES > DATAGRAM_BYTES:
        return None
    pack, view = _header.pack, memoryview(packet)
    pieces: list[bytes | memoryview] = []
    for index in range(count):
        pieces.append(pack(SEGMENT_MARK, MAJOR, index, count, number))
        pieces.append(view[index * room : (index + 1) * room])
    return b"".join(pieces)


class _Partial:
    """A train that lacks segments."""

    __slots__ = ("began", "bytes", "missing", "parts")

    def __init__(self, count: int, began: float) -> None:
        self.parts: list[bytes | None] = [None] * count
        self.missing = count
        self.bytes = 0
        self.began = began


class _Origin:
    """The trains of one address, or of all addresses that are no site's."""

    __slots__ = ("done", "partial")

    def __init__(self) -> None:
        self.partial: dict[Hashable, _Partial] = {}
        """By number, with the address where it is no site's; the oldest first."""
        self.done: deque[Hashable] = deque(maxlen=_DONE)


class Joiner:
    """Joins the segments that arrive at one site."""

    def __init__(self, sites: Iterable[Hashable], clock: Callable[[], float]) -> None:
        """`sites`: the addresses of the other sites."""
        self._near = {address: _Origin() for address in sites}
        self._far = _Origin()
        self._clock = clock
        self.joined = 0
        """Trains that became whole."""
        self.segments = 0
        """Segments of trains that were taken."""
        self.dropped = 0
        """Trains that stayed without some of their segments: lost on the way, or never sent."""
        self.doubled = 0
        """Segments that were here already."""

    @property
    def held(self) -> int:
        """Trains that lack segments."""
        return sum(len(origin.partial) for origin in (*self._near.values(), self._far))

    @property
    def held_bytes(self) -> int:
        return sum(train.bytes for origin in (*self._near.values(), self._far) for train in origin.partial.values())

    def take(self, segment: memoryview, source: Hashable) -> bytes | None:
        """The whole datagram, if this was the last segment that it lacked."""
        index, count, number = _read(segment)
        origin = self._near.get(source)
        key: Hashable = number
        if origin is None:
            origin, key = self._far, (source, number)
        train = origin.partial.get(key)
        if train is None:
            if key in origin.done:
                self.doubled += 1
                return None
            train = self._begin(origin, key, count)
        elif count != len(train.parts):
            raise Refused(Reason.MALFORMED, f"a segment of {count} in a train of {len(train.parts)}")
        if train.parts[index] is not None:
            self.doubled += 1
            return None
        part = segment[SEGMENT_HEADER_BYTES:].tobytes()
        train.bytes += len(part)
        if train.bytes > DATAGRAM_BYTES:
            del origin.partial[key]
            self.dropped += 1
            raise Refused(Reason.MALFORMED, f"a train of more than {DATAGRAM_BYTES} bytes")
        self.segments += 1
        train.parts[index] = part
        train.missing -= 1
        if train.missing:
            return None
        del origin.partial[key]
        origin.done.append(key)
        self.joined += 1
        return b"".join(train.parts)  # type: ignore[arg-type]

    def take_run(self, run: memoryview, size: int, source: Hashable) -> bytes | None:
        """Segments of `size` bytes that the system received as one, the last one perhaps shorter: the datagram, if
        they are one whole train, in order. None: they are not; nothing was taken."""
        count = -(-len(run) // size)
        last = len(run) - (count - 1) * size
        if not 2 <= count <= MOST_SEGMENTS or min(size, last) <= SEGMENT_HEADER_BYTES:
            return None
        unpack = _header.unpack_from
        mark, major, _, told, number = unpack(run)
        if mark != SEGMENT_MARK or major != MAJOR or told != count:
            return None
        pieces: list[memoryview] = []
        for index in range(count):
            at = index * size
            if unpack(run, at) != (SEGMENT_MARK, MAJOR, index, count, number):
                return None
            pieces.append(run[at + SEGMENT_HEADER_BYTES : at + size])
        origin = self._near.get(source)
        if origin is not None:
            if number in origin.done or number in origin.partial:
                return None  # `take` knows what is doubled
            origin.done.append(number)
        self.joined += 1
        self.segments += count
        return b"".join(pieces)

    def sweep(self) -> None:
        """Drops trains that have lacked segments for too long."""
        for origin in (*self._near.values(), self._far):
            self._drop_old(origin, self._clock())

    def _begin(self, origin: _Origin, key: Hashable, count: int) -> _Partial:
        now = self._clock()
        self._drop_old(origin, now)
        if len(origin.partial) >= PARTIAL_TRAINS:
            del origin.partial[next(iter(origin.partial))]
            self.dropped += 1
        train = origin.partial[key] = _Partial(count, now)
        return train

    def _drop_old(self, origin: _Origin, now: float) -> None:
        while origin.partial:
            key = next(iter(origin.partial))
            if now - origin.partial[key].began < AGE_S:
                return
            del origin.partial[key]
            self.dropped += 1


def _read(segment: memoryview) -> tuple[int, int, int]:
    """Index, count, number."""
    if len(segment) <= SEGMENT_HEADER_BYTES:
        raise Refused(Reason.MALFORMED, f"a segment cut short: {len(segment)} bytes")
    mark, major, index, count, number = _header.unpack_from(segment)
    if mark != SEGMENT_MARK:
        raise Refused(Reason.MALFORMED, "not a segment")
    if major != MAJOR:
        raise Refused(Reason.VERSION, f"speaks wire version {major}, this site {MAJOR}")
    if not 2 <= count <= MOST_SEGMENTS or index >= count:
        raise Refused(Reason.MALFORMED, f"segment {index} of {count}")
    return index, count, number
