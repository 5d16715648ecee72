"""Bugs planted in the log: in the order rule, the phases of establishing, the steps of recovery, and restarts."""

from collections import deque
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace
from tests.mutants.corel_harness import log_aborted, log_ambushed, log_busy, log_lone, log_of_four
from tests.mutants.harness import Mutant, planting

from reconvene import quorum
from reconvene.core.membership import hearing
from reconvene.corel import running
from reconvene.corel.messages import COMMIT, READY, Commit, Ready
from reconvene.corel.paper import plan, recovery
from reconvene.corel.paper.configuration import Configuration
from reconvene.corel.paper.establishing import Establishing
from reconvene.corel.paper.ordering import Ordering
from reconvene.corel.paper.phases import Phase
from reconvene.corel.paper.queue import Queue
from reconvene.corel.paper.recovery import Recovery
from reconvene.corel.paper.resending import RedExchange
from reconvene.corel.replicas import lineage
from reconvene.corel.replicas.voting import Voting
from reconvene.corel.turn_share import Step
from reconvene.trace.log_recorder import LogRecorder

__all__ = ["BY_HAND", "MUTANTS"]

MUTANTS: list[Mutant] = []
BY_HAND: list[Mutant] = []
"""A test of tests/paper or tests/corel has to catch these."""
plant = planting(MUTANTS)
plant_by_hand = planting(BY_HAND)

ORDER = {"corel.3.6", "corel.agreed"}
"""Replicas do not agree on the order."""
YELLOW = {*ORDER, "corel.yellow"}
LIVE = {"corel.3.8", "ledger"}


def _run(step: Iterable[object]) -> None:
    """Everything at once."""
    deque(step, maxlen=0)


# -- Order Rule 1


@plant(
    "green-on-one-ack-too-few",
    Ordering,
    "advance",
    "a message is green once all members but one have acknowledged it",
    YELLOW,
    0,
    log_ambushed,
)
def _(advance: Any) -> Any:
    def mutated(self: Ordering) -> None:
        slowest = min(self._acks, key=lambda name: self._acks[name])
        kept = self._acks[slowest]
        self._acks[slowest] = sorted(self._acks.values())[:2][-1]
        advance(self)
        self._acks[slowest] = kept

    return mutated


@plant(
    "acknowledged-before-the-sync",
    Ordering,
    "deliver",
    "a message is acknowledged when it is delivered, though it is not durable yet",
    {*YELLOW, "corel.green"},
    0,
    log_ambushed,
)
def _(deliver: Any) -> Any:
    def mutated(self: Ordering, *arguments: Any) -> None:
        deliver(self, *arguments)
        self.logged = self._delivered

    return mutated


@plant(
    "stale-acks-counted",
    Ordering,
    "__init__",
    "acknowledgements of the last primary component count in the next",
    YELLOW,
    0,
    log_busy,
)
def _(init: Any) -> Any:
    def mutated(
        self: Ordering, number: int, own: str, primary: int, participants: Any, *, queue: Any, **parts: Any
    ) -> None:
        init(self, number, own, primary, participants, queue=queue, **parts)
        before = queue.__dict__.get("last_acks", {})
        self._acks = {name: 0 if name == own else before.get(name, 0) for name in participants}
        if primary:
            queue.last_acks = self._acks

    return mutated


@plant(
    "primary-bit-kept-through-the-transitional-configuration",
    Ordering,
    "lose",
    "what is delivered in the transitional configuration is yellow too, and may become green",
    {*YELLOW, *LIVE, "corel.causal"},
    5,
    log_busy,
)
def _(lose: Any) -> Any:
    return lambda self: None


@plant(
    "yellow-in-a-minority",
    Ordering,
    "deliver",
    "messages outside of a primary component are logged yellow",
    {*YELLOW, "invariant"},
    7,
    log_ambushed,
)
def _(deliver: Any) -> Any:
    def mutated(self: Ordering, *arguments: Any) -> None:
        kept, self.primary = self.primary, self.primary or 1
        deliver(self, *arguments)
        self.primary = kept

    return mutated


# -- establishing


@plant(
    "attempt-not-persisted",
    Establishing,
    "attempt",
    "an attempt is sent, and its number is not written",
    {*YELLOW, "corel.phases", "evs.primary.uniqueness"},
    0,
    log_ambushed,
)
def _(attempt: Any) -> Any:
    def mutated(self: Establishing) -> None:
        writes = self._writes
        writes.touch = lambda: None  # type: ignore[method-assign]
        attempt(self)
        del writes.__dict__["touch"]

    return mutated


@plant(
    "commits-on-its-own-attempt",
    Establishing,
    "receive_ready",
    "it commits without the others' attempts",
    {*YELLOW, *LIVE, "evs.primary.uniqueness"},
    1,
    log_ambushed,
)
def _(receive_ready: Any) -> Any:
    def mutated(self: Establishing, sender: str, message: Any) -> None:
        if self.phase is Phase.ATTEMPT and sender == self._name:
            self._readys.update(dict.fromkeys(self.participants, message.primary))
        receive_ready(self, sender, message)

    return mutated


@plant(
    "commit-sent-before-the-sync",
    Establishing,
    "_turn_yellow",
    "the commit message does not wait for the write of what it says",
    YELLOW,
    0,
    log_ambushed,
)
def _(turn_yellow: Any) -> Any:
    def mutated(self: Establishing, plan: Any) -> Step:
        self._send_synced = self._outgoing.send  # type: ignore[method-assign]
        yield from turn_yellow(self, plan)
        del self.__dict__["_send_synced"]

    return mutated


@plant(
    "establishes-on-its-own-commit",
    Establishing,
    "receive_commit",
    "it makes all green without the others' commits",
    YELLOW,
    14,
    log_ambushed,
)
def _(receive_commit: Any) -> Any:
    def mutated(self: Establishing, sender: str, message: Any) -> None:
        if self.phase is Phase.COMMIT and sender == self._name:
            self._commits.update(self.participants)
        if self.phase is Phase.COMMIT:
            receive_commit(self, sender, message)

    return mutated


@plant(
    "red-before-yellow",
    Queue,
    "turn_yellow",
    "at a commit what was yellow is put among the red by timestamp",
    YELLOW,
    10,
    log_aborted,
)
def _(turn_yellow: Any) -> Any:
    def mutated(self: Queue) -> Any:
        _run(self.retreat(self.green))
        return turn_yellow(self)

    return mutated


@plant(
    "commit-written-by-halves",
    Establishing,
    "_turn_yellow",
    "a commit that takes several turns is written as far as it has come",
    {*YELLOW, "invariant"},
    0,
    log_ambushed,
)
def _(turn_yellow: Any) -> Any:
    def mutated(self: Establishing, plan: Any) -> Step:
        for _ in turn_yellow(self, plan):
            self._writes.held = False
            yield

    return mutated


@plant(
    "commits-without-an-attempt",
    Establishing,
    "attempt",
    "a site reports that it is ready, but attempts nothing",
    {"corel.phases"},
    0,
    log_ambushed,
)
def _(attempt: Any) -> Any:
    def mutated(self: Establishing) -> None:
        plan = self._planned()
        self._primary = plan.next_primary if self._voting.may_order(plan.participants) else 0
        self._outgoing.send(READY, Ready(self._primary))

    return mutated


@plant(
    "establishes-without-a-commit",
    Establishing,
    "_commit",
    "a site sends its commit, but writes nothing",
    {"corel.phases"},
    0,
    log_ambushed,
)
def _(commit: Any) -> Any:
    def mutated(self: Establishing, plan: Any) -> None:
        self.phase = Phase.COMMIT
        _run(self._queue.turn_yellow())
        self._outgoing.send(COMMIT, Commit(self._primary))

    return mutated


@plant(
    "phases-without-a-quorum",
    Voting,
    "may_order",
    "any component may become the primary one",
    {"corel.phases"},
    0,
    log_ambushed,
)
def _(may_order: Any) -> Any:
    return lambda self, names: True


@plant(
    "orders-without-establishing",
    Establishing,
    "_open",
    "where no primary component was established, messages are ordered as if there were one",
    {"corel.phases"},
    2,
    log_ambushed,
)
def _(open_: Any) -> Any:
    def mutated(self: Establishing, yellow: int = 0) -> None:
        self.phase = Phase.OPEN
        self._opened(self._primary or 1, yellow)

    return mutated


@plant(
    "half-is-a-quorum",
    quorum.Majority,
    "holds",
    "two of four sites may order",
    {*YELLOW, "evs.primary.uniqueness", "evs.primary.continuity"},
    10,
    log_of_four,
)
def _(holds: Any) -> Any:
    return lambda self, sites: 2 * len(self.sites.intersection(sites)) >= len(self.sites)


# -- recovery


@plant(
    "green-line-from-the-minimum",
    recovery,
    "make_plan",
    "step 3: the green line is the lowest of all",
    {"ledger"},
    0,
    log_lone,
)
def _(make_plan: Any) -> Any:
    def mutated(states: Any) -> Any:
        plan = make_plan(states)
        return plan and replace(plan, green=plan.start)

    return mutated


@plant(
    "yellow-line-not-retreated",
    Recovery,
    "_agree",
    "step 3: what is yellow at one representative alone stays yellow there",
    {*YELLOW, *LIVE},
    10,
    log_ambushed,
)
def _(agree: Any) -> Any:
    def mutated(self: Recovery, plan: Any) -> Step:
        yield from agree(self, replace(plan, yellow=self._queue.yellow_line))

    return mutated


@plant(
    "knows-what-it-attempted",
    recovery,
    "make_plan",
    "step 3: a site that attempted a primary component counts as knowing of it",
    YELLOW,
    25,
    log_ambushed,
)
def _(make_plan: Any) -> Any:
    def mutated(states: Any) -> Any:
        return make_plan(
            {
                name: replace(state, last_committed_primary=state.last_attempted_primary)
                for name, state in states.items()
            }
        )

    return mutated


@plant(
    "bodies-left-out",
    recovery,
    "make_plan",
    "step 5: only the header is sent of a message that some member has",
    LIVE,
    0,
    log_ambushed,
)
def _(make_plan: Any) -> Any:
    def mutated(states: Any) -> Any:
        plan = make_plan(states)
        return plan and replace(plan, stable=plan.union)

    return mutated


@plant(
    "representatives-order-ignored",
    Recovery,
    "_adopt",
    "step 5: the representative's yellow messages are put in the order of timestamps",
    YELLOW,
    2,
    log_aborted,
)
def _(adopt: Any) -> Any:
    def mutated(self: Recovery, plan: Any) -> Step:
        self._zone.sort(key=lambda placed: placed[2])
        yield from adopt(self, plan)

    return mutated


@plant_by_hand(
    "adopted-in-two-steps",
    Recovery,
    "_adopt",
    "step 6: the number is written first, the yellow zone with the next write",
    {"test_step_6_is_one_atomic_step"},
    0,
)
def _(adopt: Any) -> Any:
    def mutated(self: Recovery, plan: Any) -> Step:
        writes = self._writes
        before = len(writes.ops)
        yield from adopt(self, plan)
        later, writes.ops = writes.ops[before:], writes.ops[:before]
        begin = writes.begin

        def begin_first(*arguments: Any) -> Any:
            del writes.__dict__["begin"]
            begun = begin(*arguments)
            writes.ops.extend(later)
            return begun

        writes.begin = begin_first  # type: ignore[assignment,method-assign]

    return mutated


@plant(
    "retransmission-rule-ignored",
    RedExchange,
    "next",
    "step 7: every member sends its part at once",
    {"corel.causal", "corel.3.7"},
    1,
    log_ambushed,
)
def _(following: Any) -> Any:
    def mutated(self: RedExchange) -> Any:
        self._arrived.update(entry.heading.id for entry in self._walk)
        return following(self)

    return mutated


@plant(
    "union-with-min",
    recovery,
    "make_plan",
    "step 7: no member waits for messages that some members lack",
    {*YELLOW, *LIVE, "corel.causal"},
    28,
    log_ambushed,
)
def _(make_plan: Any) -> Any:
    def mutated(states: Any) -> Any:
        plan = make_plan(states)
        return plan and replace(plan, union=plan.stable)

    return mutated


@plant(
    "lowest-timestamp-not-kept",
    Recovery,
    "_settle_claims",
    "a message that was sent twice keeps a different timestamp at each site",
    {*ORDER, "ledger"},
    22,
    log_ambushed,
)
def _(settle_claims: Any) -> Any:
    return lambda self, plan: self._begin_reds()


@plant(
    "timestamps-of-its-own",
    Ordering,
    "deliver",
    "one site logs messages under timestamps that it made up",
    {"corel.ts"},
    0,
    log_ambushed,
)
def _(deliver: Any) -> Any:
    def mutated(self: Ordering, heading: Any, body: bytes, timestamp: Any, marked: bool) -> None:
        if self._name == min(self._participants):
            timestamp = (*timestamp[:-1], timestamp[-1] + 1)
        deliver(self, heading, body, timestamp, marked)

    return mutated


# -- restarts


@plant(
    "yellow-forgotten-in-a-restart",
    running,
    "fill",
    "what was yellow is red after a restart",
    {*YELLOW, "corel.3.2", "corel.green"},
    11,
    log_ambushed,
)
def _(fill: Any) -> Any:
    def mutated(queue: Queue, bodies: Any, tables: Any) -> None:
        fill(queue, bodies, tables)
        _run(queue.retreat(queue.green))

    return mutated


@plant(
    "accepted-forgotten-in-a-restart",
    Queue,
    "load_accepted",
    "messages that were accepted but not logged are forgotten",
    {"corel.3.2", "corel.3.8", "ledger"},
    0,
    log_ambushed,
)
def _(load_accepted: Any) -> Any:
    return lambda self, heading: None


@plant(
    "second-sending-not-marked",
    Queue,
    "load_accepted",
    "messages that may have been sent before are sent as if they were new",
    {*ORDER, "ledger"},
    20,
    log_ambushed,
)
def _(load_accepted: Any) -> Any:
    def mutated(self: Queue, heading: Any) -> None:
        load_accepted(self, heading)
        self.accepted[-1].marked = False

    return mutated


@plant(
    "recorded-as-an-earlier-incarnation",
    LogRecorder,
    "_row",
    "a restarted site records the events of its log under its first incarnation",
    {"evs.2.2"},
    0,
    log_ambushed,
)
def _(row: Any) -> Any:
    def mutated(self: LogRecorder, t: int, kind: str) -> Any:
        made = row(self, t, kind)
        made.inc = 1
        return made

    return mutated


@plant(
    "counters-used-again",
    Queue,
    "next_counter",
    "a message gets the counter after the last green one, though later ones wait",
    {"corel.3.2", "ledger", "invariant"},
    0,
    log_ambushed,
)
def _(next_counter: Any) -> Any:
    def mutated(self: Queue) -> int:
        if self.accepted:
            return next_counter(self)  # type: ignore[no-any-return]
        return self.last_green.get(-1 if self.own is None else self.own, 0) + 1

    return mutated


@plant(
    "accepted-in-recovery-not-sent",
    Configuration,
    "_opened",
    "what was accepted before the configuration was open is not sent in it",
    LIVE,
    0,
    log_ambushed,
)
def _(opened: Any) -> Any:
    def mutated(self: Configuration, primary: int, yellow: int) -> None:
        opened(self, primary, yellow)
        if self._queue.accepted:
            self._sent = self._queue.accepted[-1].heading.id

    return mutated


# -- too rare for random runs: a test of one of the paper's sentences catches it


@plant_by_hand(
    "empty-storages-vote",
    plan,
    "_voters",
    "an empty storage counts for a quorum as soon as its site is up",
    {"test_two_wiped_of_three_begin_no_second_log"},
    0,
)
def _(voters: Any) -> Any:
    return lambda participants, newest, states: participants


@plant_by_hand(
    "a-quorum-begins-a-log",
    plan,
    "_begins",
    "once the operator allows it, empty storages begin a log as soon as they are a quorum",
    {"test_with_begin_left_in_their_files_they_begin_none_either"},
    0,
)
def _(begins: Any) -> Any:
    def mutated(participants: Any, newest: Any, states: Any) -> bool:
        return newest.quorum_holds(participants) and all(states[name].begin is not None for name in participants)

    return mutated


@plant_by_hand(
    "own-messages-not-compared",
    lineage,
    "_own",
    "a replica that has forgotten its own messages is accepted as it was",
    {"test_messages_that_others_have"},
    0,
)
def _(own: Any) -> Any:
    return lambda state, other, number: None


@plant_by_hand(
    "acknowledgements-not-compared",
    lineage,
    "_ordered",
    "a replica that has forgotten what it acknowledged is accepted as it was",
    {"test_messages_of_others_that_it_had_acknowledged"},
    0,
)
def _(ordered: Any) -> Any:
    return lambda state, other: None


@plant_by_hand(
    "starts-not-compared",
    lineage,
    "_starts",
    "two starts with the same number count as one",
    {"test_the_same_number_of_starts"},
    0,
)
def _(starts: Any) -> Any:
    return lambda state, other, number: None


@plant_by_hand(
    "starts-not-compared-by-membership",
    hearing,
    "contradicts",
    "a site whose storage was replaced by an older copy is heard as before",
    {"test_a_site_that_was_put_back_is_not_heard"},
    0,
)
def _(contradicts: Any) -> Any:
    return lambda now, known: None


@plant_by_hand(
    "next-primary-without-max",
    recovery,
    "make_plan",
    "the next number is one above the last commit, not one above the highest attempt of any member",
    {"test_new_primary_is_one_above_the_last_attempt_of_anyone"},
    0,
)
def _(make_plan: Any) -> Any:
    def mutated(states: Any) -> Any:
        plan = make_plan(states)
        return plan and replace(plan, next_primary=plan.max_committed + 1)

    return mutated


@plant_by_hand(
    "own-yellow-kept",
    Queue,
    "adopt",
    "step 6: yellow messages that the representative lacks stay yellow, after its own",
    {"test_step_6_yellow_that_was_not_sent_again_is_red"},
    0,
)
def _(adopt: Any) -> Any:
    def mutated(self: Queue, zone: Any, adoption: Any) -> Any:
        wanted = {heading.id for heading, _, _, _ in zone}
        own = [
            (entry.heading, None, entry.timestamp, entry.marked)
            for entry in self.yellow
            if entry.heading.id not in wanted
        ]
        return adopt(self, zone + own, adoption)

    return mutated


@plant_by_hand(
    "last-committed-not-adopted",
    Recovery,
    "_adopt",
    "step 6: Last_Committed_Primary stays what it was",
    {"test_step_6_sets_last_committed_primary"},
    0,
)
def _(adopt: Any) -> Any:
    def mutated(self: Recovery, plan: Any) -> Step:
        record = self._record
        kept = record.last_committed_primary
        yield from adopt(self, plan)
        record.last_committed_primary = kept

    return mutated


@plant_by_hand(
    "state-told-before-the-sync",
    Recovery,
    "start",
    "a state message reports what is not durable yet",
    {"test_step_2_waits_for_all_state_messages"},
    0,
)
def _(start: Any) -> Any:
    return lambda self: self.send_state()
