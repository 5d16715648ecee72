"""A replica's message queue: a green prefix, a yellow zone, a red part, and what was accepted and is not logged.

It is also the index of where a batch is: `entries` by id while it is not green, `greens` by position once it is, and
`sessions` by the client's own numbers.

Given: what is to change. Promised: every change adds what makes it durable to the turn's writes. Green is a prefix
that only grows. The yellow zone is a sequence. The red part is in the order of timestamps, which preserves causality
(property 3.3), so that equal sets are equal sequences everywhere.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator

from msgspec.structs import replace

from reconvene.corel.batch import BatchId, Heading, Timestamp, encode_batch, messages_of, sources_of
from reconvene.corel.clients.sessions import Sessions
from reconvene.corel.events import Color
from reconvene.corel.keeping.bodies import Bodies
from reconvene.corel.keeping.green_batches import GreenBatches
from reconvene.corel.keeping.layout import (
    GREEN,
    Base,
    Place,
    accepted_key,
    body_key,
    encode_place,
    green_key,
    table_end,
    yellow_key,
)
from reconvene.corel.keeping.writes import Writes
from reconvene.corel.paper.entries import Adoption, Entry, Waiting, timestamp_of
from reconvene.corel.replicas.sets import MAX_NUMBER
from reconvene.storage.tables import Clear, Put

__all__ = ["Queue"]

_NOBODY = MAX_NUMBER
"""The author of batches that wait for a replica's number: no replica has ever had this one."""


class Queue:
    def __init__(
        self, base: Base, own: int | None, bodies: Bodies, greens: GreenBatches, sessions: Sessions, writes: Writes
    ) -> None:
        self.base = base
        self.green = base.position
        """The green line: how many messages are green."""
        self.yellow: deque[Entry] = deque()
        self.turning: deque[Entry] = deque()
        """On the way between yellow and red, while a step that recolors many takes several turns."""
        self.red: list[Entry] = []
        self.accepted: deque[Waiting] = deque()
        self.entries: dict[BatchId, Entry] = {}
        self.last: dict[int, int] = dict(base.last_green)
        """By author: the counter of its last message that the replica has."""
        self.last_green: dict[int, int] = dict(base.last_green)
        self.own = own
        """The author's number that its own messages have, if it is a replica."""
        self.bodies = bodies
        self.greens = greens
        self.green_size = base.size
        """Of all green bodies, truncated ones too, in bytes."""
        self.yellow_messages = 0
        self.red_messages = 0
        self._sessions = sessions
        self._writes = writes
        self._next_yellow = 1

    # -- what there is

    @property
    def yellow_line(self) -> int:
        """How many messages are green or yellow."""
        return self.green + self.yellow_messages

    def pending(self) -> Iterator[Entry]:
        """What is not green, in order."""
        yield from self.yellow
        yield from self.turning
        yield from self.red

    def headings(self) -> Iterator[Heading]:
        """Of everything that is here and not green, in order; what was accepted and not logged comes last."""
        for entry in self.pending():
            yield entry.heading
        for waiting in self.accepted:
            yield waiting.heading

    def places(self, start: int, end: int) -> Iterator[Place]:
        """Batches that are green or yellow here, from one position to before another."""
        for position, place in self.greens.places(start, end):
            start = position + place.count
            yield place
        for entry in self.yellow:
            if start >= end:
                return
            start += entry.heading.count
            yield entry.place()

    def marked(self) -> list[Entry]:
        return [entry for entry in self.pending() if entry.marked]

    def next_counter(self) -> int:
        """Of the next message that is accepted here."""
        if self.accepted and self.accepted[-1].heading.author == self.own:
            return self.accepted[-1].heading.last + 1
        return self.last.get(-1 if self.own is None else self.own, 0) + 1

    def authored(self, number: int | None) -> int:
        """The counter of the last message that was accepted here under this number."""
        last = 0 if number is None else self.last.get(number, 0)
        if self.accepted and self.accepted[-1].heading.author == number:
            return max(last, self.accepted[-1].heading.last)
        return last

    # -- from the application

    def accept(self, heading: Heading, body: bytes) -> Waiting:
        waiting = Waiting(heading, marked=False, durable=False)
        self.accepted.append(waiting)
        self.bodies.put(heading.id, body)
        self._writes.ops += (
            Put(body_key(heading.id), body),
            Put(accepted_key(heading.id), b""),
        )
        return waiting

    def disown(self, author: int) -> None:
        """This replica is not that author: what it logged as such is only accepted again."""
        entries = [entry for entry in self.pending() if entry.heading.author == author]
        for entry in reversed(entries):
            self._remove(entry)
            del self.entries[entry.heading.id]
            self._writes.ops += (Put(entry.key(), None), Put(accepted_key(entry.heading.id), b""))
            self.accepted.appendleft(Waiting(entry.heading, marked=True, durable=True))
        self.last.pop(author, None)
        self.renumber(_NOBODY)
        if self.own == author:
            self.own = None

    def renumber(self, author: int) -> None:
        """What it accepted gets another author: no replica has any of it under the present one."""
        before, self.accepted = self.accepted, deque()
        first = self.last.get(author, 0) + 1
        for waiting in before:
            old = waiting.heading
            body = self.bodies.get(old.id)
            heading = replace(old, author=author, first=first)
            first += old.count
            self._writes.ops += (Put(body_key(old.id), None), Put(accepted_key(old.id), None))
            self.bodies.drop(old.id)
            self.accept(heading, encode_batch(heading, messages_of(body), sources_of(body)))

    # -- from below

    def log(self, heading: Heading, body: bytes | None, timestamp: Timestamp, marked: bool, color: Color) -> Entry:
        """The next batch of its author, into the yellow zone's end or the red part. `body`: None if it is here."""
        entry = Entry(heading, timestamp, marked, color)
        self._had(heading, body)
        self.entries[heading.id] = entry
        if color is Color.YELLOW:
            self._append_yellow(entry)
        else:
            self._insert_red(entry)
        self._writes.ops.append(Put(entry.key(), entry.stored()))
        return entry

    def _had(self, heading: Heading, body: bytes | None) -> None:
        """Notes that the replica has it, and stores its body unless that is stored."""
        self.last[heading.author] = max(heading.last, self.last.get(heading.author, 0))
        if self.accepted and self.accepted[0].heading.id == heading.id:
            self.accepted.popleft()
            self._writes.ops.append(Put(accepted_key(heading.id), None))
            return
        if body is not None:
            self.bodies.put(heading.id, body)
            self._writes.ops.append(Put(body_key(heading.id), body))
        if heading.sourced and heading.author != self.own:
            self._sessions.add_batch(heading)  # the replica's own are known from when they were appended

    def _append_yellow(self, entry: Entry) -> None:
        entry.color = Color.YELLOW
        entry.number = self._next_yellow
        self._next_yellow += 1
        self.yellow.append(entry)
        self.yellow_messages += entry.heading.count

    def _insert_red(self, entry: Entry) -> None:
        entry.color = Color.RED
        if self.red and self.red[-1].timestamp > entry.timestamp:
            insort(self.red, entry, key=timestamp_of)
        else:
            self.red.append(entry)
        self.red_messages += entry.heading.count

    def _remove(self, entry: Entry) -> None:
        """From its place in the yellow zone or the red part."""
        if entry.color is Color.YELLOW:
            if self.yellow[0] is entry:
                self.yellow.popleft()
            else:
                self.yellow.remove(entry)
            self.yellow_messages -= entry.heading.count
        else:
            at = bisect_left(self.red, entry.timestamp, key=timestamp_of)
            assert self.red[at] is entry, "a red batch lies where its timestamp says"
            del self.red[at]
            self.red_messages -= entry.heading.count

    # -- colours

    def advance(self) -> tuple[Heading, int]:
        """The first yellow batch becomes green. Returns it with its position.

        This need not be durable before it is reported: after a crash the replica has it yellow, and learns again that
        it is green.
        """
        entry = self.yellow.popleft()
        self.yellow_messages -= entry.heading.count
        del self.entries[entry.heading.id]
        self._writes.ops.append(Put(yellow_key(entry.number), None))
        return entry.heading, self._append_green(entry)

    def append_green(self, heading: Heading, body: bytes | None, timestamp: Timestamp, marked: bool) -> int:
        """A batch that is green elsewhere in this place, wherever it was here. Returns its position."""
        entry = self.entries.pop(heading.id, None)
        if entry is None:
            entry = Entry(heading, timestamp, marked, Color.RED)
            self._had(heading, body)
        else:
            self._remove(entry)
            self._writes.ops.append(Put(entry.key(), None))
        return self._append_green(entry)

    def _append_green(self, entry: Entry) -> int:
        position, heading, place = self.green, entry.heading, entry.place()
        self._writes.ops.append(Put(green_key(position), encode_place(place)))
        self.green += heading.count
        self.last_green[heading.author] = heading.last
        self.greens.append(position, heading, place)
        return position

    # Each of the next three is one atomic step, which the caller goes through a batch at a time. Until its end the
    # caller holds back what it wrote (`Writes.held`).

    def retreat(self, line: int) -> Iterator[Entry]:
        """What is yellow beyond this line becomes red again, in order."""
        while self.yellow and self.yellow_line > line:
            entry = self.yellow.pop()
            self.yellow_messages -= entry.heading.count
            self.turning.appendleft(entry)
        while self.turning:
            entry = self.turning.popleft()
            self._writes.ops.append(Put(entry.key(), None))
            self._insert_red(entry)
            self._writes.ops.append(Put(entry.key(), entry.stored()))
            yield entry

    def turn_yellow(self) -> Iterator[Entry]:
        """Phase 2: everything that is not green is yellow; what was red comes in order."""
        self.turning, self.red = deque(self.red), []
        self.red_messages = 0
        while self.turning:
            entry = self.turning.popleft()
            self._writes.ops.append(Put(entry.key(), None))
            self._append_yellow(entry)
            self._writes.ops.append(Put(entry.key(), entry.stored()))
            yield entry

    def adopt(
        self, zone: list[tuple[Heading, bytes | None, Timestamp, bool]], adoption: "Adoption"
    ) -> Iterator[Heading]:
        """Recovery, step 6: this becomes the yellow zone; what else was yellow becomes red. What changed is added to
        `adoption`."""
        wanted = {heading.id for heading, _, _, _ in zone}
        was_yellow: set[BatchId] = set()
        self.turning, self.yellow = self.yellow, deque()
        self.yellow_messages = 0
        while self.turning:
            entry = self.turning.popleft()
            self._writes.ops.append(Put(entry.key(), None))
            self._insert_red(entry)
            if entry.heading.id in wanted:
                was_yellow.add(entry.heading.id)  # and will be again: for storage it never was red
            else:
                adoption.red.append(entry)
                self._writes.ops.append(Put(entry.key(), entry.stored()))
            yield entry.heading
        for heading, body, timestamp, marked in zone:
            known = self.entries.get(heading.id)
            if known is None:
                known = self.entries[heading.id] = Entry(heading, timestamp, marked, Color.RED)
                self._had(heading, body)
                adoption.logged.append(known)
                adoption.yellow.append(known)
            else:
                self._remove(known)
                if heading.id not in was_yellow:
                    self._writes.ops.append(Put(known.key(), None))
                    adoption.yellow.append(known)
            self._append_yellow(known)
            self._writes.ops.append(Put(known.key(), known.stored()))
            yield heading

    def retime(self, entry: Entry, timestamp: Timestamp) -> None:
        """A red batch that is had under a lower timestamp elsewhere."""
        self._remove(entry)
        self._writes.ops.append(Put(entry.key(), None))
        entry.timestamp = timestamp
        self._insert_red(entry)
        self._writes.ops.append(Put(entry.key(), entry.stored()))

    def restore(self, base: Base) -> None:
        """Everything below the base's position counts as had, and green."""
        self.base = base
        self.green = base.position
        self.green_size = base.size
        self.last_green = dict(base.last_green)
        for author, last in base.last_green.items():
            self.last[author] = max(last, self.last.get(author, 0))
        for entry in list(self.pending()):
            if entry.heading.last <= self.last_green.get(entry.heading.author, 0):
                self._remove(entry)
                del self.entries[entry.heading.id]
                self._writes.ops.append(Put(entry.key(), None))
        while self.accepted and self.accepted[0].heading.last <= self.last_green.get(
            self.accepted[0].heading.author, 0
        ):
            self._writes.ops.append(Put(accepted_key(self.accepted.popleft().heading.id), None))
        for author, last in self.last_green.items():
            self._writes.ops.append(Clear(body_key(BatchId(author, 0)), body_key(BatchId(author, last + 1))))
        self.bodies.forget(self.last_green)
        self._writes.ops.append(Clear(GREEN, table_end(GREEN)))
        self.greens.restart(self.green)

    def truncate(self, base: Base, removed: list[tuple[int, Heading]]) -> None:
        """The batches from the old base up to the new one are folded into it, and forgotten."""
        self.base = base
        for position, heading in removed:
            self._writes.ops += (Put(green_key(position), None), Put(body_key(heading.id), None))
            self.bodies.drop(heading.id)
        self.greens.truncate(base.position)

    # -- loading

    def load_green(self, line: int, last_green: dict[int, int], size: int) -> None:
        self.green = line
        self.green_size = size
        self.last_green = dict(last_green)
        for author, last in last_green.items():
            self.last[author] = max(last, self.last.get(author, 0))
        self.greens.restart(line)

    def load(self, heading: Heading, place: Place, color: Color, number: int = 0) -> None:
        entry = Entry(heading, place.timestamp, place.marked, color, number)
        self.entries[heading.id] = entry
        self.last[heading.author] = max(heading.last, self.last.get(heading.author, 0))
        if color is Color.YELLOW:
            self.yellow.append(entry)
            self.yellow_messages += heading.count
            self._next_yellow = number + 1
        else:
            self.red.append(entry)
            self.red_messages += heading.count

    def load_accepted(self, heading: Heading) -> None:
        """It may have been sent by an earlier incarnation."""
        self.accepted.append(Waiting(heading, marked=True, durable=True))

    # -- what must always hold

    def invariants(self) -> None:
        assert self.yellow_messages == sum(entry.heading.count for entry in self.yellow)
        assert self.red_messages == sum(entry.heading.count for entry in self.red)
        assert all(one.timestamp < two.timestamp for one, two in zip(self.red, self.red[1:], strict=False))
        numbers = [entry.number for entry in self.yellow]
        assert numbers == sorted(set(numbers)), "the yellow zone's keys grow along it"
        assert len(self.entries) == len(self.yellow) + len(self.turning) + len(self.red)
        if self.turning:
            assert self._writes.held, "half of a step is never written"
            return
        last = dict(self.last_green)
        for entry in self.pending():
            heading = entry.heading
            assert heading.first == last.get(heading.author, 0) + 1, "an author's batches lie in their order"
            last[heading.author] = heading.last
        assert all(last.get(author, 0) == counter for author, counter in self.last.items())
