"""What sites say to each other about casts: records on channels, and control messages in the configuration's order.

Records go from one site to another, in order (core.intersite). Control messages are delivered to all sites of the
configuration in one order; the first byte of each says what it is.
"""

from collections.abc import Iterable
from typing import Annotated, NamedTuple, TypeVar

from msgspec import Meta, MsgspecError, Struct, msgpack

from reconvene.core.groups.events import Process
from reconvene.errors import Malformed
from reconvene.ids import MAX_SITES
from reconvene.isis.events import CastId
from reconvene.isis.limits import IsisLimits

__all__ = [
    "ANNOUNCE",
    "DECIDED",
    "FLUSHED",
    "KINDS",
    "READY",
    "TABLE",
    "Action",
    "Announce",
    "Answer",
    "Ask",
    "AttemptId",
    "Commit",
    "Control",
    "Copy",
    "Decided",
    "Entered",
    "FlushedSite",
    "GiveState",
    "Got",
    "GroupEntry",
    "HasState",
    "Marked",
    "MemberEntry",
    "Missing",
    "Offer",
    "OpenEntry",
    "Over",
    "Priority",
    "Propose",
    "Raise",
    "Ready",
    "Record",
    "StoredView",
    "Stub",
    "Table",
    "Takeover",
    "Verdict",
    "Want",
    "WantState",
    "Watch",
    "decode_control",
    "decode_record",
    "encode_control",
    "encode_record",
    "encoded_size",
    "runs",
]  # fmt: skip

TABLE, ANNOUNCE, READY, FLUSHED, DECIDED = range(34, 39)
KINDS = frozenset((TABLE, ANNOUNCE, READY, FLUSHED, DECIDED))


class AttemptId(NamedTuple):
    """One attempt of a cast: a cast that is rejected by all can come again, on the other side of a GBCAST."""

    site: int
    incarnation: int
    counter: int
    attempt: int


Run = tuple[int, int, int, int]
"""Casts of one origin without gaps: site, incarnation, the first counter, and how many."""
_MOST_CASTS = MAX_SITES * 2 * IsisLimits().open_casts
"""That one message can name: more than any site holds, since a site with more than twice its limit is suspected. So
many fit one control message, and one record."""

Count = Annotated[int, Meta(ge=0, le=2**62)]
Attempts = Annotated[list[AttemptId], Meta(max_length=_MOST_CASTS)]
Group = Annotated[str, Meta(max_length=255)]
Priority = tuple[Count, Count]
"""(counter, site): the site makes it unique."""


# -- records


class Copy(Struct, array_like=True, frozen=True, tag=1):
    """A CBCAST, whole. Also the first step of a causal ABCAST."""

    id: CastId
    attempt: Count
    sender: Process
    label: Annotated[list[tuple[str, Count]], Meta(max_length=16)]
    to: Annotated[list[Process], Meta(max_length=4_096)]
    group: Group | None
    view: Count
    replies: Annotated[int, Meta(ge=-1, le=4_096)]
    clock: Count
    causes: Annotated[list[Run], Meta(max_length=_MOST_CASTS)]
    """Every cast that precedes it and that its sender's site did not know to be everywhere. One of them comes after
    those that precede it."""
    payload: bytes
    queue: str | None = None
    """Of a causal ABCAST: the label of its queue."""
    judged: bool = False
    """Its destinations say whether they accept it: its sender is no member of the group."""
    more: list[bytes] = []
    """Further messages of its sender, one after the other, that go with it as one: their ids follow that of this."""


class Stub(Struct, array_like=True, frozen=True, tag=2):
    """A CBCAST that precedes what comes next, and that its origin sends to the receiver itself."""

    id: CastId
    attempt: Count


class Offer(Struct, array_like=True, frozen=True, tag=14):
    """A CBCAST that the receiver must have before its sender goes on. It asks for the copy if it lacks it."""

    id: CastId
    attempt: Count


class Want(Struct, array_like=True, frozen=True, tag=15):
    """Asks for the copy that was offered."""

    id: CastId


class Ask(Struct, array_like=True, frozen=True, tag=3):
    """The first step of an ABCAST: asks for a priority."""

    id: CastId
    attempt: Count
    sender: Process
    queue: str
    to: Annotated[list[Process], Meta(max_length=4_096)]
    group: Group | None
    view: Count
    replies: Annotated[int, Meta(ge=-1, le=4_096)]
    clock: Count
    payload: bytes
    judged: bool = False
    causal: bool = False
    """The cast itself comes as a CBCAST."""
    round: Count = 0
    """The number of the site view in which another site took the cast over; 0: its own site asks."""


class Propose(Struct, array_like=True, frozen=True, tag=4):
    id: CastId
    attempt: Count
    priority: Priority
    round: Count
    deferred: bool = False
    """Only a lower bound: the site proposes once it is past a gate."""


class Raise(Struct, array_like=True, frozen=True, tag=13):
    """The final priority will not be below this."""

    id: CastId
    attempt: Count
    priority: Priority


class Commit(Struct, array_like=True, frozen=True, tag=5):
    id: CastId
    attempt: Count
    priority: Priority


class Takeover(Struct, array_like=True, frozen=True, tag=6):
    """Its sender has this ABCAST, whose coordinator is lost, and asks the receiver to take it over."""

    ask: Ask


class Verdict(Struct, array_like=True, frozen=True, tag=7):
    """What the destinations at one site made of a cast to their group; None: they have left it."""

    id: CastId
    attempt: Count
    accepted: bool | None


class Answer(Struct, array_like=True, frozen=True, tag=8):
    """The end of what `id` asked of one destination."""

    id: CastId
    sender: Process
    payload: bytes | None
    """None: there is no reply."""
    failed: bool = False
    """The destination is dead."""


class Missing(Struct, array_like=True, frozen=True, tag=17):
    """A request that was rejected is given up: what has become of this destination? An `Answer` follows."""

    id: CastId
    sender: Process
    """Of the request."""
    process: Process


class Got(Struct, array_like=True, frozen=True, tag=9):
    """The members at one site have received this GBCAST."""

    id: CastId


class Watch(Struct, array_like=True, frozen=True, tag=18):
    """Its sender's site is to be told when this process of the receiver's is over. An `Over` follows."""

    process: Process


class Over(Struct, array_like=True, frozen=True, tag=19):
    """This process of its sender's is over, and all that it sent is everywhere."""

    process: Process


class WantState(Struct, array_like=True, frozen=True, tag=10):
    """A newcomer asks a member for the group's state as it was in `view`, from this chunk on."""

    group: Group
    view: Count
    newcomer: Process
    member: Process
    first: Count


class GiveState(Struct, array_like=True, frozen=True, tag=11):
    group: Group
    view: Count
    newcomer: Process
    member: Process
    index: Count
    last: bool
    data: bytes


class HasState(Struct, array_like=True, frozen=True, tag=16):
    """A newcomer has the group's state: this member need not keep what it had for it."""

    group: Group
    newcomer: Process
    member: Process


class Entered(Struct, array_like=True, frozen=True, tag=12):
    """From here on its sender speaks in this site view: what follows is read by those that have adopted it."""

    view: Count


class Marked(Struct, array_like=True, frozen=True, tag=20):
    """What follows is read once the receiver has taken these CBCASTs of crossings too (`isis.far`)."""

    conf: Count
    """The number of the local configuration in which they were taken."""
    taken: Annotated[list[tuple[str, str, Count, Count]], Meta(max_length=MAX_SITES * MAX_SITES)]
    """Domain, site and incarnation of the senders, and the counter of the last message of each."""


Record = (
    Copy | Stub | Offer | Want | Ask | Propose | Raise | Commit | Takeover | Verdict | Answer | Missing | Got
    | Watch | Over | WantState | GiveState | HasState | Entered | Marked
)  # fmt: skip


# -- control messages


class StoredView(Struct, array_like=True, frozen=True):
    """The last view of a group that a site has on stable storage."""

    number: Count
    """Of the site view's configuration."""
    view: Count
    sites: Annotated[list[int], Meta(max_length=4_096)]
    """Of the members."""


class Action(Struct, array_like=True, frozen=True):
    """What a GBCAST does when it is delivered."""

    kind: str
    """join, leave, failed, cast, rank, set or delete."""
    group: Group
    process: Process
    """The process that asked; of `failed`: the dead one."""
    answers: bool = False
    state: bool = False
    """Of `join`."""
    id: CastId | None = None
    payload: bytes = b""
    """Of `cast`."""
    order: Annotated[list[Process], Meta(max_length=4_096)] = []
    """Of `rank`."""
    properties: Annotated[dict[str, bytes], Meta(max_length=64)] = {}
    """Of `set`."""
    view: Count = 0
    """Of `cast`: the view that its sender knows."""
    lasting: bool = False
    """Of `join`: if the group has no members, the process waits until it is known who failed last."""
    stored: StoredView | None = None
    """Of `join`: what its site has stored of the group."""
    last: Annotated[list[int], Meta(max_length=4_096)] | None = None
    """Of a `join` that may begin a group: the sites that failed last. None: that is not known."""


class Announce(Struct, array_like=True, frozen=True):
    """The first step of GBCASTs: these, in this order."""

    actions: Annotated[list[Action], Meta(max_length=65_536)]


class Ready(Struct, array_like=True, frozen=True):
    """A site has done its part of a round of GBCASTs, of which the first is the `number`-th that was announced."""

    number: Count
    priority: Priority
    casts: Attempts


class FlushedSite(Struct, array_like=True, frozen=True):
    """A site has done its part of the change to this site view."""

    view: Count
    priority: Priority
    casts: Attempts


class Decided(Struct, array_like=True, frozen=True):
    """What a site that goes on tells before a site view is adopted: the ABCASTs whose final priorities it knows."""

    view: Count
    """The configuration's number."""
    casts: Annotated[list[Commit], Meta(max_length=_MOST_CASTS)]
    last: bool
    """It tells no more of them."""


class MemberEntry(Struct, array_like=True, frozen=True):
    process: Process
    answers: bool
    state: bool
    lasting: bool = False
    """Its site stores the group's views."""


class GroupEntry(Struct, array_like=True, frozen=True):
    name: Group
    view: Count
    gained: Count
    ranked: list[MemberEntry]
    properties: dict[str, bytes]
    number: Count
    waiting: list[Action]
    stored: dict[int, StoredView]
    barrier: Priority = (0, 0)
    """Of its last GBCAST."""
    deleted: tuple[Count, Count] = (0, 0)
    """(number, view) when it was last deleted."""


class OpenEntry(Struct, array_like=True, frozen=True):
    """A GBCAST that is announced and not concluded, which sites are ready, and with which it is concluded.

    Without its payload, and without the casts that come before it: no process of a newcomer receives it."""

    number: Count
    action: Action
    ready: list[tuple[int, Ready]]
    concerned: Annotated[list[Process], Meta(max_length=65_536)] = []
    round: Count = 0


class Table(Struct, array_like=True, frozen=True):
    """What the oldest site tells newcomers when a site view begins, in pieces: first groups, then what is open."""

    view: Count
    """The configuration's number."""
    groups: list[GroupEntry]
    open: list[OpenEntry]
    announced: Count
    clock: Count
    changing: bool
    """A site was lost, and its casts are not everywhere yet."""
    last: bool = True
    """It is the last piece."""


Control = Announce | Ready | FlushedSite | Table | Decided
_TYPES: dict[int, type[Control]] = {
    TABLE: Table, ANNOUNCE: Announce, READY: Ready, FLUSHED: FlushedSite, DECIDED: Decided,
}  # fmt: skip
_KINDS = {made: kind for kind, made in _TYPES.items()}
_CONTROL = {kind: msgpack.Decoder(made) for kind, made in _TYPES.items()}
_RECORD: msgpack.Decoder[Record] = msgpack.Decoder(Record)
_encode = msgpack.Encoder().encode
T = TypeVar("T", bound=Control)


def encode_record(record: Record) -> bytes:
    return _encode(record)


def decode_record(data: bytes) -> Record:
    """Raises Malformed, and nothing else."""
    try:
        record = _RECORD.decode(data)
    except (MsgspecError, ValueError, RecursionError, OverflowError) as error:
        raise Malformed(f"a record: {error}") from None
    if isinstance(record, Copy):
        counts = [count for _, _, _, count in record.causes]
        if sum(counts) > _MOST_CASTS or any(count < 1 for count in counts):
            raise Malformed("a record: its causes are too many, or none")
    return record


def runs(casts: Iterable[CastId]) -> list[Run]:
    """In the same order."""
    found: list[Run] = []
    of, life, first, following = -1, -1, -1, -1
    for site, incarnation, counter in casts:
        if counter != following or site != of or incarnation != life:
            if following > 0:
                found.append((of, life, first, following - first))
            of, life, first = site, incarnation, counter
        following = counter + 1
    if following > 0:
        found.append((of, life, first, following - first))
    return found


def encoded_size(entry: GroupEntry | OpenEntry) -> int:
    return len(_encode(entry))


def encode_control(message: Control) -> bytes:
    return bytes((_KINDS[type(message)],)) + _encode(message)


def decode_control(payload: bytes) -> Control:
    """Raises Malformed, and nothing else."""
    decoder = _CONTROL.get(payload[0]) if payload else None
    if decoder is None:
        raise Malformed("a control message of no known kind")
    try:
        return decoder.decode(memoryview(payload)[1:])
    except (MsgspecError, ValueError, RecursionError, OverflowError) as error:
        raise Malformed(f"a control message: {error}") from None
