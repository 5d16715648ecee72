"""What waits for a sync, as data: each record says what is to happen once all that was decided before it is durable.

`Writes.after` takes them, and hands them back with the write whose token they waited for. `Replica` carries them out,
in one `match`. A record that names a configuration (by its number at this replica) is dropped if that configuration
has ended by then.
"""

from msgspec import Struct

from reconvene.corel.batch import Heading
from reconvene.corel.events import LogEvent
from reconvene.corel.paper.entries import Waiting

__all__ = [
    "Acknowledge", "AfterSync", "AnnounceDropped", "AnnounceSnapshots", "Attempt", "ConfirmRequest", "FetchPiece",
    "Finalize", "KeepFetched", "KeepSaved", "Renew", "Renumbered", "Report", "Send", "SendState", "TakenIn",
]  # fmt: skip


class Report(Struct, frozen=True):
    """Report these events, in order."""

    events: tuple[LogEvent, ...]


class TakenIn(Struct, frozen=True):
    """The batches that were closed last are on stable storage: they may be sent, and are reported as accepted."""

    headings: tuple[Heading, ...]


class Renumbered(Struct, frozen=True):
    """The same for batches that got another author."""

    batches: tuple[Waiting, ...]


class SendState(Struct, frozen=True):
    """Recovery, step 1: send what is on stable storage by then."""

    configuration: int


class Send(Struct, frozen=True):
    """Send a message to all members."""

    configuration: int
    kind: int
    content: Struct


class Attempt(Struct, frozen=True):
    """Recovery is over and durable: establish a primary component, if the participants are a quorum."""

    configuration: int


class Finalize(Struct, frozen=True):
    """The primary component is established on stable storage here: what is yellow may become green."""

    configuration: int


class Acknowledge(Struct, frozen=True):
    """So many of the batches delivered in the primary component are on stable storage here."""

    configuration: int
    count: int


class Renew(Struct, frozen=True):
    """Ask for a new configuration with the same members."""

    configuration: int | None
    """None: whichever it is by then."""


class ConfirmRequest(Struct, frozen=True):
    """Report that what the application asked for under this number is on stable storage."""

    number: int


class AnnounceSnapshots(Struct, frozen=True):
    """Send the table of names in use to the other replicas."""


class AnnounceDropped(Struct, frozen=True):
    """Tell the other replicas that a name is not in use any more."""

    name: str


class KeepSaved(Struct, frozen=True):
    """The application's snapshot of this name is whole on stable storage."""

    name: str


class FetchPiece(Struct, frozen=True):
    """Ask for the next piece of the snapshot that is being received."""

    opening: int
    """Unless the replicas have met anew since then."""


class KeepFetched(Struct, frozen=True):
    """The snapshot that was received is whole on stable storage."""


AfterSync = (
    Report
    | TakenIn
    | Renumbered
    | SendState
    | Send
    | Attempt
    | Finalize
    | Acknowledge
    | Renew
    | ConfirmRequest
    | AnnounceSnapshots
    | AnnounceDropped
    | KeepSaved
    | FetchPiece
    | KeepFetched
)
