"""What the ISIS layer reports, in the order in which it happens: the rows of a trace, and what processes see.

An event with a `process` concerns that process of this site. The shell records every event, then hands those that are
`Seen` to the process.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Struct

from reconvene.core.groups.events import Process
from reconvene.isis.far_events import (
    FarCallOver,
    FarEvent,
    FarFailed,
    FarReachable,
    FarReceived,
    FarUnreachable,
    FarUnwatched,
)

__all__ = [
    "ALL", "Answered", "Begun", "Blocked", "CallOver", "Cast", "CastId", "CastKind", "Ended", "Failed", "Flushed",
    "IsisEvent", "JoinAsked", "Killed", "LeftGroup", "Received", "Rejection", "Seen", "Sent", "SiteAdopted",
    "StateChunk", "StateDone", "StateTaken", "StateWanted", "ViewShown",
]  # fmt: skip

ALL = -1
"""Replies that are asked for: one of every destination."""


class CastId(NamedTuple):
    """People see it as SITE:INCARNATION:COUNTER, with the site's name."""

    site: int
    incarnation: int
    counter: int
    """Of the casts of this incarnation, from 1, without gaps."""


CastKind = str
"""cbcast, abcast or gbcast."""

Sent = Callable[[CastId | None], None]
"""Called once a request is carried out: of a cast with its id, or with None where nobody is left to send it to. Never
called where the process ends before that. It must not ask for anything itself."""


class SiteAdopted(Struct, frozen=True):
    """This site adopted a site view."""

    conf: str
    number: int
    """Of the configuration."""
    members: tuple[tuple[int, int], ...]
    """(site, born), by site."""


class Begun(Struct, frozen=True):
    process: Process
    name: str
    """Its name in the scenario or program; empty if it has none."""


class Ended(Struct, frozen=True):
    """This identity is over: closed, dead, or killed."""

    process: Process


class JoinAsked(Struct, frozen=True):
    process: Process
    group: str


class LeftGroup(Struct, frozen=True):
    """The leave took effect, or the group is over for all its members."""

    process: Process
    group: str
    deleted: bool = False


class ViewShown(Struct, frozen=True):
    process: Process
    group: str
    view: int
    """Grows by one with each view of the group."""
    ranked: tuple[Process, ...]
    """The members by rank."""
    number: int
    """Of the site view's configuration."""
    conf: str
    properties: dict[str, bytes]
    lost: tuple[Process, ...] = ()
    """Members of the view before that failed."""
    last_to_fail: tuple[int, ...] = ()
    """Of the first view after all members had failed: the sites that failed last, if that is known."""
    newcomer: Process | None = None
    """The member that the view brings, if other members are to give it the group's state."""


class Cast(Struct, frozen=True):
    """A cast of this site's: its id, label and destinations are fixed."""

    kind: CastKind
    process: Process
    """The sender."""
    id: CastId
    attempt: int
    to: tuple[Process, ...]
    """Of a GBCAST: the members as its site knows them; those of the view in which it is received count."""
    label: str
    """Of a CBCAST its effective label as JSON, `{"x":7}`, keys sorted; of an ABCAST its text."""
    causal: bool
    """A causal ABCAST."""
    replies: int
    group: str | None = None
    view: int = 0
    count: int = 1
    """So many messages go as one; the ids of the others follow."""


class Received(Struct, frozen=True):
    """A cast is in the process's delivery queue."""

    process: Process
    kind: CastKind
    sender: Process
    id: CastId
    attempt: int
    payload: bytes
    group: str | None = None
    view: int = 0
    """The one that the cast names."""
    priority: tuple[int, int] | None = None
    """(counter, site). ABCAST: the final one; GBCAST: the barrier."""
    replies: int = 0
    """What its sender asks for."""
    more: Sequence[bytes] = ()
    """Further messages that came with it as one; their ids follow."""
    clock: int = 0
    """Lamport's, of the sender's site when it was cast. Of a GBCAST: 0."""


class Rejection(Struct, frozen=True):
    process: Process
    sender: Process
    id: CastId
    attempt: int
    group: str
    view: int
    """The process's own."""
    count: int = 1


class Answered(Struct, frozen=True):
    """`process` asked, `sender` replied."""

    process: Process
    sender: Process
    id: CastId
    payload: bytes


class Failed(Struct, frozen=True):
    """`process` is told that `sender` has failed, and will not answer the request `id`; None: it was only watched."""

    process: Process
    sender: Process
    id: CastId | None


class CallOver(Struct, frozen=True):
    """No more replies to this cast will be reported, nor failures."""

    process: Process
    id: CastId


class Flushed(Struct, frozen=True):
    """A flush returns."""

    process: Process
    id: CastId | None
    """The last cast of the process before the call."""


class StateDone(Struct, frozen=True):
    """The process's state transfer is done."""

    process: Process
    group: str
    view: int


class StateWanted(Struct, frozen=True):
    """`process` is to give its state, as it was when it saw `view`, to a newcomer: chunks from number `first` on."""

    process: Process
    group: str
    view: int
    """The view that brought the newcomer."""
    newcomer: Process
    first: int


class StateTaken(Struct, frozen=True):
    """The newcomer has the state: `process` will not be asked for what it had when it saw that view."""

    process: Process
    group: str
    newcomer: Process


class StateChunk(Struct, frozen=True):
    """A part of the group's state, in order; `StateDone` follows the last."""

    process: Process
    """The newcomer."""
    group: str
    index: int
    data: bytes
    member: Process | None = None
    """Whose it is. Where one member gives the state, and dies, the next one goes on with the next chunk."""


class Blocked(Struct, frozen=True):
    """The process's site is outside of the primary component: nothing is sent or delivered."""

    process: Process


class Killed(Struct, frozen=True):
    """The site came back after the others had gone on without it: the process has a new identity and no groups."""

    process: Process
    """The new identity."""
    was: Process


IsisEvent = (
    SiteAdopted | Begun | Ended | JoinAsked | LeftGroup | ViewShown | Cast | Received | Rejection | Answered | Failed
    | CallOver | Flushed | StateWanted | StateTaken | StateChunk | StateDone | Blocked | Killed | FarEvent
)  # fmt: skip
Seen = (
    ViewShown, LeftGroup, Received, Answered, Failed, CallOver, Flushed, StateWanted, StateTaken, StateChunk,
    StateDone, Blocked, Killed, FarReceived, FarFailed, FarUnreachable, FarReachable, FarUnwatched, FarCallOver,
)  # fmt: skip
"""Those that the process itself sees."""
