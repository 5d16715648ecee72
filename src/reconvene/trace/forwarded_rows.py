"""The ids of messages that an outpost accepted and a replica took over, in the rows of a replica or follower.

Such a message has one id everywhere, the outpost's own (OUTPOST:INCARNATION:COUNTER). Two replicas may have taken it,
where the outpost could not know of the first. Then there are two *copies*: the first one in the order counts, and has
the outpost's id. The other is void, and has the id that its replica gave it, for which that replica has an `offer`.

Which copy is first is certain only once one is green, and nodes learn that at different times. So every row about a
copy says which copy it is, whatever id it shows: its `label` is the id that the replica gave to the copy. Until one
is green, a node shows the first copy that it logged under the outpost's id, and others under their own. The `green`
shows what each was in the end, and readers take the earlier rows of the same copy by that.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from reconvene.corel.batch import BatchId, Heading, Source
from reconvene.corel.replica import Replica
from reconvene.ids import message_id

__all__ = ["ForwardedRows", "Named"]


class Named(NamedTuple):
    """A copy under the id that its row shows."""

    msg: str
    copy: str
    """The id that its replica gave it."""


class ForwardedRows:
    """`shown`: by copy, what earlier rows of the trace show it as, of those that are not green."""

    def __init__(self, replica: Replica, shown: Mapping[str, str]) -> None:
        self._replica = replica
        self._shown = dict(shown)
        self._holders = {msg: copy for copy, msg in shown.items() if msg != copy}
        """By the outpost's id: the copy that is shown under it, and is not green."""

    def has(self, batch: Heading) -> bool:
        """Whether the batch's messages are an outpost's."""
        return batch.sourced and bool(self._replica.forwarded(batch))

    def named(self, batch: Heading, copies: list[str]) -> list[Named]:
        """The batch's messages as rows show them until one is green. `copies`: the ids that its replica gave them."""
        found: list[Named] = []
        for at, msg, source, number in self._messages(batch):
            copy = copies[at]
            shown = self._shown.get(copy)
            if shown is None:
                shown = copy if self._is_taken(batch.id, msg, source.session, number) else msg
                self._shown[copy] = shown
                if shown == msg:
                    self._holders[msg] = copy
            found.append(Named(shown, copy))
        return found

    def green(self, batch: Heading, position: int, copies: list[str]) -> list[Named]:
        """The same of a batch that is green, for ever: the outpost's ids where they count, else the copies' own."""
        found: list[Named] = []
        voids = self._replica.voids(position, batch)
        for at, msg, source, number in self._messages(batch):
            copy = copies[at]
            place = self._replica.place_of(source.session, number)
            counts = place == position + at or (place is None and at not in voids)
            found.append(Named(msg if counts else copy, copy))
            self._shown.pop(copy, None)
            if self._holders.get(msg) == copy:
                del self._holders[msg]
        return found

    def _messages(self, batch: Heading) -> Iterator[tuple[int, str, Source, int]]:
        """(index in the batch, the outpost's id, source, number)."""
        for source in self._replica.forwarded(batch):
            assert source.origin is not None, "it is an outpost's"
            for number in range(source.number, source.number + source.count):
                msg = message_id(source.origin.outpost, source.origin.incarnation, number)
                yield source.start + number - source.number, msg, source, number

    def _is_taken(self, batch: BatchId, msg: str, session: bytes, number: int) -> bool:
        """Whether another copy than this batch's has the outpost's id here."""
        replica = self._replica
        if msg in self._holders:
            return True
        if not replica.sessions.green.has(session, number):
            return False
        # The replica may know of a green that its events have still to report: it may be this copy's.
        place = replica.place_of(session, number)
        return place is None or place < replica.base or next(replica.read(place))[1].id != batch
