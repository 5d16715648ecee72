"""What the delivery layer asks of an order engine: one total order in each configuration.

An engine is made anew for each regular configuration. It is given every numbered frame, the site's own too, in
causal order, and returns them in the total order. A frame takes part in the order if its `slot` is not -1.
"""

from typing import NamedTuple, Protocol

from reconvene.wire.messages import Frame

__all__ = ["Key", "Note", "OrderEngine", "Stamp"]

Key = tuple[int, int]
"""A frame's place in its configuration's order, comparable: (distribution, slot) or (clock, rank)."""


class Stamp(NamedTuple):
    dist: int
    slot: int
    passes: int = 0


class Note(NamedTuple):
    """What a frame without a slot is to say: passed slots, or a new distribution."""

    dist: int
    passes: int
    weights: list[int]


class OrderEngine(Protocol):
    """One configuration's order at one member. Times are `now`, in ns."""

    def stamp(self, clock: int, now: int) -> Stamp:
        """The place of an own frame that is about to be numbered with this clock; `receive` follows at once."""

    def receive(self, frame: Frame, now: int) -> None:
        """Takes the next frame in causal order, own frames included. One that breaks the order's rules is ignored,
        the same at every member, and never returned."""

    def heard(self, rank: int, clock: int) -> None:
        """An alive frame was counted, or, with this site's own rank, sent: this member's later frames have higher
        clocks. No frame is ready by a clock that this site has not announced, so own clocks come here too."""

    def peek(self) -> tuple[Key, Frame] | None:
        """The next frame in the total order, if nothing can still come before it."""

    def advance(self) -> None:
        """The frame that `peek` returned is delivered."""

    def key(self, frame: Frame) -> Key:
        """The place of a frame with a slot, whether it was reached or not."""

    def timestamp(self, key: Key) -> tuple[int, ...]:
        """The timestamp of the frame with this key, without the index in the frame."""

    def note(self, now: int) -> Note | None:
        """At every turn's end, after own frames: what this site must say in a numbered frame besides them.
        It is multicast and passed to `receive` at once. A turn with ordered frames of its own produces no passes, but
        a new distribution must come from a busy site too."""

    def wants_alive(self) -> bool:
        """At a turn's end: others wait for this site's clock, and no frame of its own will carry it."""

    def awaited(self) -> bool:
        """Others can't order what they have before this site's next ordered frame: send it now, full or not."""

    def deadline(self) -> int | None:
        """When `note` may return something new, even if nothing arrives."""

    def clocks(self) -> list[int]:
        """The highest counted clock of each member, for the state exchanged at a configuration change."""

    def merge(self, clocks: list[int]) -> None:
        """At a configuration change, after the last frame: what any continuing member had counted.
        From then on `peek` returns what belongs to the regular configuration."""

    def skip_empty(self) -> None:
        """The transitional configuration begins: from now on `peek` skips empty slots."""

    def round_trips(self, spreads: list[int | None]) -> None:
        """Variance of each member's round-trip times in µs², where known, for choosing a book-keeper."""

    def invariants(self) -> None:
        """Asserts what must hold after every step."""
