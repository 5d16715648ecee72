"""Batches as a replica's queue holds them."""

from reconvene.corel.batch import Heading, Timestamp
from reconvene.corel.events import Color
from reconvene.corel.keeping.layout import Place, encode_place, red_key, yellow_key

__all__ = ["Adoption", "Entry", "Waiting", "timestamp_of"]


class Entry:
    """A batch that the replica has, not green."""

    __slots__ = ("color", "heading", "marked", "number", "timestamp")

    def __init__(self, heading: Heading, timestamp: Timestamp, marked: bool, color: Color, number: int = 0) -> None:
        self.heading = heading
        self.timestamp = timestamp
        self.marked = marked
        self.color = color
        self.number = number
        """Its key in the yellow zone."""

    def place(self) -> Place:
        return Place(self.heading.id, self.heading.count, self.timestamp, self.marked)

    def stored(self) -> bytes:
        """What is written under its key."""
        return encode_place(self.place())

    def key(self) -> bytes:
        return yellow_key(self.number) if self.color is Color.YELLOW else red_key(self.timestamp)


class Waiting:
    """A batch of the replica's own that it accepted and has not logged."""

    __slots__ = ("durable", "heading", "marked")

    def __init__(self, heading: Heading, marked: bool, durable: bool) -> None:
        self.heading = heading
        self.marked = marked
        """It may have been sent before."""
        self.durable = durable


class Adoption:
    """What step 6 of recovery changed, each in order."""

    __slots__ = ("logged", "red", "yellow")

    def __init__(self) -> None:
        self.red: list[Entry] = []
        """It became red."""
        self.logged: list[Entry] = []
        """It is new here."""
        self.yellow: list[Entry] = []
        """It became yellow."""


def timestamp_of(entry: Entry) -> Timestamp:
    return entry.timestamp
