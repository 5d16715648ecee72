"""What a recorder of groups with the filter needs beyond what their processes see."""

from msgspec import Struct

from reconvene.core.groups.events import Arrived, Blocked, Left, Process, ViewChanged, ViewId
from reconvene.ids import Service

__all__ = ["Cast", "Note"]


class Cast(Struct, frozen=True):
    """Messages of a local process to its whole group were sent: numbered by the site."""

    service: Service
    first: int
    """Counter of the first, among the site's messages; the others follow without gaps."""
    count: int


class Note(Struct, frozen=True):
    after: int
    """How many of the site's events of this turn come before it."""
    group: str
    process: Process
    """The process that it happened to, as the group knows it."""
    view: ViewId
    """In which view; of a ViewChanged, the new one."""
    event: ViewChanged | Arrived | Blocked | Left | Cast
    """Blocked and Left: this process is no more."""
