"""Bugs planted in recovery between configurations, and in what happens to the outbox there."""

from typing import Any

from msgspec.structs import replace
from tests.mutants.directed import slow_leaver, slow_listener
from tests.mutants.harness import Mutant, planting

from reconvene.core.changes import Changes
from reconvene.core.evs.configuration import Configuration
from reconvene.core.evs.recovery import Exchange, Recovery
from reconvene.core.membership.round import Round
from reconvene.core.multicast.packing import Outbox
from reconvene.core.site import Site
from reconvene.ids import Service
from reconvene.wire.messages import Alive, Frame, Nack

__all__ = ["MUTANTS"]

MUTANTS: list[Mutant] = []
plant = planting(MUTANTS)


@plant(
    "frame-accepted-after-the-state",
    Site,
    "_receive_in_configuration",
    "frames are accepted directly though the state was already reported",
    {"evs.4", "evs.7.1"},
    31,
    slow_leaver,
)
def _(receive: Any) -> Any:
    def mutated(self: Site, datagram: Frame | Alive | Nack, *rest: Any) -> None:
        current = self._current
        frozen = current.frozen
        receive(self, datagram, *rest)
        if frozen and datagram.conf == current.number and isinstance(datagram, Frame):
            current.multicast.receive(datagram, self._last)

    return mutated


@plant(
    "clock-counted-after-the-state",
    Site,
    "_receive_in_configuration",
    "alive frames still count though the state was already reported",
    {"evs.4"},
    1,
    slow_listener,
)
def _(receive: Any) -> Any:
    def mutated(self: Site, datagram: Frame | Alive | Nack, *rest: Any) -> None:
        current = self._current
        frozen = current.frozen
        receive(self, datagram, *rest)
        if not frozen or datagram.conf != current.number or not isinstance(datagram, Alive):
            return
        if datagram.seq <= current.multicast.received[datagram.sender]:
            current.engine.heard(datagram.sender, datagram.clock)

    return mutated


@plant(
    "goes-on-after-the-state",
    Configuration,
    "freeze",
    "a configuration continues to send and deliver though the state was already reported",
    {"evs.3", "evs.4", "evs.7.1"},
    25,
)
def _(freeze: Any) -> Any:
    return lambda self: None


@plant(
    "nothing-exchanged",
    Recovery,
    "__init__",
    "a site continues without the frames that it lacks",
    {"evs.4", "evs.7.1"},
    4,
)
def _(init: Any) -> Any:
    def mutated(self: Recovery, exchange: Exchange) -> None:
        init(self, exchange)
        self.lacking = set()

    return mutated


@plant(
    "installs-before-all-have-recovered",
    Round,
    "all_recovered",
    "a configuration is installed when all but one have recovered",
    {"evs.4", "evs.7.1", "transis.uniformity"},
    10,
)
def _(all_recovered: Any) -> Any:
    return lambda self: (self.recovered & self.mask).bit_count() >= max(1, len(self.members) - 1)


@plant(
    "early-frame-taken-into-the-old-configuration",
    Changes,
    "receive_early",
    "a frame of the next configuration is delivered in this one",
    {"evs.1.3"},
    48,
)
def _(receive_early: Any) -> Any:
    def mutated(self: Changes, datagram: Frame | Alive | Nack, now: int) -> bool:
        current = self.current
        next_ = self.round.number if self.round is not None else -1
        if datagram.conf == next_ and isinstance(datagram, Frame) and datagram.sender < len(current.members):
            current.multicast.store(replace(datagram, conf=current.number))
        return bool(receive_early(self, datagram, now))

    return mutated


# -- the outbox


@plant(
    "sent-again-after-a-change",
    Site,
    "_install",
    "own messages that were not stable are sent again in the next configuration",
    {"evs.1.4"},
    3,
)
def _(install: Any) -> Any:
    def mutated(self: Site, configuration: Configuration) -> None:
        old = self._current
        install(self, configuration)
        kept = old.multicast._kept[old.rank]
        frames = [kept[seq] for seq in sorted(kept) if kept[seq].messages]
        if old is not configuration and frames and not any(frame.part for frame in frames):
            again = [(Service(frame.service), payload) for frame in frames for payload in frame.messages]
            self.outbox._queue.extendleft(reversed(again))
            self.outbox.bytes += sum(len(payload) + 5 for _, payload in again)
            self._counter = frames[0].first

    return mutated


@plant(
    "message-lost-at-a-change",
    Outbox,
    "restart",
    "the message whose turn it is when a configuration changes is dropped",
    {"content"},
    3,
)
def _(restart: Any) -> Any:
    def mutated(self: Outbox) -> None:
        restart(self)
        if self._queue:
            self.bytes -= len(self._queue.popleft()[1]) + 5

    return mutated


@plant(
    "fragments-resumed-after-a-change",
    Outbox,
    "restart",
    "a half-sent message continues in the next configuration where it stopped",
    {"content"},
    27,
)
def _(restart: Any) -> Any:
    return lambda self: None
