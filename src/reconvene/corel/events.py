"""What happens to the log at one replica, in the order in which it happens. Each is durable before it is reported.

Replicas are named by their numbers in the log, which `ReplicaSet` maps to sites' names.
"""

from enum import Enum

from msgspec import Struct

from reconvene.corel.batch import Heading, Timestamp

__all__ = [
    "Accepted", "Adopted", "Attempted", "BarrierPassed", "Color", "Committed", "Established", "Green", "LogEvent",
    "Logged", "PrimaryLost", "Recolored", "RequestStored", "Restored", "SnapshotKept", "messages_in",
]  # fmt: skip


class Color(Enum):
    """What a replica knows of a message's place in the total order."""

    RED = "red"
    YELLOW = "yellow"
    GREEN = "green"


class Accepted(Struct, frozen=True):
    """Taken from the application, on stable storage."""

    batch: Heading


class Logged(Struct, frozen=True):
    """Received from below, on stable storage: the replica has it. Red, unless `Recolored` follows."""

    batch: Heading
    timestamp: Timestamp


class Recolored(Struct, frozen=True):
    """To yellow, or from yellow back to red."""

    batch: Heading
    color: Color


class Green(Struct, frozen=True):
    """Message i of the batch has position `position + i`. That is final, and the same at every replica."""

    batch: Heading
    position: int


class Attempted(Struct, frozen=True):
    primary: int
    conf: str
    members: tuple[str, ...]
    """Sites' names, sorted."""


class Committed(Struct, frozen=True):
    primary: int
    conf: str
    members: tuple[str, ...]


class Established(Struct, frozen=True):
    primary: int
    conf: str
    members: tuple[str, ...]


class PrimaryLost(Struct, frozen=True):
    """The replica is in no primary component any more."""

    primary: int


class Adopted(Struct, frozen=True):
    """Recovery, step 6: the replica now knows of this primary component."""

    primary: int


class Restored(Struct, frozen=True):
    """It took another replica's snapshot: everything below `position` counts as had, and green."""

    position: int


class BarrierPassed(Struct, frozen=True):
    """Everything that was green anywhere when the barrier was asked for is green here."""

    number: int


class SnapshotKept(Struct, frozen=True):
    """A whole snapshot of an application's state, with everything below `position` in it, is on stable storage."""

    position: int
    name: str


class RequestStored(Struct, frozen=True):
    """What the application asked for (to use, save or drop a snapshot) is on stable storage."""

    number: int
    """That the request returned."""


LogEvent = (
    Accepted
    | Logged
    | Recolored
    | Green
    | Attempted
    | Committed
    | Established
    | PrimaryLost
    | Adopted
    | Restored
    | BarrierPassed
    | SnapshotKept
    | RequestStored
)


def messages_in(event: LogEvent) -> int:
    """How many messages an event is about; 1 where it is about none."""
    return event.batch.count if isinstance(event, Accepted | Logged | Recolored | Green) else 1
