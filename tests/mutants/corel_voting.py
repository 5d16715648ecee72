"""Bugs planted in dynamic voting: in the rule, in what is kept of sessions, and in when it is written."""

from collections.abc import Collection
from typing import Any

from msgspec.structs import replace
from tests.mutants.corel_harness import log_dynamic
from tests.mutants.harness import Mutant, planting

from reconvene import voting
from reconvene.corel.events import Established
from reconvene.corel.paper.establishing import Establishing
from reconvene.corel.replicas import voting as replica_voting
from reconvene.corel.replicas.voting import Told, Voting
from reconvene.voting import Evidence, Kept, Session, Voters

__all__ = ["BY_HAND", "MUTANTS"]

MUTANTS: list[Mutant] = []
BY_HAND: list[Mutant] = []
"""tests/corel/replicas/test_dynamic.py has to catch these: too rare for random runs, or in need of changes of the
replicas and lost disks."""
plant = planting(MUTANTS)
plant_by_hand = planting(BY_HAND)

SPLIT = {
    "corel.dynamic.subquorum", "corel.3.6", "corel.agreed", "corel.yellow", "evs.primary.uniqueness",
    "evs.primary.continuity", "ledger",
}  # fmt: skip
"""Two components go on from one."""


@plant("live-sessions-ignored", Told, "evidence", "only the last established session counts", SPLIT, 29, log_dynamic)
def _(evidence: Any) -> Any:
    return lambda self: Evidence(evidence(self).known, ())


@plant("session-not-persisted", Voting, "attempt", "a session is attempted and not written", SPLIT, 29, log_dynamic)
def _(attempt: Any) -> Any:
    def mutated(self: Voting, *arguments: Any) -> None:
        before = self._record.kept
        attempt(self, *arguments)
        self._record.kept = before

    return mutated


@plant_by_hand(
    "established-at-commit",
    Voting,
    "commit",
    "a session is taken as established by who has only committed to it",
    {"test_a_commit_is_not_established"},
    0,
)
def _(commit: Any) -> Any:
    return Voting.establish


@plant(
    "committed-counts-as-dead",
    voting,
    "_dead",
    "a session that a replica present committed to, but did not establish, counts as dead",
    SPLIT,
    29,
    log_dynamic,
)
def _(dead: Any) -> Any:
    return lambda session, told: any(number in told for number in session.numbers())


@plant(
    "half-without-the-lowest",
    Session,
    "sub_quorum",
    "half of a session is enough without its lowest number",
    SPLIT,
    20,
    log_dynamic,
)
def _(sub_quorum: Any) -> Any:
    def mutated(self: Session, present: Collection[int]) -> bool:
        return 2 * sum(weight for number, weight in self.members if number in present) >= sum(
            weight for _, weight in self.members
        )

    return mutated


@plant_by_hand(
    "n-minus-minimum-inclusive",
    Voters,
    "escapes",
    "n - minimum replicas go on, though the others may have",
    {"test_it_goes_on_with_ever_fewer"},
    0,
)
def _(escapes: Any) -> Any:
    def mutated(self: Voters, present: Collection[int]) -> bool:
        here, size = len(self.numbers.intersection(present)), len(self.numbers)
        return here >= size - self.minimum and 2 * here > size

    return mutated


@plant_by_hand(
    "greens-before-the-sync",
    Establishing,
    "_establish",
    "messages are final before the session is established on stable storage",
    {"test_nothing_is_final_before_the_session_is_on_the_disk"},
    0,
)
def _(establish: Any) -> Any:
    def mutated(self: Establishing, plan: Any) -> None:
        self._voting.establish()
        self._writes.touch()
        self._turn.report(Established(self._primary, self.conf, tuple(sorted(plan.participants))))
        self._open(len(self._queue.yellow))
        opened: Any = self._opened
        opened.__self__.finalize()

    return mutated


@plant_by_hand(
    "established-not-written-with-the-attempt",
    Kept,
    "attempted",
    "what the others know to be established is not written before READY",
    {"test_what_is_established_is_written_with_the_attempt"},
    0,
)
def _(attempted: Any) -> Any:
    def mutated(self: Kept, session: Session, evidence: Evidence) -> Kept:
        return Kept(self.established, attempted(self, session, evidence).later)

    return mutated


# -- by hand


@plant_by_hand(
    "names-for-numbers",
    replica_voting,
    "tell",
    "a site that was replaced counts for the replica that it was",
    {"test_a_replaced_site_is_another_replica"},
    0,
)
def _(tell: Any) -> Any:
    def mutated(names: Any, replicas: Any, states: Any) -> Told:
        told: Told = tell(names, replicas, states)
        places = {name: place for place, name in enumerate(replicas.names())}
        kept = {places[name]: told.kept[number] for name, number in told.numbers.items() if number in told.kept}
        return replace(told, kept=kept, numbers={name: places[name] for name in told.numbers})

    return mutated


@plant_by_hand(
    "a-stranger-as-witness",
    replica_voting,
    "tell",
    "an empty storage counts as a member that did not commit",
    {"test_an_empty_storage_is_no_witness"},
    0,
)
def _(tell: Any) -> Any:
    def mutated(names: Any, replicas: Any, states: Any) -> Told:
        every: Told = tell(names, replicas, {name: replace(one, admitted=True) for name, one in states.items()})
        return every

    return mutated


@plant_by_hand(
    "pending-sets-ignored",
    Voting,
    "may_order",
    "only the set at the green line is asked, not the ones that pending changes would make",
    {"test_a_pending_change_has_to_be_allowed_too"},
    0,
)
def _(may_order: Any) -> Any:
    def mutated(self: Voting, voters: Any) -> bool:
        return self.told is not None and self.told.may_order(self._replicas.set, voters)

    return mutated


@plant_by_hand(
    "old-epochs-kept",
    Voting,
    "force",
    "sessions from before a forced change count after it",
    {"test_a_forced_set_is_the_established_session"},
    0,
)
def _(force: Any) -> Any:
    return lambda self, replicas: None
