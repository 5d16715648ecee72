"""Which GBCASTs are concluded together. All sites agree on it, at each place of the order of control messages.

A GBCAST that meets no other one at any process is a round of its own as soon as it is announced. Others wait.
When a round is over, those that waited go together: all that share a process, or a group, are one round. A round is
like one GBCAST of all its groups: each site is ready once for all of it, what any member has received comes before
all of it at all members, and its GBCASTs follow one another with nothing in between. So GBCASTs of overlapping groups
keep their order, which the paper's suggestion to merge parts of the protocol would lose.
"""

from collections.abc import Iterable

from reconvene.core.groups.events import Process
from reconvene.isis.table import OpenGbcast

__all__ = ["Round", "rounds", "start"]

Round = list[OpenGbcast]
"""In their order. The number of the first is the round's."""


def rounds(gbcasts: Iterable[OpenGbcast]) -> dict[int, Round]:
    """Those that have begun, by number."""
    found: dict[int, Round] = {}
    for gbcast in gbcasts:
        if gbcast.round:
            found.setdefault(gbcast.round, []).append(gbcast)
    return found


def start(gbcasts: Iterable[OpenGbcast], others: Iterable[OpenGbcast]) -> None:
    """Begins rounds of these, in their order, as far as they meet none of the others."""
    taken: set[Process | str] = set()
    for other in others:
        taken |= _meeting(other)
    by_place: dict[Process | str, Round] = {}
    for gbcast in gbcasts:
        places = _meeting(gbcast)
        if not taken.isdisjoint(places):
            taken |= places  # nothing that comes later overtakes it
            continue
        met = {found[0].number: found for place in places if (found := by_place.get(place)) is not None}
        merged = [*[other for found in met.values() for other in found], gbcast]
        for place in places.union(*[_meeting(other) for other in merged]):
            by_place[place] = merged
    for merged in by_place.values():
        number = min(gbcast.number for gbcast in merged)
        for gbcast in merged:
            gbcast.round = number


def _meeting(gbcast: OpenGbcast) -> set[Process | str]:
    return {*gbcast.concerned, gbcast.action.group}
