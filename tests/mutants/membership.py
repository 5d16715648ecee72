"""Bugs planted in membership: numbers, proposals, hearing, hidden views."""

from typing import Any

from msgspec import msgpack
from msgspec.structs import replace
from tests.mutants.directed import dead_member, half_installed, stalled
from tests.mutants.harness import Mutant, planting

from reconvene.core import record as core_record
from reconvene.core.changes import Changes
from reconvene.core.effects import Changed, ConfKind
from reconvene.core.membership.gathering import Gathering, members_of
from reconvene.core.membership.hearing import Hearing
from reconvene.core.record import Record
from reconvene.ids import configuration_number, counter_of

__all__ = ["MUTANTS"]

MUTANTS: list[Mutant] = []
plant = planting(MUTANTS)

NUMBERS = {"evs.2.2", "evs.2.3", "evs.2.4", "transis.uniformity", "transis.same-order", "to.order"}


@plant(
    "answered-before-the-sync",
    Changes,
    "_begin",
    "a proposal is answered at once, so that a crash forgets its number",
    NUMBERS,
    21,
    stalled,
)
def _(begin: Any) -> Any:
    def mutated(
        self: Changes, number: int, proposer: int, members: tuple[int, ...], incarnations: tuple[int, ...], now: int
    ) -> None:
        begin(self, number, proposer, members, incarnations, now)
        assert self.round is not None
        self._answer(self.round, now)

    return mutated


@plant(
    "numbers-used-again-after-a-restart",
    core_record,
    "boot",
    "the highest number of the last incarnation is not kept",
    NUMBERS,
    4,
)
def _(boot: Any) -> Any:
    def mutated(stored: bytes | None, ordinal: int, token: int) -> bytes:
        """Without a token: with one, the others would notice and ignore the site."""
        record = msgpack.decode(boot(stored, ordinal), type=Record)
        return msgpack.encode(Record(record.incarnation, configuration_number(1, ordinal)))

    return mutated


@plant(
    "same-incarnation-after-a-restart",
    Changes,
    "__init__",
    "a restarted site uses its first incarnation again",
    {"evs.1.3", "evs.1.4", "content"},
    9,
)
def _(init: Any) -> Any:
    def mutated(self: Changes, site: int, sites: int, record: Record, *rest: Any) -> None:
        init(self, site, sites, Record(1, record.number), *rest)

    return mutated


@plant(
    "lower-number-answered",
    Changes,
    "receive_proposal",
    "a proposal is answered though its number is not above all answered before",
    NUMBERS,
    3,
)
def _(receive_proposal: Any) -> Any:
    def mutated(self: Changes, number: int, *rest: Any) -> None:
        answered = self.answered
        self.kept.answered = min(answered, number - 1)
        receive_proposal(self, number, *rest)
        if self.answered < number:
            self.kept.answered = answered

    return mutated


@plant(
    "number-not-raised",
    Changes,
    "_propose",
    "a proposal's number is not above the highest that was reported",
    NUMBERS | {"live.membership"},
    3,
)
def _(propose: Any) -> Any:
    def mutated(self: Changes, members: tuple[int, ...], now: int) -> None:
        number = configuration_number(counter_of(max(self.hearing.highest(), self.answered)), self.site)
        incarnations = tuple(self.hearing.incarnations[site] for site in members)
        self._begin(number, self.site, members, incarnations, now)

    return mutated


@plant(
    "hidden-view-not-reported",
    Changes,
    "_give_up",
    "a configuration that was agreed to but not installed is not reported",
    {"transis.uniformity"},
    24,
    half_installed,
)
def _(give_up: Any) -> Any:
    def mutated(self: Changes, reason: str, now: int) -> None:
        before = len(self._out.events)
        give_up(self, reason, now)
        del self._out.events[before:]

    return mutated


@plant(
    "hidden-view-reported-as-regular",
    Changes,
    "_give_up",
    "a configuration that failed to form is reported as if it had",
    {"evs.2.2", "evs.2.4"},
    3,
)
def _(give_up: Any) -> Any:
    def mutated(self: Changes, reason: str, now: int) -> None:
        before = len(self._out.events)
        give_up(self, reason, now)
        self._out.events[before:] = [
            Changed(ConfKind.REGULAR, event.conf, event.members)
            for event in self._out.events[before:]
            if isinstance(event, Changed)
        ]

    return mutated


@plant(
    "never-suspects",
    Hearing,
    "check",
    "a member that stays silent remains a member",
    {"live.membership"},
    0,
    dead_member,
)
def _(check: Any) -> Any:
    def mutated(self: Hearing, now: int) -> list[int]:
        hears = self.report.hears
        probes: list[int] = check(self, now)
        if self.report.hears != hears:
            self.report = self.reports[self.site] = replace(self.report, hears=hears)
        return probes

    return mutated


@plant(
    "gathering-never-ends",
    Gathering,
    "_hold_ns",
    "a gathering never proposes",
    {"live.membership"},
    3,
)
def _(hold_ns: Any) -> Any:
    return lambda self: 1 << 60


@plant(
    "left-out-for-ever",
    Hearing,
    "leave_out",
    "a site that did not answer in time is never admitted again",
    {"live.membership"},
    27,
)
def _(leave_out: Any) -> Any:
    def mutated(self: Hearing, site: int, now: int) -> None:
        leave_out(self, site, now)
        self._left_out_until[site] = 1 << 60

    return mutated


@plant(
    "foreign-sites-ignored",
    Changes,
    "_needs_change",
    "a configuration whose members are all connected admits no other site",
    {"live.membership"},
    3,
)
def _(needs_change: Any) -> Any:
    def mutated(self: Changes) -> bool:
        missing = set(self.current.members) - set(members_of(self.gathering.outlook.clique))
        return bool(needs_change(self)) and (self.current.frozen or bool(missing) or len(self.current.members) == 1)

    return mutated
