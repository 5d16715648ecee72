"""Bugs planted in delivery and in step 6, the end of a configuration."""

from typing import Any

from msgspec.structs import replace
from tests.mutants.directed import slow_leaver, slow_listener
from tests.mutants.harness import Mutant, planting

from reconvene.core.effects import Changed, ConfKind
from reconvene.core.evs.configuration import Configuration
from reconvene.core.evs.delivery import Delivery
from reconvene.core.evs.recovery import Exchange
from reconvene.core.multicast.packing import LAST
from reconvene.ids import Service
from reconvene.wire.messages import Frame

__all__ = ["MUTANTS"]

MUTANTS: list[Mutant] = []
plant = planting(MUTANTS)


# -- delivery


@plant(
    "safe-one-ack-early",
    Delivery,
    "release",
    "a safe message is delivered when the one before it is safe",
    {"evs.7.1"},
    12,
)
def _(release: Any) -> Any:
    def mutated(self: Delivery, stable: list[int] | None) -> None:
        release(self, None if stable is None else [seq + 1 for seq in stable])

    return mutated


@plant(
    "safe-holds-nothing-back",
    Delivery,
    "release",
    "what follows a message that is not yet safe is delivered before it",
    {"to.order", "evs.6.1", "evs.6.2"},
    3,
)
def _(release: Any) -> Any:
    def mutated(self: Delivery, stable: list[int] | None) -> None:
        held: list[tuple[Any, Frame]] = self.__dict__.setdefault("held", [])
        ready: list[tuple[Any, Frame]] = []
        while (next_ := self.engine.peek()) is not None:
            self.engine.advance()
            ready.append(next_)
        now_or_later = [*held, *ready]
        held.clear()
        for key, frame in now_or_later:
            if stable is not None and frame.service == Service.SAFE and stable[frame.sender] < frame.seq:
                held.append((key, frame))
                continue
            self.position = max(self.position, key)
            self._ordered[frame.sender] = max(self._ordered[frame.sender], frame.seq)
            payloads = frame.messages
            if frame.part == LAST:
                payloads = [self._whole.pop((frame.sender, frame.seq))]
            self._deliver(frame, payloads, self.engine.timestamp(key))
            self._release_causal()

    return mutated


@plant(
    "causal-delivered-at-once",
    Delivery,
    "_precedence_holds",
    "a causal message waits for nothing that precedes it",
    {"evs.5"},
    3,
)
def _(holds: Any) -> Any:
    return lambda self, frame: True


@plant(
    "own-last-ordered-frame-ignored",
    Delivery,
    "_precedence_holds",
    "a causal message does not wait for the ordered ones that its sender sent before it",
    {"evs.5"},
    3,
)
def _(holds: Any) -> Any:
    return lambda self, frame: holds(self, replace(frame, own=0))


@plant(
    "after-ignored",
    Delivery,
    "_precedence_holds",
    "a causal message does not wait for the ordered ones that its sender had delivered",
    {"evs.5"},
    3,
)
def _(holds: Any) -> Any:
    return lambda self, frame: holds(self, replace(frame, after=[]))


@plant(
    "fifo-swapped",
    Delivery,
    "_deliver",
    "every other fifo frame of a sender is delivered after the one that follows it",
    {"evs.5"},
    3,
)
def _(deliver: Any) -> Any:
    def mutated(self: Delivery, frame: Frame, payloads: list[bytes], timestamp: tuple[int, ...] | None) -> None:
        late: dict[int, tuple[Frame, list[bytes]]] = self.__dict__.setdefault("late", {})
        if frame.service != Service.FIFO:
            deliver(self, frame, payloads, timestamp)
        elif frame.sender in late:
            deliver(self, frame, payloads, None)
            deliver(self, *late.pop(frame.sender), None)
        else:
            late[frame.sender] = (frame, payloads)

    return mutated


@plant(
    "fragments-out-of-order",
    Delivery,
    "take",
    "a message's last fragment is put before the others",
    {"content"},
    3,
)
def _(take: Any) -> Any:
    def mutated(self: Delivery, frame: Frame, now: int) -> None:
        if frame.part == LAST:
            pieces = self._pieces[frame.sender]
            *pieces[:], last = [*frame.messages, *pieces]
            frame = replace(frame, messages=[last])
        take(self, frame, now)

    return mutated


# -- step 6


@plant(
    "transitional-left-out",
    Configuration,
    "finish",
    "a new regular configuration follows the old one directly",
    {"evs.2.2"},
    3,
)
def _(finish: Any) -> Any:
    def mutated(self: Configuration, exchange: Exchange, following: int, now: int) -> None:
        finish(self, exchange, following, now)
        for event in list(self._events):
            if isinstance(event, Changed) and event.kind is ConfKind.TRANSITIONAL:
                self._events.remove(event)

    return mutated


@plant(
    "transitional-holds-those-who-left",
    Configuration,
    "finish",
    "a transitional configuration is reported with all members of the old one",
    {"evs.2.4"},
    3,
)
def _(finish: Any) -> Any:
    def mutated(self: Configuration, exchange: Exchange, following: int, now: int) -> None:
        members, exchange.members = exchange.members, exchange.old
        told = exchange.stable
        exchange.__dict__["stable"] = lambda closure: _with(exchange, "members", members, told, closure)
        finish(self, exchange, following, now)

    return mutated


def _with(exchange: Exchange, name: str, value: Any, function: Any, closure: list[int]) -> Any:
    """Calls a function of the exchange while one of its attributes has another value."""
    kept = getattr(exchange, name)
    setattr(exchange, name, value)
    try:
        return function(closure)
    finally:
        setattr(exchange, name, kept)


@plant(
    "obligation-ignored",
    Configuration,
    "finish",
    "step 6.a to the letter: messages of members that left, after the first gap in the order, are discarded",
    {"evs.7.1"},
    11,
)
def _(finish: Any) -> Any:
    def mutated(self: Configuration, exchange: Exchange, following: int, now: int) -> None:
        delivery = self.delivery

        def begin_transitional(conf: str) -> None:
            delivery.conf = conf
            delivery.release(None)
            self.engine.skip_empty()
            deliver = delivery._deliver

            def spare(frame: Frame, payloads: list[bytes], timestamp: tuple[int, ...] | None) -> None:
                if self.members[frame.sender] in exchange.members:
                    deliver(frame, payloads, timestamp)

            delivery.__dict__["_deliver"] = spare

        delivery.__dict__["begin_transitional"] = begin_transitional
        finish(self, exchange, following, now)

    return mutated


@plant(
    "own-messages-skipped-at-a-change",
    Configuration,
    "finish",
    "a site does not deliver its own messages in the transitional configuration",
    {"evs.3"},
    3,
)
def _(finish: Any) -> Any:
    def mutated(self: Configuration, exchange: Exchange, following: int, now: int) -> None:
        delivery, deliver, regular = self.delivery, self.delivery._deliver, self.id

        def skip(frame: Frame, payloads: list[bytes], timestamp: tuple[int, ...] | None) -> None:
            if frame.sender != self.rank or delivery.conf == regular:
                deliver(frame, payloads, timestamp)

        delivery.__dict__["_deliver"] = skip
        finish(self, exchange, following, now)

    return mutated


@plant(
    "merged-known-ignored",
    Exchange,
    "stable",
    "each site draws the line between regular and transitional by the acks that it alone has seen",
    {"evs.4"},
    0,
    slow_leaver,
)
def _(stable: Any) -> Any:
    def mutated(self: Exchange, closure: list[int]) -> Any:
        mine = [state for state in self.states if state.site == self.site]
        return _with(self, "states", mine, lambda closure: stable(self, closure), closure)

    return mutated


@plant(
    "merged-clocks-ignored",
    Exchange,
    "clocks",
    "each site drains the order by the clocks that it alone has counted",
    {"evs.4"},
    0,
    slow_listener,
)
def _(clocks: Any) -> Any:
    return lambda self: next(list(state.clocks) for state in self.states if state.site == self.site)


@plant(
    "those-who-left-count-as-having",
    Exchange,
    "stable",
    "messages that the remaining members have exchanged count as received by those that left too",
    {"evs.7.1"},
    10,
)
def _(stable: Any) -> Any:
    return lambda self, closure: list(closure)
