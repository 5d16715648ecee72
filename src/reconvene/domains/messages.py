"""What sites of a cluster, and gateways above, say to each other about messages that cross.

The first byte of each says what it is. In the cluster:

    WIDE    its own service   a message of an application, with its counter at its sender
    CROSS   safe              the representative: these messages cross now
    IN      agreed            the representative: what a crossing from above brings
    PORT    agreed            a gateway: its configuration above
    TURN    safe              the representative: a wide configuration begins
    LINE    safe              where components meet: how far each of them is
    VOTE    agreed            a gateway: the representative gets nothing across
    MEMBER  agreed            a site: a process of its joins or leaves a wide group
    NEWS    agreed            the representative: a ROSTER from above

Above:

    SEEN      safe   each gateway, first in each configuration: which messages its cluster has seen
    CROSSING  safe   a representative: messages that cross
    GONE      fifo   a gateway: this other one has left its cluster's configuration
    ROSTER    safe   a representative: its cluster's processes in wide groups, and which sites its majority has lost

Everything that came over the network is checked here; what is wrong raises Malformed and nothing else.
"""

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, MsgspecError, Struct, msgpack
from msgspec.structs import replace

from reconvene.core.effects import Delivered
from reconvene.errors import Malformed
from reconvene.ids import MAX_SITES

__all__ = [
    "CROSS", "CROSSING", "GONE", "IN", "KINDS", "LINE", "MEMBER", "MOST_MEMBERS", "NEWS", "PORT", "ROSTER", "SEEN",
    "TURN", "UPPER_KINDS", "VOTE", "WIDE",
    "Carried", "Cross", "Crossing", "Gone", "In", "Joined", "Line", "Loss", "Member", "Message", "News", "Placed",
    "Port", "Roster", "Rules", "Seeing", "SeenEntry", "Turn", "Vote", "Wide",
    "bounded", "decode", "decoded", "encode",
]  # fmt: skip

WIDE, CROSS, IN, PORT, TURN, LINE, CROSSING, SEEN, VOTE, GONE, MEMBER, NEWS, ROSTER = range(40, 53)
KINDS = frozenset((WIDE, CROSS, IN, PORT, TURN, LINE, VOTE, MEMBER, NEWS))
UPPER_KINDS = frozenset((CROSSING, SEEN, GONE, ROSTER))

Number = Annotated[int, Meta(ge=0, lt=1 << 62)]
Ordinal = Annotated[int, Meta(ge=0, lt=MAX_SITES)]
Digest = Annotated[int, Meta(ge=0, lt=1 << 32)]
Name = Annotated[str, Meta(min_length=1, max_length=160)]
Place = Annotated[list[Number], Meta(max_length=16)]
_Service = Annotated[int, Meta(ge=0, le=3)]
_Group = Annotated[str, Meta(min_length=1, max_length=256)]

_CARRIED_BYTES = 8 << 20
_HEADER_BYTES = 8
"""Of a list, at most."""
_CARRIED_HEADER_BYTES = 48
"""Numbers and lengths of one `Carried`, at most."""
MOST_MESSAGES = 1_024
"""In one crossing."""


class Wide(Struct, array_like=True, frozen=True):
    counter: Number
    service: _Service
    group: _Group
    crosses: bool
    """It is meant for other clusters too, if its group passes."""
    data: bytes
    again: bool = False
    """Its author has sent it before, in an earlier local configuration."""


class Cross(Struct, array_like=True, frozen=True):
    term: Number
    ids: Annotated[list[tuple[Ordinal, Number, Number]], Meta(min_length=1, max_length=MOST_MESSAGES)]
    """Sender's number and incarnation, and the counter; in the order in which they cross."""


class Carried(Struct, array_like=True, frozen=True):
    """A message that waits to cross, whoever of its cluster is still there: its author need not be."""

    site: Ordinal
    incarnation: Number
    wide: Wide

    @property
    def key(self) -> tuple[int, int, int]:
        return self.site, self.incarnation, self.wide.counter


class Message(Struct, array_like=True, frozen=True):
    """A message on its way between clusters; its domain is that of the crossing."""

    site: Name
    incarnation: Number
    counter: Number
    service: _Service
    group: _Group
    data: bytes


_Messages = Annotated[list[Message], Meta(max_length=MOST_MESSAGES)]


class In(Struct, array_like=True, frozen=True):
    term: Number
    place: Annotated[list[Number], Meta(min_length=2, max_length=16)]
    """The crossing's in the order above; message i of it is at this place, and i."""
    count: Annotated[int, Meta(ge=0, le=MOST_MESSAGES)]
    """How many messages the crossing held."""
    domain: Name
    messages: _Messages
    indices: Annotated[list[Annotated[int, Meta(ge=0, lt=MOST_MESSAGES)]], Meta(max_length=MOST_MESSAGES)]
    """Where in the crossing each message was: some did not pass."""


class Rules(Struct, array_like=True, frozen=True):
    """Digests of what is the same at all sites of a cluster, if their configurations are right."""

    out: Digest
    into: Digest
    gateways: Digest
    sites: Digest
    upper: Digest


class Port(Struct, array_like=True, frozen=True):
    number: Number
    """Of the gateway's configuration above."""
    domains: Annotated[list[Name], Meta(min_length=1, max_length=MAX_SITES)]
    """That have a gateway in it."""
    resigns: bool
    """It gives way to a standby that is as good."""
    rank: Ordinal
    """The gateway's place in its own list of gateways."""
    rules: Rules
    """By which it would represent the cluster."""


class Placed(Struct, array_like=True, frozen=True):
    """Messages of this sender up to these counters can get no place in the configuration above any more."""

    site: Name
    incarnation: Number
    fifo: Number
    ordered: Number


_Process = Annotated[str, Meta(min_length=1, max_length=256)]
MOST_MEMBERS = 1_024
"""Processes of one cluster in wide groups; one that is in two groups counts twice."""


class Joined(Struct, array_like=True, frozen=True, order=True):
    """A process in a wide group, and its site's number."""

    site: Ordinal
    group: _Group
    process: _Process


class Member(Struct, array_like=True, frozen=True):
    group: _Group
    process: _Process
    joins: bool
    """Or it leaves."""


class Loss(Struct, array_like=True, frozen=True):
    """A majority of the cluster has gone on without this site, in the local configuration of this number."""

    site: Name
    conf: Number


class Roster(Struct, array_like=True, frozen=True):
    """A cluster's, or a part's: those of its processes that are in wide groups."""

    domain: Name
    conf: Number
    """The number of its local configuration …"""
    version: Number
    """… and how often the roster has changed in it."""
    sites: Annotated[list[Ordinal], Meta(min_length=1, max_length=MAX_SITES)]
    """The members of the local configuration."""
    groups: Annotated[
        list[tuple[_Group, Annotated[list[_Process], Meta(max_length=MOST_MEMBERS)]]], Meta(max_length=MOST_MEMBERS)
    ]
    lost: Annotated[list[Loss], Meta(max_length=MAX_SITES)]
    """Of which it is not known yet that the others have heard of it."""

    @property
    def age(self) -> tuple[int, int]:
        return self.conf, self.version


class News(Struct, array_like=True, frozen=True):
    term: Number
    place: Annotated[list[Number], Meta(min_length=2, max_length=16)]
    roster: Roster


class Turn(Struct, array_like=True, frozen=True):
    term: Number
    after: str
    """The wide configuration that it follows: those that are in that one go on to this one …"""
    upto: Place
    """… if they have delivered nothing in it beyond this place …"""
    enters: bool
    """… or, if this is set, all others enter it here."""
    conf: Name
    regular: bool
    number: Number
    domains: Annotated[list[Name], Meta(min_length=1, max_length=MAX_SITES)]
    place: Place
    placed: Annotated[list[Placed], Meta(max_length=4 * MAX_SITES)]
    """Of this domain's senders, for those that enter."""
    rosters: Annotated[list[Roster], Meta(max_length=2 * MAX_SITES)]
    """For those that enter: what was told in this configuration …"""
    told: Place
    """… up to this place."""


SeenEntry = tuple[Name, Name, Number, Number, Number]
"""Domain, site, incarnation; the last counter of its fifo messages, and of its others."""
_Table = Annotated[list[SeenEntry], Meta(max_length=1 << 14)]


class Line(Struct, array_like=True, frozen=True):
    members: Annotated[list[Ordinal], Meta(min_length=1, max_length=MAX_SITES)]
    """For whom it speaks: those that came from the sender's last configuration together with it, and have delivered
    the same."""
    gateways: Annotated[list[Ordinal], Meta(max_length=MAX_SITES)]
    """Those of them that are gateways, each by its own configuration."""
    conf: str
    """Their wide configuration; empty: none yet."""
    number: Number
    line: Place
    """The last place that they delivered up to."""
    seen: _Table
    """What any of them, or of those they met before, has delivered."""
    before: Annotated[list[Ordinal], Meta(max_length=MAX_SITES)]
    """The members of their last local configuration."""
    lost: Annotated[list[Loss], Meta(max_length=MAX_SITES)]
    joined: Annotated[list[Joined], Meta(max_length=MOST_MEMBERS)]
    carried: Annotated[list[Carried], Meta(max_length=1 << 18)]
    """What waits to cross, in an order in which causes come before effects."""


class Vote(Struct, array_like=True, frozen=True):
    """A standby could represent the cluster, and nothing has come back in this term for long."""

    term: Number


class Gone(Struct, array_like=True, frozen=True):
    """The cluster's verdict: this gateway has left its configuration."""

    gateway: Name


class Crossing(Struct, array_like=True, frozen=True):
    domain: Name
    conf: Name
    """The local configuration in which it was decided, and …"""
    pos: Number
    """… which one it was there: together its name."""
    term: Number
    again: bool
    """Some of these may have crossed before: by another gateway, or in another local configuration."""
    messages: Annotated[list[Message], Meta(min_length=1, max_length=MOST_MESSAGES)]


class Seeing(Struct, array_like=True, frozen=True):
    """What a cluster has seen: in this configuration it gets no place again."""

    seen: _Table


_TYPES: dict[int, type[Struct]] = {
    WIDE: Wide, CROSS: Cross, IN: In, PORT: Port, TURN: Turn, LINE: Line, CROSSING: Crossing, SEEN: Seeing,
    VOTE: Vote, GONE: Gone, MEMBER: Member, NEWS: News, ROSTER: Roster,
}  # fmt: skip
_DECODERS = {kind: msgpack.Decoder(of) for kind, of in _TYPES.items()}
_KINDS = {of: kind for kind, of in _TYPES.items()}
_ENCODER = msgpack.Encoder()


def bounded(line: Line, message_bytes: int) -> Line:
    """With as much of what it carries, from the first on, as fits into a message of the cluster."""
    most = min(_CARRIED_BYTES, message_bytes - len(encode(replace(line, carried=[]))) - _HEADER_BYTES)
    size = 0
    for index, one in enumerate(line.carried):
        size += len(one.wide.data) + len(one.wide.group.encode()) + _CARRIED_HEADER_BYTES
        if size > most:
            return replace(line, carried=line.carried[:index])
    return line


def encode(message: Struct) -> bytes:
    return bytes((_KINDS[type(message)],)) + _ENCODER.encode(message)


def decode(payload: bytes) -> Struct:
    """Any of the above."""
    decoder = _DECODERS.get(payload[0]) if payload else None
    if decoder is None:
        raise Malformed("a message of domains expected")
    try:
        message: Struct = decoder.decode(memoryview(payload)[1:])
    except (MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"a message of domains: {error}") from None
    if isinstance(message, In) and len(message.indices) != len(message.messages):
        raise Malformed("a message of domains: as many indices as messages expected")
    return message


def decoded(event: Delivered) -> Iterator[tuple[int, Struct | None]]:
    """The messages of a delivery, each with its index in it; None: malformed."""
    indices = event.indices or range(len(event.payloads))
    for index, payload in zip(indices, event.payloads, strict=True):
        try:
            yield index, decode(payload)
        except Malformed:
            yield index, None
