"""Which old frames the sites of a transitional configuration send each other: steps 3 to 5 of the paper's section 3.

Pure functions of the exchanged states, so that every site with the same states decides the same.
"""

from bisect import bisect_left, bisect_right

from reconvene.wire.messages import State

__all__ = ["Exchange", "Recovery"]


class Exchange:
    """The members of one proposed configuration that come from the same regular one, and what each has of it."""

    def __init__(self, states: list[State], site: int) -> None:
        """`states`: of all sites that come from the same configuration as `site`, by ordinal."""
        self.states = states
        self.site = site
        self.members = tuple(state.site for state in states)
        """The proposed transitional configuration."""
        mine = next(state for state in states if state.site == site)
        self.old = tuple(mine.old)
        size = len(self.old)
        self._extras = {state.site: set(zip(state.extras[::2], state.extras[1::2], strict=True)) for state in states}
        prefix = [max(state.received[q] for state in states) for q in range(size)]
        self.union: set[tuple[int, int]] = set().union(*self._extras.values())
        """Frames (rank, number) that some of them have and others lack."""
        for q in range(size):
            low = min(state.received[q] for state in states)
            self.union.update((q, seq) for seq in range(low + 1, prefix[q] + 1))
        self.union = {frame for frame in self.union if not all(self.has(state, frame) for state in states)}
        self.lacking = {frame for frame in self.union if not self.has(mine, frame)}
        """The frames of the union that this site lacks."""
        self.duties = [frame for frame in sorted(self.union) if self.holder(frame) == site]
        """The frames that this site sends again, because it is the lowest site that has them."""

    def has(self, state: State, frame: tuple[int, int]) -> bool:
        q, seq = frame
        return state.received[q] >= seq or frame in self._extras[state.site]

    def holder(self, frame: tuple[int, int]) -> int:
        return next(state.site for state in self.states if self.has(state, frame))

    def clocks(self) -> list[int]:
        """The highest clock of each old member that any of them has counted."""
        return [max(column) for column in zip(*(state.clocks for state in self.states), strict=True)]

    def stable(self, closure: list[int]) -> list[int]:
        """Up to where all old members are known to have each old member's frames: from what the continuing members
        exchanged (`closure`), and from what any of them knew about the others."""
        size = len(self.old)
        rows: list[list[int]] = []
        for rank, site in enumerate(self.old):
            if site in self.members:
                rows.append(closure)
            else:
                rows.append([max(state.known[rank][q] for state in self.states) for q in range(size)])
        return [min(column) for column in zip(*rows, strict=True)]

    def obligations(self) -> int:
        """Step 5.c: the members of the transitional configuration and all that they are obligated to."""
        mask = 0
        for state in self.states:
            mask |= state.obligations | 1 << state.site
        return mask


class Recovery:
    """This site's part in one exchange: what it still lacks, and what it sends again to which sites."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.lacking = set(exchange.lacking)
        self._resent: dict[tuple[int, int, int], int] = {}

    def takes(self, frame: tuple[int, int]) -> bool:
        """A rebroadcast frame counts if it is one of the union that this site still lacks."""
        if frame not in self.lacking:
            return False
        self.lacking.discard(frame)
        return True

    def first(self) -> list[tuple[tuple[int, ...], tuple[int, int]]]:
        """(the sites that lack it, frame) for all that this site has to send again."""
        exchange = self.exchange
        return [
            (tuple(s.site for s in exchange.states if not exchange.has(s, frame)), frame) for frame in exchange.duties
        ]

    def repair(self, site: int, ranges: list[int], now: int, round_trip_ns: int) -> list[tuple[int, int]]:
        """What `site` still lacks of this site's duties and is not under way to it."""
        duties = self.exchange.duties
        wanted: set[tuple[int, int]] = set()
        for i in range(0, len(ranges) - 2, 3):
            rank, low, high = ranges[i : i + 3]
            wanted.update(duties[bisect_left(duties, (rank, low)) : bisect_right(duties, (rank, high))])
        return [
            frame for frame in sorted(wanted) if now - self._resent.get((site, *frame), -(1 << 62)) >= round_trip_ns
        ]

    def sent(self, site: int, frame: tuple[int, int], now: int) -> None:
        self._resent[site, *frame] = now

    def missing(self) -> list[int]:
        """What this site lacks, as ranges: rank, from, to …"""
        ranges: list[int] = []
        for rank, seq in sorted(self.lacking):
            if ranges and ranges[-3] == rank and ranges[-1] == seq - 1:
                ranges[-1] = seq
            elif len(ranges) >= 3 * 256:
                break
            else:
                ranges += (rank, seq, seq)
        return ranges

    def lacked_from(self) -> set[int]:
        return {self.exchange.holder(frame) for frame in self.lacking}
