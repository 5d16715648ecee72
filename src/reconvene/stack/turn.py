"""What a turn ends with: one bundle for the site, its groups and every layer beside them.

A shell performs it in the order of the fields. What waits for a sync is not in the bundle: it comes out of a later
turn, once `Stack.synced` has reported the token.
"""

from collections.abc import Sequence

from msgspec import Struct, field

from reconvene.core.effects import Event
from reconvene.core.groups.events import GroupEvent, Process
from reconvene.core.groups.notes import Note
from reconvene.corel.events import LogEvent
from reconvene.domains.events import WideEvent
from reconvene.isis.events import IsisEvent
from reconvene.storage.tables import Op

__all__ = ["Turn", "Write"]


class Write(Struct, frozen=True):
    """What one layer wants on stable storage."""

    token: int
    ops: Sequence[Op]


class Turn(Struct):
    events: list[Event] = field(default_factory=list)
    """Record first, in this order: before `writes` are handed to storage, and before anything leaves the site."""
    notes: list[Note] = field(default_factory=list)
    """Record among `events`: each says how many of them come before it. Empty unless `Groups.record` was called."""
    log: list[LogEvent] = field(default_factory=list)
    """Record after `events` and `notes`. They depend on syncs that were reported in earlier turns, and on none of
    this one: show them to clients as soon as they are recorded."""
    isis: list[IsisEvent] = field(default_factory=list)
    """Record after `events` and `notes`. Then hand each that is `isis.events.Seen` to the process that it names. They
    depend on syncs that were reported in earlier turns, and on none of this one."""
    wide: list[WideEvent] = field(default_factory=list)
    """Record after `events` and `notes`. Then show applications what was delivered."""
    writes: list[Write] = field(default_factory=list)
    """Write all of them in one transaction, after the rows above are recorded: so storage never has more than the
    trace. When it is synced, report each token by `Stack.synced`. Nothing else in this bundle waits for that."""
    datagrams: list[tuple[tuple[int, ...], bytes]] = field(default_factory=list)
    """(destinations by ordinal, bytes): send after the rows above are recorded. They never depend on this turn's
    `writes`. Empty where a layer is damaged: a site that cannot trust its own storage is silent."""
    processes: list[tuple[Process, list[GroupEvent]]] = field(default_factory=list)
    """For each process of the site, what it sees, in order: hand over after the rows above are recorded."""
    acks_only: bool = False
    """All datagrams are acks of channels, which nobody waits for. A shell may send them after it has handed over what
    the turn has brought, but before those of its next turn."""
    apart: bool = False
    """Neither the site nor its groups nor the log took part in this turn: nothing of theirs has changed."""
