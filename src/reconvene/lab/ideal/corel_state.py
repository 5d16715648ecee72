"""What the ideal log knows of its configurations and its replicas."""

from dataclasses import dataclass, field

from reconvene.lab.ideal.evs import Node
from reconvene.trace.events import Row

__all__ = ["IdealReplica", "LogConfiguration", "Stamp"]

Stamp = tuple[int, ...]


@dataclass
class LogConfiguration:
    """A regular configuration as the log sees it."""

    number: int
    id: str
    members: list[str]
    open: bool = False
    """Whether the recovery is over, and with a quorum the primary component established: then messages are sent in
    it."""
    primary: int | None = None
    sent: list[str] = field(default_factory=list)
    received: dict[str, int] = field(default_factory=dict)
    """How many of the sent messages each member has logged; all in the same order."""
    acknowledged: dict[str, int] = field(default_factory=dict)
    """The same, as far as the others know."""
    phase: str = ""
    """The current phase of its members, or the last one."""
    green: dict[str, int] = field(default_factory=dict)


@dataclass
class IdealReplica:
    """What one node keeps, also over crashes."""

    node: Node
    waiting: list[str] = field(default_factory=list)
    """Accepted, and not logged yet."""
    had: set[str] = field(default_factory=set)
    line: int = 0
    """How many messages are green."""
    yellow: list[str] = field(default_factory=list)
    red: dict[str, Stamp] = field(default_factory=dict)
    attempted: int = 0
    committed: int = 0
    accepted: int = 0
    view: LogConfiguration | None = None
    since: int = 0
    """Where the rows of its last phase begin."""
    held: list[Row] = field(default_factory=list)
    """Rows that are recorded only when the node has left its configuration."""
