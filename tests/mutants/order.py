"""Bugs planted in the order engines."""

from heapq import heapify
from typing import Any

from tests.mutants.directed import shifting, slow_leaver
from tests.mutants.harness import Mutant, planting

from reconvene.core.effects import Delivered
from reconvene.core.evs.delivery import Delivery
from reconvene.core.order.all_ack import AllAck
from reconvene.core.order.atop import Atop
from reconvene.core.order.engine import Stamp
from reconvene.wire.messages import Frame

__all__ = ["MUTANTS"]

MUTANTS: list[Mutant] = []
plant = planting(MUTANTS)

ORDER = {"evs.6.1", "evs.6.2", "evs.6.3", "to.order"}


@plant(
    "slot-skipped-at-one-site",
    Atop,
    "_horizon",
    "the first member does not wait for the lowest place",
    ORDER,
    42,
)
def _(horizon: Any) -> Any:
    return lambda self: sorted(self._places)[1] if self.rank == 0 and len(self._places) > 1 else horizon(self)


@plant(
    "distribution-switched-too-early",
    Atop,
    "_horizon",
    "the first member does not wait for members that have not adopted the new distribution",
    ORDER,
    0,
    shifting,
)
def _(horizon: Any) -> Any:
    def mutated(self: Atop) -> int:
        if self.rank:
            return int(horizon(self))
        newest = max(self._tags)
        return min(place for place, tag in zip(self._places, self._tags, strict=True) if tag == newest)

    return mutated


@plant(
    "pass-skips-a-used-slot",
    Atop,
    "_pass",
    "the first member extends a pass too far, and drops what is sent in those slots",
    {"evs.4", "evs.6.3", "evs.7.1", "live.delivery"},
    48,
)
def _(pass_: Any) -> Any:
    def mutated(self: Atop, frame: Frame, passes: int) -> None:
        further = 2 * len(self._places) if self.rank == 0 and frame.sender != self.rank else 0
        pass_(self, frame, passes + further)

    return mutated


@plant(
    "slot-used-twice",
    Atop,
    "stamp",
    "every seventh frame is given the slot of the one before it",
    {"evs.3", "to.unique", "live.delivery"},
    0,
)
def _(stamp: Any) -> Any:
    used: dict[int, list[Stamp]] = {}

    def mutated(self: Atop, clock: int, now: int) -> Stamp:
        stamps = used.setdefault(id(self), [])
        stamps.append(stamps[-1] if len(stamps) % 7 == 6 else stamp(self, clock, now))
        return stamps[-1]

    return mutated


@plant(
    "discards-after-the-first-gap-atop",
    Atop,
    "_skip",
    "messages after an empty slot are not delivered in the transitional configuration either",
    {"evs.3", "evs.7.1"},
    48,
)
def _(skip: Any) -> Any:
    return lambda self: False


@plant(
    "discards-after-the-first-gap-all-ack",
    AllAck,
    "_skip",
    "messages after an unconfirmed clock are not delivered in the transitional configuration either",
    {"evs.3", "evs.7.1"},
    3,
)
def _(skip: Any) -> Any:
    return lambda self: False


@plant(
    "clock-of-one-member-ignored",
    AllAck,
    "_horizon",
    "the order does not wait for the member with the lowest clock",
    ORDER | {"evs.4", "live.delivery"},
    3,
)
def _(horizon: Any) -> Any:
    return lambda self: sorted(self._clocks)[1] if len(self._clocks) > 1 else horizon(self)


@plant(
    "own-clock-ignored",
    AllAck,
    "_horizon",
    "a site orders by a clock of its own that it has not announced",
    {"evs.4"},
    13,
    slow_leaver,
)
def _(horizon: Any) -> Any:
    def mutated(self: AllAck) -> int:
        others = [clock for rank, clock in enumerate(self._clocks) if rank != self.rank]
        return min(others) if others else int(horizon(self))

    return mutated


@plant(
    "tie-broken-by-arrival",
    AllAck,
    "receive",
    "of two frames with one clock, the one that came first is first",
    ORDER | {"to.same", "to.unique"},
    3,
)
def _(receive: Any) -> Any:
    def mutated(self: AllAck, frame: Frame, now: int) -> None:
        receive(self, frame, now)
        tied = [entry for entry in self._pending if entry[0] == frame.clock]
        if len(tied) > 1:
            arrived = sorted(tied, key=lambda entry: entry[2] is frame)
            ranks = sorted(rank for _, rank, _ in tied)
            kept = [entry for entry in self._pending if entry[0] != frame.clock]
            self._pending[:] = kept + [
                (clock, rank, first) for rank, (clock, _, first) in zip(ranks, arrived, strict=True)
            ]
            heapify(self._pending)

    return mutated


@plant(
    "timestamp-of-another-frame",
    Delivery,
    "_deliver",
    "an ordered frame is delivered with the timestamp of the one before it",
    {"to.unique", "to.same"},
    3,
)
def _(deliver: Any) -> Any:
    def mutated(self: Delivery, frame: Frame, payloads: list[bytes], timestamp: tuple[int, ...] | None) -> None:
        if timestamp is not None:
            before = [event for event in self._events if isinstance(event, Delivered) and event.timestamp]
            if before:
                timestamp = before[-1].timestamp
        deliver(self, frame, payloads, timestamp)

    return mutated
