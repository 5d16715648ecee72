"""Bugs planted in multicast: acks, alive frames, repair, stability."""

from typing import Any

from msgspec.structs import replace
from tests.mutants.harness import Mutant, planting

from reconvene.core.multicast.multicast import Multicast
from reconvene.wire.messages import Alive, Frame, Nack

__all__ = ["MUTANTS"]

MUTANTS: list[Mutant] = []
plant = planting(MUTANTS)

Out = list[tuple[int | None, Alive | Nack]]


@plant(
    "stability-without-one-member",
    Multicast,
    "settle",
    "what all but one member have counts as stable",
    {"evs.7.1"},
    3,
)
def _(settle: Any) -> Any:
    def mutated(self: Multicast, now: int) -> bool:
        if self.size == 1:
            return bool(settle(self, now))
        left_out = -1 if self.rank != self.size - 1 else 0
        row = self.known[left_out]
        self.known[left_out] = self.received.copy()
        try:
            return bool(settle(self, now))
        finally:
            self.known[left_out] = row

    return mutated


@plant(
    "acks-counted-twice",
    Multicast,
    "_count",
    "an alive frame's acks count for one frame more than it names",
    {"evs.7.1"},
    4,
)
def _(count: Any) -> Any:
    def mutated(self: Multicast, alive: Alive, now: int) -> None:
        acks = [max(ack, min(ack + 1, mine)) for ack, mine in zip(alive.acks, self.received, strict=True)]
        count(self, replace(alive, acks=acks), now)

    return mutated


@plant(
    "ack-of-a-frame-not-accepted",
    Multicast,
    "turn",
    "alive frames acknowledge frames after a gap",
    {"evs.7.1", "evs.4", "live.delivery"},
    49,
)
def _(turn: Any) -> Any:
    def mutated(self: Multicast, now: int, wanted: bool) -> Out:
        out: Out = turn(self, now, wanted)
        for _, datagram in out:
            if isinstance(datagram, Alive):
                for q, seq in self.extras():
                    datagram.acks[q] = max(datagram.acks[q], seq)
        return out

    return mutated


@plant(
    "alive-frame-overtakes",
    Multicast,
    "hear",
    "an alive frame counts though frames before it are missing",
    {"evs.4", "evs.6.3", "to.order", "live.delivery"},
    3,
)
def _(hear: Any) -> Any:
    def mutated(self: Multicast, alive: Alive, now: int) -> None:
        hear(self, alive, now)
        if alive.sender < self.size and self._waiting[alive.sender] is alive:
            self._waiting[alive.sender] = None
            self._count(alive, now)

    return mutated


@plant(
    "alive-frame-shortens-acks",
    Multicast,
    "turn",
    "acks that an alive frame carried, which may be lost, are left out of the next frame",
    {"evs.5", "evs.4"},
    1,
)
def _(turn: Any) -> Any:
    def mutated(self: Multicast, now: int, wanted: bool) -> Out:
        out: Out = turn(self, now, wanted)
        if any(isinstance(datagram, Alive) for _, datagram in out):
            self._told = self.received.copy()
        return out

    return mutated


@plant(
    "acks-left-out",
    Multicast,
    "compose",
    "frames carry no acks at all",
    {"evs.5"},
    10,
)
def _(compose: Any) -> Any:
    def mutated(self: Multicast, frame: Frame, size: int, full: bool, now: int) -> None:
        self._told = self.received.copy()
        compose(self, frame, size, full, now)

    return mutated


@plant(
    "never-nacks",
    Multicast,
    "_due_nacks",
    "a site never asks for missing frames",
    {"live.membership", "live.delivery"},
    3,
)
def _(due_nacks: Any) -> Any:
    def mutated(self: Multicast, now: int) -> list[tuple[int, Nack]]:
        due_nacks(self, now)
        return []

    return mutated


@plant(
    "never-asks",
    Multicast,
    "_asks",
    "a sender never asks for acks, so no site notices that the last frame is lost",
    {"live.membership", "live.delivery"},
    8,
)
def _(asks: Any) -> Any:
    return lambda self, now: False


@plant(
    "resends-another-frame",
    Multicast,
    "answer",
    "a nack is answered with the sender's newest frame",
    {"live.membership", "live.delivery"},
    1,
)
def _(answer: Any) -> Any:
    def mutated(self: Multicast, nack: Nack, now: int) -> list[Frame]:
        return [self._kept[frame.sender][max(self._kept[frame.sender])] for frame in answer(self, nack, now)]

    return mutated


@plant(
    "resends-other-content",
    Multicast,
    "answer",
    "a frame is sent again with the messages of a later one",
    {"evs.1.4", "content"},
    35,
)
def _(answer: Any) -> Any:
    def mutated(self: Multicast, nack: Nack, now: int) -> list[Frame]:
        frames: list[Frame] = []
        for frame in answer(self, nack, now):
            later = self._kept[frame.sender][max(self._kept[frame.sender])]
            if (later.service, later.part) == (frame.service, frame.part) and frame.messages and later.messages:
                frame = replace(frame, first=later.first, messages=later.messages)
            frames.append(frame)
        return frames

    return mutated


@plant(
    "duplicates-accepted",
    Multicast,
    "receive",
    "a frame that arrives twice is delivered twice",
    {"evs.1.4"},
    3,
)
def _(receive: Any) -> Any:
    def mutated(self: Multicast, frame: Frame, now: int) -> None:
        if frame.sender < self.size and frame.seq <= self.received[frame.sender]:
            self.accepted.append(frame)
        receive(self, frame, now)

    return mutated


@plant(
    "accepted-before-its-past",
    Multicast,
    "_complete",
    "a frame does not wait for those that its acks name",
    {"evs.5", "evs.1.1"},
    49,
)
def _(complete: Any) -> Any:
    return lambda self, frame: True


@plant(
    "gap-skipped",
    Multicast,
    "receive",
    "a frame does not wait for its sender's earlier ones",
    {"evs.4", "evs.5"},
    3,
)
def _(receive: Any) -> Any:
    def mutated(self: Multicast, frame: Frame, now: int) -> None:
        receive(self, frame, now)
        if self._early[frame.sender].get(frame.seq) is frame and self._complete(frame):
            del self._early[frame.sender][frame.seq]
            self._held -= 1
            self._accept(frame, now)

    return mutated


@plant(
    "forgets-too-early",
    Multicast,
    "settle",
    "frames are forgotten as soon as all but one member have them",
    {"KeyError", "invariant"},
    3,
)
def _(settle: Any) -> Any:
    def mutated(self: Multicast, now: int) -> bool:
        settled = bool(settle(self, now))
        if self.size > 2:
            for q in range(self.size):
                most = sorted(row[q] for row in self.known)[1]
                for seq in [seq for seq in self._kept[q] if seq <= most]:
                    del self._kept[q][seq]
        return settled

    return mutated


@plant(
    "clock-stands-still",
    Multicast,
    "_accept",
    "a frame that is accepted does not raise this site's clock",
    {"live.delivery", "storm"},
    47,
)
def _(accept: Any) -> Any:
    def mutated(self: Multicast, frame: Frame, now: int) -> None:
        clock = self.clock
        accept(self, frame, now)
        self.clock = clock

    return mutated


@plant(
    "accepts-what-nobody-can-complete",
    Multicast,
    "accept_stored",
    "step 6.a discards nothing, not even messages that depend on frames that no member has",
    {"evs.5", "evs.1.1"},
    39,
)
def _(accept_stored: Any) -> Any:
    def mutated(self: Multicast, now: int) -> None:
        accept_stored(self, now)
        for q, seq in self.extras():
            self._held -= 1
            self._accept(self._early[q].pop(seq), now)

    return mutated
