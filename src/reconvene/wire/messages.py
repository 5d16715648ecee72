"""The datagrams that sites exchange.

All are array-like msgspec structs with an integer tag, so field names are not sent. `conf` is the number of a regular
configuration, `rank` a member's index among its configuration's sorted ordinals, `site` a site's ordinal in the
cluster. Acks and vectors are indexed by rank.
"""

from typing import Annotated

from msgspec import Meta, Raw, Struct

from reconvene.site_list import SiteList

__all__ = [
    "VERSION",
    "Alive",
    "Beacon",
    "Datagram",
    "Frame",
    "Nack",
    "Packet",
    "Progress",
    "Propose",
    "Rebroadcast",
    "Relay",
    "Report",
    "State",
]

VERSION = 1

Count = Annotated[int, Meta(ge=0, le=2**62)]
Rank = Annotated[int, Meta(ge=0, lt=64)]
Ordinal = Annotated[int, Meta(ge=0, lt=64)]
Mask = Annotated[int, Meta(ge=0)]
# msgpack itself ends at 64 bits.
Vector = Annotated[list[Count], Meta(max_length=64)]
Pairs = Annotated[list[Count], Meta(max_length=128)]
Ranges = Annotated[list[Count], Meta(max_length=3 * 256)]


class Frame(Struct, array_like=True, tag=1, gc=False):
    """A numbered multicast: messages of one service under one header, or a note of the order engine."""

    conf: Count
    sender: Rank
    seq: Annotated[int, Meta(ge=1, le=2**62)]
    """Numbered from 1 in each configuration."""
    clock: Count
    """Lamport's clock: above that of every frame its sender had received."""
    acks: Pairs
    """rank, seq, rank, seq …: up to where its sender had received other members' frames, for the members for which
    that has changed since its last frame."""
    service: Annotated[int, Meta(ge=0, le=3)]
    part: Annotated[int, Meta(ge=0, le=2)]
    """0: whole messages; 1: a fragment, more follow; 2: the last fragment, which makes the message complete."""
    first: Count
    """Counter of the first message."""
    messages: list[bytes]
    dist: Count = 0
    """ATOP: the distribution that the frame is tagged with."""
    slot: Annotated[int, Meta(ge=-1, le=2**62)] = -1
    """The frame's own slot in the total order (all-ack: its clock); -1: it takes none."""
    passes: Count = 0
    """ATOP: its sender's slots of `dist` below this one stay empty."""
    weights: Vector = []
    """ATOP: the weights of distribution `dist`, on the frame that introduces it."""
    after: Annotated[list[Count], Meta(max_length=2)] = []
    """In causal frames: the order key of the last agreed or safe message that its sender had delivered."""
    own: Count = 0
    """In causal frames: the number of its sender's last frame with agreed or safe messages."""
    ask: bool = False
    """Its sender waits for acks before it can send on."""


class Alive(Struct, array_like=True, tag=2, gc=False):
    """Acks without a frame. The receiver uses it once it has all the sender's frames up to `seq`."""

    conf: Count
    sender: Rank
    seq: Count
    clock: Count
    acks: Vector
    buffer: Count
    """Bytes that frames may take of the sender's receive buffer."""
    ask: bool = False
    """Its sender has frames that are not stable, and asks for acks."""


class Nack(Struct, array_like=True, tag=3, gc=False):
    """Asks for frames again: rank, from, to, rank, from, to …"""

    conf: Count
    sender: Rank
    wants: Ranges


class Report(Struct, array_like=True, gc=False, frozen=True):
    """A site's report about itself, from which configurations are computed. Other sites relay it; the newest
    version counts."""

    site: Ordinal
    inc: Count
    version: Count
    hears: Mask
    conf: Count
    """Its regular configuration."""
    attempt: Count
    """The configuration for which it has answered a proposal, and which it has neither installed nor given up; 0:
    none."""
    frozen: bool
    """It has answered a proposal since `conf` was installed: `conf` can't be resumed."""
    highest: Count
    """The highest configuration number that it has used or answered."""
    token: Count = 0
    """Drawn at random when the site starts; 0: the site runs an older version."""
    since: Count = 0
    """The number of the configuration that it started with."""


class Beacon(Struct, array_like=True, tag=4, gc=False):
    """Announces a site: other sites find it by its beacons, and members of its configuration see that it is alive."""

    version: Count
    site: Ordinal
    inc: Count
    stamp: Count
    echoes: Annotated[list[Count], Meta(max_length=192)]
    """site, its stamp, ns held …: for measuring round-trip times."""
    spread: Count
    """Variance of its sender's round-trip times, in µs²: for the choice of a book-keeper."""
    reports: Raw
    """list[Report], kept encoded: mostly the same as last time."""
    probe: bool = False
    """The sender has not heard the receiver for long, and asks for a beacon."""
    sites: Raw = Raw(b"\xc0")
    """SiteList or nil, kept encoded: what its sender knows of the cluster's list. A receiver whose list contradicts
    it ignores the beacon."""


class Propose(Struct, array_like=True, tag=5, gc=False):
    """Proposes a new configuration: its number, its members and their incarnations. A member that hears all the
    others answers."""

    number: Count
    site: Ordinal
    members: Vector
    incs: Vector


class State(Struct, array_like=True, tag=6, gc=False):
    """A member's answer to a proposal, to all of its members: steps 2 and 3 of extended virtual synchrony."""

    number: Count
    site: Ordinal
    members: Vector
    incs: Vector
    version: Count
    """Its report's version when it answered."""
    conf: Count
    """Its last regular configuration …"""
    old: Vector
    """… with these members …"""
    received: Vector
    """… from which it has accepted frames up to these …"""
    extras: Annotated[list[Count], Meta(max_length=1024)]
    """… and holds these beyond a gap: rank, seq …"""
    known: Annotated[list[Vector], Meta(max_length=64)]
    """What it knows each of them to have acknowledged …"""
    clocks: Vector
    """… and the highest clock that it has counted for each."""
    obligations: Mask
    sites: SiteList | None = None
    """What it knows of the cluster's list, which it has stored."""


class Progress(Struct, array_like=True, tag=7, gc=False):
    """How far its sender is in recovery; repeated until the configuration is installed."""

    number: Count
    site: Ordinal
    inc: Count
    states: Mask
    """The members whose states it has."""
    missing: Ranges
    """Old frames that it still lacks: rank, from, to …"""
    recovered: bool


class Rebroadcast(Struct, array_like=True, tag=8, gc=False):
    """A frame of an old configuration, sent again in recovery (step 5.a)."""

    number: Count
    frame: Frame


class Relay(Struct, array_like=True, tag=9, gc=False):
    """Another member's frame, in answer to a nack. Unlike the frame itself, it does not show that the frame's sender
    is alive."""

    frame: Frame


class Packet(Struct, array_like=True, tag=10, gc=False):
    """What a channel between two sites carries: records, or a fragment of one, and acks. The channel is between one
    incarnation of each site: their born, the number of the configuration in which the site entered the line."""

    site: Ordinal
    """Its sender."""
    here: Count
    """The sender's born."""
    there: Count
    """The receiver's born."""
    seq: Count
    """Numbered from 1 on each channel; 0: it carries no records, and is not acknowledged."""
    ack: Count
    """All packets of the receiver up to this one have arrived."""
    gaps: Mask
    """Bit i: packet `ack` + 2 + i of the receiver has arrived too."""
    arrived: Count
    """The receiver's records up to this one are complete at the sender's layer above."""
    released: Count
    """The receiver's records up to this one have left the sender's wait queues."""
    floor: Count
    """The sender needs none of its own casts below this one any more."""
    stamp: Count
    """The sender's clock."""
    echo: Count
    """`stamp` of the numbered packet that it answers, for measuring round-trip times; 0: none."""
    room: Count
    """How many bytes the receiver may have under way to the sender."""
    part: Annotated[int, Meta(ge=0, le=2)] = 0
    """0: whole records; 1: a fragment, more follow; 2: the last fragment, which makes the record complete."""
    records: list[bytes] = []
    dead: bool = False
    """The sender has gone on without this incarnation of the receiver. Only `here` and `there` count."""
    again: bool = False
    """The sender dropped packets of this channel, because it did not know it yet: all are to be sent again."""


Datagram = Frame | Alive | Nack | Beacon | Propose | State | Progress | Rebroadcast | Relay | Packet
