"""Whose turn each slot is: the sequences that a distribution's weights give rise to.

Given: positive integer weights by rank, their total bounded by the caller.
Promised: every slot has one owner, the same at all who ask; every rank owns slots without end, the next one at
a bounded distance; memory stays bounded however far the slots run.

`PseudoRandom` is the paper's (section 4.3, G_w): each slot falls to r with probability w[r]. `LowDiscrepancy` has
the same weights and spreads each rank's slots evenly, so that no run of slots owes much to anyone.
"""

from bisect import bisect_left, bisect_right
from itertools import accumulate
from math import gcd
from typing import Protocol

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
    """Slot i falls to whom the i-th number of a counter-based generator names, so that a slot's owner needs no
    history; blocks of slots are computed when first asked for, and the lowest are forgotten.

    Chance alone would bound no one's wait: of each `stretch` slots the first few go to each rank once.
    """

    __slots__ = ("_blocks", "_bounds", "_seed", "_stretch")

    BLOCK = 256
    KEPT = 64
    STRETCH = 64

    def __init__(self, weights: list[int], seed: tuple[int, int]) -> None:
        self._bounds = list(accumulate(weights))
        self._stretch = self.STRETCH * self._bounds[-1]
        self._seed = _mix((_mix(seed[0] & _MASK) + seed[1] * _GOLDEN) & _MASK)
        self._blocks: dict[int, list[list[int]]] = {}
        """Each rank's slots in a block."""

    def owner(self, slot: int) -> int:
        turn = slot % self._stretch
        if turn < len(self._bounds):
            return turn
        number = _mix((self._seed + (slot + 1) * _GOLDEN) & _MASK)
        return bisect_right(self._bounds, number * self._bounds[-1] >> 64)

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
            block = [[] for _ in self._bounds]
            for slot in range(index * self.BLOCK, (index + 1) * self.BLOCK):
                block[self.owner(slot)].append(slot)
            self._blocks[index] = block
            if len(self._blocks) > self.KEPT:
                del self._blocks[min(self._blocks)]  # the order has passed it; it can be computed again
        return block


def make_sequence(generator: str, weights: list[int], seed: tuple[int, int]) -> Sequence:
    match generator:
        case "low-discrepancy":
            return LowDiscrepancy(weights)
        case "pseudo-random":
            return PseudoRandom(weights, seed)
        case _:
            raise ValueError(f"unknown generator {generator!r}")
