"""Which member owns each slot: the sequences that follow from a distribution's weights.

Given: positive integer weights by rank, their total bounded by the caller.
Promised: every slot has one owner, the same at every member. Every rank owns slots without end, the next one at
a bounded distance. Memory stays bounded however high the slots get.

`PseudoRandom` is the paper's (section 4.3, G_w): each slot falls to r with probability w[r]. `LowDiscrepancy` has
the same weights and spreads each rank's slots evenly.
"""

from bisect import bisect_left, bisect_right, insort
from math import gcd
from typing import ClassVar, Protocol

__all__ = ["LowDiscrepancy", "PseudoRandom", "Sequence", "make_sequence"]

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


class Sequence(Protocol):
    def owner(self, slot: int) -> int: ...

    def next_own(self, rank: int, above: int) -> int:
        """The first slot of this rank's above that slot (-1: the first of all)."""

    def after(self, rank: int, slot: int) -> int:
        """The next slot of this rank's after this one of its own; -1 if that one is not its own."""


class LowDiscrepancy:
    """A table that repeats: rank r's k-th slot of w[r] lies at (k + ½) / w[r] of the table's length, sorted."""

    __slots__ = ("_gaps", "_own", "_owners", "_total")

    def __init__(self, weights: list[int]) -> None:
        divisor = gcd(*weights)
        places = sorted(
            (((2 * k + 1) << 64) // share, rank)
            for rank, share in enumerate(weight // divisor for weight in weights)
            for k in range(share)
        )
        self._owners = [rank for _, rank in places]
        self._total = total = len(places)
        self._own: list[list[int]] = [[] for _ in weights]
        for offset, rank in enumerate(self._owners):
            self._own[rank].append(offset)
        self._gaps = [0] * total
        for own in self._own:
            for here, there in zip(own, [*own[1:], own[0] + total], strict=True):
                self._gaps[here] = there - here

    def owner(self, slot: int) -> int:
        return self._owners[slot % self._total]

    def next_own(self, rank: int, above: int) -> int:
        turn, offset = divmod(above + 1, self._total)
        own = self._own[rank]
        index = bisect_left(own, offset)
        if index == len(own):
            return (turn + 1) * self._total + own[0]
        return turn * self._total + own[index]

    def after(self, rank: int, slot: int) -> int:
        offset = slot % self._total
        return slot + self._gaps[offset] if self._owners[offset] == rank else -1


def _mix(value: int) -> int:
    """The output function of splitmix64."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _MASK
    return value ^ (value >> 31)


class PseudoRandom:
    """The i-th half of a counter-based generator's numbers decides the owner of slot i, so that a slot's owner needs
    no history; blocks of slots are computed when first asked for, and the lowest are forgotten.

    Chance alone would not bound the wait of any rank: the first slots of each block go to each rank once.
    """

    __slots__ = ("_blocks", "_members", "_owners", "_seed", "_stretch")

    BLOCK: ClassVar[int] = 256
    KEPT: ClassVar[int] = 64
    STRETCH: ClassVar[int] = 64

    def __init__(self, weights: list[int], seed: tuple[int, int]) -> None:
        self._members = len(weights)
        self._owners = [rank for rank, weight in enumerate(weights) for _ in range(weight)]
        self._stretch = self.STRETCH * len(self._owners)
        self._seed = _mix((_mix(seed[0] & _MASK) + seed[1] * _GOLDEN) & _MASK)
        self._blocks: dict[int, list[list[int]]] = {}
        """Each rank's slots in a block."""

    def owner(self, slot: int) -> int:
        for rank, own in enumerate(self._block(slot // self.BLOCK)):
            place = bisect_left(own, slot)
            if place < len(own) and own[place] == slot:
                return rank
        raise AssertionError("every slot has an owner")

    def next_own(self, rank: int, above: int) -> int:
        index = (above + 1) // self.BLOCK
        own = self._block(index)[rank]
        place = bisect_right(own, above)
        while place == len(own):
            index += 1
            own = self._block(index)[rank]
            place = 0
        return own[place]

    def after(self, rank: int, slot: int) -> int:
        own = self._block(slot // self.BLOCK)[rank]
        place = bisect_left(own, slot)
        if place == len(own) or own[place] != slot:
            return -1
        return own[place + 1] if place + 1 < len(own) else self.next_own(rank, slot)

    def _block(self, index: int) -> list[list[int]]:
        block = self._blocks.get(index)
        if block is None:
            self._blocks[index] = block = self._make_block(index * self.BLOCK)
            if len(self._blocks) > self.KEPT:
                del self._blocks[min(self._blocks)]  # the order has passed it; it can be computed again
        return block

    def _make_block(self, first: int) -> list[list[int]]:
        owners = self._owners
        total = len(owners)
        block: list[list[int]] = [[] for _ in range(self._members)]
        seed = self._seed
        for slot in range(first, first + self.BLOCK, 2):
            # splitmix64 once for two slots, written out: this is most of what a pseudo-random slot costs.
            number = (seed + (slot + 1) * _GOLDEN) & _MASK
            number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
            number = (number ^ (number >> 27)) * 0x94D049BB133111EB & _MASK
            number ^= number >> 31
            block[owners[(number >> 32) * total >> 32]].append(slot)
            block[owners[(number & 0xFFFFFFFF) * total >> 32]].append(slot + 1)
        start = -first % self._stretch
        if start < self.BLOCK or first % self._stretch < self._members:
            self._share_out(block, first)
        return block

    def _share_out(self, block: list[list[int]], first: int) -> None:
        for slot in range(first, first + self.BLOCK):
            rank = slot % self._stretch
            if rank < self._members:
                for own in block:
                    if slot in own:
                        own.remove(slot)
                insort(block[rank], slot)


def make_sequence(generator: str, weights: list[int], seed: tuple[int, int]) -> Sequence:
    match generator:
        case "low-discrepancy":
            return LowDiscrepancy(weights)
        case "pseudo-random":
            return PseudoRandom(weights, seed)
        case _:
            raise ValueError(f"unknown generator {generator!r}")
