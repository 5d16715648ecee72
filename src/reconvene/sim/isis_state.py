"""The state that simulated processes give and take: which casts to a group its members have received.

All members that see a view have received the same casts to the group before it, if those count that came with their
state. So the state as of a view is the same at all of them, whichever gives it, and a newcomer must have it when its
transfer is done. The `StateLedger` compares them; the trace does not show what a state holds.
"""

from collections.abc import Sequence

from reconvene.core.groups.events import Process
from reconvene.isis.events import CastId

__all__ = ["GroupState", "StateLedger"]

_IDS = 8
"""In a chunk: few, so that a transfer takes some chunks."""

Seen = tuple[str, int, tuple[Process, ...]]
"""A view: group, number, members by rank. Numbers begin again after all sites crashed."""


class StateLedger:
    """What every process had received by each view of each group."""

    def __init__(self) -> None:
        self._by_view: dict[Seen, tuple[Process, frozenset[CastId]]] = {}
        self.problems: list[str] = []
        self.cases = 0

    def note(self, process: Process, view: Seen, state: frozenset[CastId]) -> None:
        other, known = self._by_view.setdefault(view, (process, state))
        if other == process:
            return
        self.cases += 1
        if known != state:
            group, number, _ = view
            odd = sorted(known ^ state)[:3]
            self.problems.append(
                f"view {number} of {group}: {_name(process)} has the state of {len(state)} casts, {_name(other)} that"
                f" of {len(known)}; they differ in {', '.join(map(_name, odd))}"
            )


class GroupState:
    """What one process has received of one group."""

    def __init__(self, process: Process, view: Seen, ledger: StateLedger, *, transfer: bool) -> None:
        """`view`: its first one. `transfer`: it gets the state of the members before it."""
        self._process = process
        self._ledger = ledger
        self._came_with: list[CastId] | None = None if transfer else []
        """None: the transfer is under way."""
        self._whole = True
        """Its state is that of the group: no transfer has ended early because all who could give it failed."""
        self._taken: dict[int, bytes] = {}
        self._received: list[CastId] = []
        self._views: dict[int, tuple[Seen, int]] = {}
        """By number: the view, and how many it had received before it."""
        self.see(view)

    @property
    def is_done(self) -> bool:
        return self._came_with is not None

    def has(self, view: int) -> bool:
        """Can it give its state as of this view?"""
        return self.is_done and view in self._views

    def see(self, view: Seen) -> None:
        self._views[view[1]] = (view, len(self._received))
        if self.is_done:
            self._note(view, len(self._received))

    def receive(self, cast: CastId) -> None:
        self._received.append(cast)

    def take(self, index: int, data: bytes) -> None:
        if index != len(self._taken):
            self._ledger.problems.append(
                f"{_name(self._process)} got chunk {index} of its state, expected {len(self._taken)}"
            )
        self._taken.setdefault(index, data)

    def done(self) -> None:
        """The transfer is done; what came meanwhile counts from now on."""
        chunks = [self._taken[index] for index in sorted(self._taken)]
        heads = [chunk.partition(b";")[0].split() for chunk in chunks]
        # All chunks are there, and each is of a state that is whole.
        self._whole = bool(heads) and all(
            head == [b"%d" % index, b"%d" % len(heads), b"1"] for index, head in enumerate(heads)
        )
        self._came_with = [_read(word) for chunk in chunks for word in chunk.partition(b";")[2].split()]
        self._taken.clear()
        for view, count in list(self._views.values()):
            self._note(view, count)

    def chunks(self, view: int) -> list[bytes]:
        """The state as it was when this process saw that view."""
        assert self._came_with is not None, "its own transfer is done"
        count = self._views[view][1]
        ids = sorted({*self._came_with, *self._received[:count]})
        parts = [ids[first : first + _IDS] for first in range(0, len(ids), _IDS)] or [[]]
        return [
            b"%d %d %d;" % (index, len(parts), self._whole) + b" ".join(_name(cast).encode() for cast in part)
            for index, part in enumerate(parts)
        ]

    def _note(self, view: Seen, count: int) -> None:
        if self._whole and self._came_with is not None:
            self._ledger.note(self._process, view, frozenset(self._came_with).union(self._received[:count]))


def _name(of: Sequence[int]) -> str:
    return ":".join(map(str, of))


def _read(word: bytes) -> CastId:
    site, incarnation, counter = word.split(b":")
    return CastId(int(site), int(incarnation), int(counter))
