"""The frames that nodes originate in a round, one each, and the order in which they are received.

The messages of a frame have one service. Its place in the order rotates among the members, and so does the service:
the first half of the places is for fifo and causal messages, the rest for agreed and safe ones. Each receiver gets
the first half starting at a place of its own, and the rest in the order of their timestamps.
"""

import numpy as np
import pyarrow as pa

from reconvene.lab.generate.events import Events, Section
from reconvene.lab.generate.plan import Numbers

__all__ = ["Frames", "loose_frames", "own_frames", "taken_frames"]

_SERVICES = pa.array(["fifo", "causal", "agreed", "safe"])
FIFO, CAUSAL, AGREED, SAFE = range(4)


def loose_frames(size: Numbers) -> Numbers:
    """How many of a round's frames are fifo or causal."""
    return size // 2


class Frames:
    """For each event of a section: its frame, by the place in the order of the round that originated it."""

    def __init__(self, events: Events, section: Section, place: Numbers, sent: Numbers) -> None:
        self._events = events
        self.section = section
        self.place = place
        self.sent = sent
        turns, at = events.turns, section.turn
        self.sender = events.plan.node_at(turns.spell[at], turns.part[at], (place - sent) % turns.size[at])

    def only(self, those: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> "Frames":
        return Frames(self._events, self.section.only(those), self.place[those], self.sent[those])

    def messages(self) -> pa.Array:
        plan, at = self._events.plan, self.section.turn
        counter = (self._events.turns.spell[at] * plan.rounds + self.sent) * plan.pack + self._index()
        return self._events.message(self.sender, counter)

    def services(self) -> pa.Array:
        size = self._events.turns.size[self.section.turn]
        turning = self.place + self.sent // size
        first, second = np.where(turning % 2 == 0, FIFO, CAUSAL), np.where(turning % 3 == 0, SAFE, AGREED)
        return _SERVICES.take(pa.array(np.where(self.place < loose_frames(size), first, second)))

    def stamps(self) -> pa.Array:
        """Null for a fifo or causal message."""
        turns, at = self._events.turns, self.section.turn
        size, zero = turns.size[at], np.zeros_like(self.place)
        stamps = self._events.stamps(turns.number[at], zero, self.sent * size + self.place, self._index())
        return stamps.take(pa.array(np.arange(len(at)), mask=self.place < loose_frames(size)))

    def _index(self) -> Numbers:
        """The message's place in its frame."""
        return self.section.d % self._events.plan.pack


def own_frames(events: Events, section: Section) -> Frames:
    """The frames that the node itself originates in a turn."""
    turns, at = events.turns, section.turn
    return Frames(events, section, (turns.index[at] + turns.round[at]) % turns.size[at], turns.round[at])


def taken_frames(events: Events, section: Section, sent: Numbers, first: Numbers | int = 0) -> Frames:
    """The frames of a round that the node receives, from some frame on; the round is given by turn."""
    turns, at, pack = events.turns, section.turn, events.plan.pack
    frame = section.d // pack + (first if isinstance(first, int) else first[at])
    loose = loose_frames(turns.size[at])
    place = np.where(frame < loose, (frame + turns.node[at]) % np.maximum(loose, 1), frame)
    return Frames(events, section, place, sent[at])
