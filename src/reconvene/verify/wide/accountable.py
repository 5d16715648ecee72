"""Which site has to deliver which message: those that it passes to, and that were there in time.

A site may enter a wide configuration late: it restarts and joins its cluster, or its cluster joins the others. What
was placed before that it never gets. The place of an agreed or safe message is its ts. A fifo or causal message has
none: elsewhere it is known by where its crossing came in; at home such a message is delivered at once, by way of the
cluster alone.
"""

from reconvene.verify.codes import NONE
from reconvene.verify.wide.home import Home
from reconvene.verify.wide_history import Entry, Life, Place, WideHistory

__all__ = ["Accountable"]


class Accountable:
    def __init__(self, wide: WideHistory) -> None:
        self.wide = wide
        self.home = wide.once(Home)
        self.crossed = wide.once(crossing_places)
        self._legs: dict[int, int] = {}

    def must_have(self, life: Life, entry: Entry, n: int | None, message: int) -> bool:
        """Must the life, being in `entry` at `n` (None: at its end), get this message, sent in the same wide
        configuration, before what follows from it?"""
        wide, told = self.wide, self.wide.told[message]
        node, root = life[0], wide.confs[entry.conf].root
        if not wide.is_for(message, wide.home[node]):
            return False
        if wide.ordered(message) and told.places:
            # What is placed in another wide configuration only is not missed in this one.
            return root in told.places and told.places[root] > entry.place
        if wide.home[told.node] == wide.home[node]:
            # The two may have met again since: then one did not get what the other sent meanwhile.
            return self.home.are_together(life, n, (told.node, told.inc), self.leg_of(message))
        crossed = self.crossed.get(message)
        if crossed is not None:
            return NONE not in crossed and root in crossed and crossed[root] > entry.place
        return entry.place == wide.starts[root]

    def leg_of(self, message: int) -> int:
        """The leg of its sender in which it went out."""
        if message not in self._legs:
            told = self.wide.told[message]
            leg = NONE
            if told.sent != NONE:
                leg = self.home.sending_leg((told.node, told.inc), self.wide.rows[told.sent].n)
            self._legs[message] = leg
        return self._legs[message]


def crossing_places(wide: WideHistory) -> dict[int, dict[int, Place]]:
    """Of each message that came in anywhere, by root: the lowest place of its crossings.

    In a tree of more than two levels a crossing has a place at each, and these can't be compared: then none is known.
    """
    found: dict[int, dict[int, Place]] = {}
    if len({wide.tree.domains[leaf].upper for leaf in wide.tree.leaves}) != 1:
        return found
    for _, row in wide.others.get("in", ()):
        place = tuple(row.ts or ())
        root = wide.placed_in(place)
        for msg in row.members or ():
            places = found.setdefault(wide.message_index(msg), {})
            if root not in places or place < places[root]:
                places[root] = place
    return found
