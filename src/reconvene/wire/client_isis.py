"""Requests, answers and events of process groups in the manner of ISIS, between clients and their site, from version
1.5 of the client protocol on.

Processes and casts of other clusters are named with the cluster and the site by name; such requests are known from
version 1.10 on, and so are the events.

A client has at most one process here. It begins with IsisOpen; it is over, as if it had died, when the connection
ends, unless IsisClose came before. A process is named by its site, incarnation and number, a cast by the site,
incarnation and counter of its sender's site; where the sender is known, the counter is enough. Events come in the
order in which the process receives them.
"""

from typing import Annotated

from msgspec import Meta, Struct

__all__ = [
    "CAST_KINDS", "CAUSAL_ABCAST", "GBCAST", "HELD_BYTES", "HELD_REQUESTS",
    "MOST_TOGETHER",
    "IsisAnswer", "IsisBlocked", "IsisCast", "IsisCasts", "IsisChunk",
    "IsisClose", "IsisDelete", "IsisEvent", "IsisFailed", "IsisFlush", "IsisGive", "IsisGroups", "IsisJoin",
    "IsisKilled", "IsisLeave", "IsisLeft", "IsisOpen", "IsisOpened", "IsisOver", "IsisRank", "IsisReplied",
    "IsisReply", "IsisRequest", "IsisSent", "IsisSet", "IsisStated", "IsisTaken", "IsisViewed", "IsisWanted",
    "IsisWatch", "IsisWideCast", "IsisWideOver", "IsisWideReceived", "IsisWideReplied", "IsisWideReply",
    "IsisWideTold", "IsisWideWatch", "Reached",
]  # fmt: skip

Count = Annotated[int, Meta(ge=0, le=2**62)]
GroupName = Annotated[str, Meta(max_length=255)]
Where = tuple[Annotated[int, Meta(ge=0, lt=64)], Count, Count]
Named = Annotated[list[Where], Meta(max_length=4_096)]
Name = Annotated[str, Meta(max_length=255)]
WideWhere = tuple[Name, Name, Count, Count]
"""Cluster, site, the site's incarnation; the process's number there, or the cast's counter."""
LabelText = Annotated[str, Meta(max_length=255)]
Number = Annotated[int, Meta(ge=0, lt=2**62)]

CAST_KINDS = ("cbcast", "abcast", "gbcast", "abcast")
"""By the number of the kind."""
HELD_REQUESTS = 1_000
HELD_BYTES = 8 << 20
"""Requests of a client that are not carried out yet. A client sends no more than these; a site ends the connection of
one that does."""
MOST_TOGETHER = 8_192
"""Messages that one IsisCast has besides the first."""
GBCAST = 2
CAUSAL_ABCAST = 3


class IsisOpen(Struct, array_like=True, tag=60):
    """Begins the client's process. Answered by IsisOpened."""

    request: Count
    name: Annotated[str, Meta(max_length=255)] = ""


class IsisClose(Struct, array_like=True, tag=61):
    """The process leaves its groups, then it is over. Not answered."""

    request: Count


class IsisJoin(Struct, array_like=True, tag=62):
    """Answered by Done when the join is announced; the first IsisViewed follows."""

    request: Count
    group: GroupName
    state: bool = False
    """It gives and takes the group's state …"""
    vector: bool = False
    """… and takes a contribution of each member."""
    answers: bool = True
    last_to_fail: bool = False
    wide: bool = False
    """Processes of other clusters can cast to it by the group's name. From version 1.10 on."""


class IsisLeave(Struct, array_like=True, tag=63):
    """Answered by Done when the leave is announced; IsisLeft follows."""

    request: Count
    group: GroupName


class IsisCast(Struct, array_like=True, tag=64, gc=False):
    """Answered by IsisSent when the cast has its id."""

    request: Count
    kind: Annotated[int, Meta(ge=0, le=3)]
    """CBCAST, ABCAST, GBCAST, causal ABCAST."""
    to: GroupName | Named
    payload: bytes
    label: LabelText | Annotated[dict[str, Number], Meta(max_length=16)] | None = None
    replies: Annotated[int, Meta(ge=-1, le=4_096)] = 0
    """-1: of every destination."""
    more: Annotated[list[bytes], Meta(max_length=MOST_TOGETHER)] = []
    """Of a CBCAST: further messages that go with it as one. Their counters follow."""


class IsisReply(Struct, array_like=True, tag=65, gc=False):
    request: Count
    cast: Where
    payload: bytes


class IsisRank(Struct, array_like=True, tag=66):
    request: Count
    group: GroupName
    order: Named


class IsisSet(Struct, array_like=True, tag=67):
    request: Count
    group: GroupName
    properties: Annotated[dict[str, bytes], Meta(max_length=64)]


class IsisDelete(Struct, array_like=True, tag=68):
    request: Count
    group: GroupName


class IsisFlush(Struct, array_like=True, tag=69):
    """Answered by Done when all that the process has cast and received is everywhere."""

    request: Count


class IsisGive(Struct, array_like=True, tag=70, gc=False):
    """A chunk of state for a newcomer, as of the view that IsisWanted named. Answers that."""

    request: Count
    group: GroupName
    view: Count
    newcomer: Where
    index: Count
    data: bytes
    last: bool


class IsisGroups(Struct, array_like=True, tag=71):
    """Which groups there are. Answered by Told."""

    request: Count
    wide: bool = False
    """Those that processes of other clusters can cast to, with their members in all of them. From version 1.10 on."""


class IsisWatch(Struct, array_like=True, tag=72):
    """IsisFailed follows when this process is over. Answered by Done at once. From version 1.8 on."""

    request: Count
    process: Where


class IsisWideCast(Struct, array_like=True, tag=73, gc=False):
    """To the members of a group in all connected clusters, or to processes by name. Answered by IsisSent; these casts
    are counted apart from those within the cluster."""

    request: Count
    kind: Annotated[int, Meta(ge=0, le=3)]
    to: GroupName | Annotated[list[WideWhere], Meta(max_length=4_096)]
    payload: bytes
    label: LabelText | Annotated[dict[str, Number], Meta(max_length=16)] | None = None
    replies: Annotated[int, Meta(ge=-1, le=65_536)] = 0


class IsisWideReply(Struct, array_like=True, tag=74, gc=False):
    request: Count
    cast: WideWhere
    payload: bytes


class IsisWideWatch(Struct, array_like=True, tag=75):
    """IsisWideTold follows when something becomes of this process. Answered by Done at once."""

    request: Count
    process: WideWhere


IsisRequest = (
    IsisOpen | IsisClose | IsisJoin | IsisLeave | IsisCast | IsisReply | IsisRank | IsisSet | IsisDelete | IsisFlush
    | IsisGive | IsisGroups | IsisWatch | IsisWideCast | IsisWideReply | IsisWideWatch
)  # fmt: skip


class IsisOpened(Struct, array_like=True, tag=60):
    request: Count
    process: Where


class IsisSent(Struct, array_like=True, tag=61, gc=False):
    """These casts have their ids. They are lists of one length."""

    requests: list[Count]
    counters: list[Count]


class IsisCasts(Struct, array_like=True, tag=62, gc=False):
    """Casts of one sender, in order."""

    kind: Annotated[int, Meta(ge=0, le=2)]
    """An ABCAST's kind is the same whether it is causal or not."""
    sender: Where
    group: str | None
    view: Count
    first: Count
    """The counter of the first; the others follow without gaps."""
    payloads: list[bytes]
    replies: int
    """What their sender asks for."""
    clock: Count = 0
    """Where replies are asked for: Lamport's, of the sender's site when it was cast."""


class IsisViewed(Struct, array_like=True, tag=63):
    group: str
    view: Count
    members: list[Where]
    """By rank."""
    properties: dict[str, bytes]
    lost: list[Where]
    last_to_fail: list[Count]
    newcomer: Where | None
    """The member that the view brings, if others are to give it the group's state. IsisStated follows at the
    newcomer, IsisTaken at the others."""
    primary: Count = 0
    """The number of the site view's configuration."""


class IsisLeft(Struct, array_like=True, tag=64):
    group: str
    deleted: bool


class IsisReplied(Struct, array_like=True, tag=65, gc=False):
    """To a cast of this process."""

    counter: Count
    sender: Where
    payload: bytes | None
    """None: it has failed."""


class IsisOver(Struct, array_like=True, tag=66, gc=False):
    """No more replies to this cast will come."""

    counter: Count


class IsisWanted(Struct, array_like=True, tag=67):
    """This process is to give its state as of `view`, from this chunk on."""

    group: str
    view: Count
    newcomer: Where
    first: Count


class IsisTaken(Struct, array_like=True, tag=68):
    """The newcomer has the group's state."""

    group: str
    newcomer: Where


class IsisChunk(Struct, array_like=True, tag=69, gc=False):
    group: str
    index: Count
    data: bytes
    member: Where


class IsisStated(Struct, array_like=True, tag=70):
    """All chunks have come."""

    group: str


class IsisBlocked(Struct, array_like=True, tag=71):
    pass


class IsisKilled(Struct, array_like=True, tag=72):
    """The process has a new identity and no groups. What it asked for before is answered or failed before this."""

    process: Where


class IsisFailed(Struct, array_like=True, tag=73, gc=False):
    """A process that this one watched is over. Nothing of it comes after this."""

    process: Where


class IsisWideReceived(Struct, array_like=True, tag=74, gc=False):
    """A cast to processes of several clusters."""

    kind: Annotated[int, Meta(ge=0, le=1)]
    sender: WideWhere
    group: str | None
    counter: Count
    payload: bytes
    replies: int
    clock: Count


class Reached:
    """What is said of a process of another cluster."""

    FAILED = 0
    """Its cluster says that it is over."""
    AWAY = 1
    """Its cluster is out of reach."""
    BACK = 2
    """Its cluster can be reached again."""
    UNWATCHED = 3
    """Its cluster does not watch it."""


class IsisWideReplied(Struct, array_like=True, tag=75, gc=False):
    """To a cast of this process to several clusters."""

    counter: Count
    sender: WideWhere
    payload: bytes | None
    """None: it has failed, or …"""
    away: bool = False
    """… its cluster is out of reach."""


class IsisWideOver(Struct, array_like=True, tag=76, gc=False):
    """No more replies to this cast to several clusters will come."""

    counter: Count


class IsisWideTold(Struct, array_like=True, tag=77, gc=False):
    """Of a process of another cluster that this one watches."""

    process: WideWhere
    what: Annotated[int, Meta(ge=0, le=3)]
    """`Reached`."""


IsisEvent = (
    IsisCasts | IsisViewed | IsisLeft | IsisReplied | IsisOver | IsisWanted | IsisTaken | IsisChunk | IsisStated
    | IsisBlocked | IsisKilled | IsisFailed | IsisWideReceived | IsisWideReplied | IsisWideOver | IsisWideTold
)  # fmt: skip
IsisAnswer = IsisOpened | IsisSent | IsisEvent
