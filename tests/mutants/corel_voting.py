"""Bugs planted in dynamic voting: in the rule, in what is kept of sessions, and in when it is written."""

from collections.abc import Collection
from typing import Any

from msgspec.structs import replace
from tests.mutants.corel_harness import log_forced, log_halved, log_lost, log_renumbered, log_shrinking
from tests.mutants.harness import Mutant, planting

from reconvene import voting
from reconvene.corel.after_sync import Report
from reconvene.corel.events import Established
from reconvene.corel.paper import plan
from reconvene.corel.paper.establishing import Establishing
from reconvene.corel.replicas.voting import Told, Voting
from reconvene.voting import Evidence, Kept, Session, Voters

__all__ = ["MUTANTS"]

MUTANTS: list[Mutant] = []
plant = planting(MUTANTS)

SPLIT = {
    "corel.dynamic.subquorum", "corel.3.6", "corel.agreed", "corel.yellow", "evs.primary.uniqueness",
    "evs.primary.continuity", "corel.phases", "ledger",
}  # fmt: skip
"""Two components go on from one."""


@plant(
    "live-sessions-ignored", Told, "evidence", "only the last established session counts", SPLIT, 17, log_shrinking
)
def _(evidence: Any) -> Any:
    return lambda self: Evidence(evidence(self).known, ())


@plant("session-not-persisted", Voting, "attempt", "a session is attempted and not written", SPLIT, 17, log_shrinking)
def _(attempt: Any) -> Any:
    def mutated(self: Voting, *arguments: Any) -> None:
        before = self._record.kept
        attempt(self, *arguments)
        self._record.kept = before

    return mutated


@plant(
    "established-at-commit",
    Voting,
    "commit",
    "a session is taken as established by who has only committed to it",
    SPLIT,
    1,
    log_shrinking,
)
def _(commit: Any) -> Any:
    return Voting.establish


@plant(
    "committed-counts-as-dead",
    voting,
    "_dead",
    "a session that a replica present committed to, but did not establish, counts as dead",
    SPLIT,
    17,
    log_shrinking,
)
def _(dead: Any) -> Any:
    return lambda session, told: any(number in told for number in session.numbers())


@plant(
    "half-without-the-lowest",
    Session,
    "sub_quorum",
    "half of a session is enough without its lowest number",
    SPLIT,
    5,
    log_halved,
)
def _(sub_quorum: Any) -> Any:
    def mutated(self: Session, present: Collection[int]) -> bool:
        return 2 * sum(weight for number, weight in self.members if number in present) >= sum(
            weight for _, weight in self.members
        )

    return mutated


@plant(
    "n-minus-minimum-inclusive",
    Voters,
    "escapes",
    "n - minimum replicas go on, though the others may have",
    SPLIT,
    4,
    log_shrinking,
)
def _(escapes: Any) -> Any:
    def mutated(self: Voters, present: Collection[int]) -> bool:
        here, size = len(self.numbers.intersection(present)), len(self.numbers)
        return here >= size - self.minimum and 2 * here > size

    return mutated


@plant(
    "greens-before-the-sync",
    Establishing,
    "_establish",
    "messages are final before the session is established on stable storage",
    {"corel.phases"},
    0,
    log_shrinking,
)
def _(establish: Any) -> Any:
    def mutated(self: Establishing, plan: Any) -> None:
        self._voting.establish()
        self._writes.touch()
        self._writes.after(Report((Established(self._primary, self.conf, tuple(sorted(plan.participants))),)))
        self._turn.start(self._turn_green())

    return mutated


@plant(
    "established-not-written-with-the-attempt",
    Voting,
    "attempt",
    "what the others know to be established is not written before READY",
    SPLIT,
    17,
    log_shrinking,
)
def _(attempt: Any) -> Any:
    def mutated(self: Voting, *arguments: Any) -> None:
        attempt(self, *arguments)
        told, kept = self.told, self._record.kept
        assert told is not None
        assert kept is not None
        own = told.kept.get(told.numbers[self._replicas._name])
        if own is not None:
            self._record.kept = Kept(own.established, kept.later)

    return mutated


@plant(
    "names-for-numbers",
    plan,
    "tell",
    "a site that was replaced counts for the replica that it was",
    SPLIT,
    3,
    log_renumbered,
)
def _(tell: Any) -> Any:
    def mutated(names: Any, replicas: Any, states: Any) -> Told:
        told: Told = tell(names, replicas, states)
        places = {name: place for place, name in enumerate(replicas.names())}
        kept = {places[name]: told.kept[number] for name, number in told.numbers.items() if number in told.kept}
        return replace(told, kept=kept, numbers={name: places[name] for name in told.numbers})

    return mutated


@plant(
    "a-stranger-as-witness",
    plan,
    "tell",
    "a storage that was begun anew counts as a member that did not commit",
    SPLIT,
    4,
    log_lost,
)
def _(tell: Any) -> Any:
    def mutated(names: Any, replicas: Any, states: Any) -> Told:
        every: Told = tell(states, replicas, {name: replace(one, admitted=True) for name, one in states.items()})
        return every

    return mutated


@plant(
    "pending-sets-ignored",
    Voting,
    "may_order",
    "only the set at the green line is asked, not the ones that pending changes would make",
    SPLIT,
    5,
    log_renumbered,
)
def _(may_order: Any) -> Any:
    def mutated(self: Voting, voters: Any) -> bool:
        return self.told is not None and self.told.may_order(self._replicas.set, voters)

    return mutated


@plant(
    "old-epochs-kept",
    Voting,
    "force",
    "sessions from before a forced change count after it",
    {"invariant", "ledger"},
    0,
    log_forced,
)
def _(force: Any) -> Any:
    return lambda self, replicas: None
