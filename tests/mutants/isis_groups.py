"""Bugs planted in GBCAST, changes of the site view, site views and state transfer (4.3.3, 4.2, 3.7)."""

from collections.abc import Iterator
from typing import Any

from tests.mutants.harness import Mutant, planting
from tests.mutants.isis_scenarios import (
    crossing,
    cut_off,
    departures,
    growing,
    losing,
    parting,
    parting_amid_gbcasts,
    transfers,
)

from reconvene.core.effects import Changed, ConfKind, Used
from reconvene.isis import labels
from reconvene.isis.change import Change
from reconvene.isis.delivery import Delivery
from reconvene.isis.events import CastId
from reconvene.isis.gbcast import Gbcasts
from reconvene.isis.here import Born, Here
from reconvene.isis.isis import Isis
from reconvene.isis.local import Local, Outcome
from reconvene.isis.messages import AttemptId, FlushedSite, Priority
from reconvene.isis.pool import Pool
from reconvene.isis.rounds import Round
from reconvene.isis.site_views import SiteViews
from reconvene.isis.state import StateTransfers
from reconvene.isis.table import OpenGbcast, Table

__all__ = ["MUTANTS"]

MUTANTS: list[Mutant] = []
plant = planting(MUTANTS)

SIDES = {"isis.gbcast"}
LIVE = {"isis.live", "isis.atomic"}


# -- GBCAST


@plant(
    "before-by-label",
    Gbcasts,
    "open_gates",
    "step 4.1 to the letter: what has a label below that of a cast that comes first comes first too",
    SIDES,
    3,
    growing,
)
def _(open_gates: Any) -> Any:
    def mutated(
        self: Gbcasts,
        number: int,
        outcome: Outcome,
        barrier: Priority,
        before: frozenset[AttemptId],
        cast_id: CastId | None,
    ) -> None:
        first = [entry.label for entry in self._pool.entries.values() if entry.key in before]
        below = {
            entry.key
            for local in self._delivery.locals.values()
            for entry in local.waiting
            if any(labels.at_most(entry.label, label) for label in first)
        }
        open_gates(self, number, outcome, barrier, before | below, cast_id)

    return mutated


@plant(
    "en-route-not-pushed",
    Gbcasts,
    "_add_causes",
    "what only passed through a site does not come first, though what follows it does",
    {*SIDES, *LIVE},
    1,
    growing,
)
def _(add_causes: Any) -> Any:
    return lambda self, found, entry: None


@plant(
    "ready-before-arrived",
    Gbcasts,
    "_push",
    "a site says that it is ready before what its members have received is everywhere",
    SIDES,
    3,
    crossing,
)
def _(push: Any) -> Any:
    def mutated(self: Gbcasts, round_: Round, gated: list[Local]) -> Any:
        pushes, casts = push(self, round_, gated)
        pushes._records.clear()
        return pushes, casts

    return mutated


@plant(
    "ready-before-an-earlier-gbcast",
    Gbcasts,
    "_early",
    "a site says that it is ready though an earlier GBCAST stands in front of its members",
    {*SIDES, *LIVE},
    0,
    growing,
)
def _(early: Any) -> Any:
    return lambda self: set()


@plant(
    "originated-left-out",
    Gbcasts,
    "_push",
    "what a site's own members have cast is left out of what comes first",
    {*SIDES, "isis.members"},
    0,
    crossing,
)
def _(push: Any) -> Any:
    def mutated(self: Gbcasts, round_: Round, gated: list[Local]) -> Any:
        pushes, casts = push(self, round_, gated)
        return pushes, [cast for cast in casts if cast.site != self._here.site]

    return mutated


@plant(
    "barrier-in-known-labels-only",
    Delivery,
    "_deliver_ordered",
    "a gate holds back only the labels of which it has seen something",
    SIDES,
    0,
    growing,
)
def _(deliver_ordered: Any) -> Any:
    def mutated(self: Delivery, local: Local) -> bool:
        limit = local.limit()
        moved = bool(deliver_ordered(self, local))
        if limit is not None:
            unknown = {
                label: queue
                for label, queue in local.queues.items()
                if not any(item.priority < limit for item in queue)
            }
            known = {label: queue for label, queue in local.queues.items() if label not in unknown}
            local.queues, local.limit = unknown, lambda: None  # type: ignore[method-assign]
            moved = bool(deliver_ordered(self, local)) or moved
            local.queues |= known
            del local.limit
        return moved

    return mutated


@plant(
    "newcomers-site-not-asked",
    Table,
    "sites",
    "a join is concluded without the newcomer's site",
    {*SIDES, "isis.members", "isis.causal"},
    0,
    growing,
)
def _(sites: Any) -> Any:
    def mutated(self: Table, gbcast: OpenGbcast) -> set[int]:
        members = self.groups[gbcast.action.group].ranked
        return {member.process.site for member in members} or sites(self, gbcast)

    return mutated


@plant(
    "no-lock-while-growing",
    Local,
    "locked",
    "members go on casting in a view that is about to have a new member",
    {"isis.members", "isis.reject"},
    0,
    growing,
)
def _(locked: Any) -> Any:
    return lambda self, group: group in self.groups and self.groups[group].transfer


@plant(
    "rank-applied-on-announcement",
    Gbcasts,
    "take_announce",
    "a change of rank is concluded where it is announced",
    {*SIDES, "isis.views"},
    6,
    growing,
)
def _(take_announce: Any) -> Any:
    def mutated(self: Gbcasts, actions: Any) -> None:
        take_announce(self, actions)
        for gbcast in list(self._table.open):
            if gbcast.action.kind == "rank" and self._table.groups[gbcast.action.group].open[0] is gbcast:
                self.conclude(gbcast, (0, 0), frozenset())

    return mutated


@plant(
    "own-members-first",
    Gbcasts,
    "open_gates",
    "each site shows its own processes before the others in a view's ranks",
    {"isis.views"},
    0,
    growing,
)
def _(open_gates: Any) -> Any:
    def mutated(self: Gbcasts, number: int, outcome: Outcome, *rest: Any) -> None:
        outcome.ranked = tuple(sorted(outcome.ranked, key=lambda member: member.process.site != self._here.site))
        open_gates(self, number, outcome, *rest)

    return mutated


# -- a change of the site view


@plant(
    "departed-sender-not-flushed",
    Pool,
    "of_departed",
    "casts of a lost site are not sent on to their other destinations",
    {"isis.atomic", "isis.extended", "isis.causal"},
    0,
    departures,
)
def _(of_departed: Any) -> Any:
    return lambda self: iter(())


@plant(
    "failure-view-before-flushed",
    Change,
    "begin",
    "each site shows the failure of lost sites' processes as soon as it adopts the site view",
    {"isis.failure", *SIDES},
    1,
    losing,
)
def _(begin: Any) -> Any:
    def mutated(self: Change, view: int, heirs: Any) -> None:
        begin(self, view, heirs)
        self._heirs = frozenset((self._here.site,))
        self._flushed = {self._here.site: FlushedSite(view, self._here.priority(), [])}
        self.conclude()

    return mutated


@plant(
    "one-flushed-too-few",
    Change,
    "conclude",
    "a change is concluded when all sites but one have said that they are done",
    {"isis.failure", *SIDES, "isis.atomic", "isis.causal", "isis.abcast"},
    8,
    losing,
)
def _(conclude: Any) -> Any:
    def mutated(self: Change) -> None:
        if self._flushed and len(self._heirs - self._flushed.keys()) == 1:
            self._heirs &= self._flushed.keys()
        conclude(self)

    return mutated


# -- site views


@plant(
    "killed-site-keeps-its-numbers",
    SiteViews,
    "_born_anew",
    "a site that the others went on without comes back under its old born",
    {"isis.sites", "invariant"},
    0,
    parting,
)
def _(born_anew: Any) -> Any:
    def mutated(self: SiteViews, number: int, what: Any) -> Born:
        return Born(what.born or number, what.incarnation, what.casts, what.processes)

    return mutated


@plant(
    "dead-incarnation-accepted",
    Here,
    "knows",
    "a cast of a site's last life counts as one of its present life",
    {"isis.failure", "isis.once", "isis.atomic", "isis.live"},
    9,
    losing,
)
def _(knows: Any) -> Any:
    return lambda self, cast_id: self.alive(cast_id.site)


@plant(
    "minority-adopts",
    SiteViews,
    "take",
    "a site adopts a configuration without a quorum",
    {"isis.sites"},
    0,
    cut_off,
)
def _(take: Any) -> Any:
    def mutated(self: SiteViews, event: Any) -> Iterator[Any]:
        if (
            isinstance(event, Changed)
            and event.kind is ConfKind.REGULAR
            and event.sites is not None
            and not event.sites.primary(event.members)
        ):
            event = Used(self._line.number + 1, event.conf, event.members, event.members, None)
        yield from take(self, event)

    return mutated


@plant(
    "flush-ends-on-suspicion",
    Isis,
    "take",
    "a flush does not wait for sites that are suspected",
    {"isis.flush"},
    7,
    cut_off,
)
def _(take: Any) -> Any:
    def mutated(self: Isis, events: Any, now: int) -> None:
        for event in events:
            view = self.here.view
            if view is not None and isinstance(event, Changed) and event.kind is ConfKind.TRANSITIONAL:
                self.own.depart(view.members.keys() - set(event.members))
                self.processes.serve()
            take(self, [event], now)

    return mutated


@plant(
    "transitional-applied-at-once",
    Isis,
    "take",
    "a site acts on what it hears in a transitional configuration before the next one is used",
    {"isis.views", *SIDES, "isis.failure"},
    5,
    parting_amid_gbcasts,
)
def _(take: Any) -> Any:
    def mutated(self: Isis, events: Any, now: int) -> None:
        for event in events:
            if not isinstance(event, Changed) or event.kind is not ConfKind.TRANSITIONAL:
                take(self, [event], now)
                self.work()

    return mutated


# -- state


@plant(
    "transfer-not-held",
    Local,
    "locked",
    "a newcomer casts to its group before it has the group's state",
    {"isis.state"},
    0,
    transfers,
)
def _(locked: Any) -> Any:
    return lambda self, group: any(gate.locks and gate.group == group for gate in self.gates)


@plant(
    "cohort-starts-at-zero",
    StateTransfers,
    "_ask",
    "where another member goes on with a transfer, it begins with the first chunk again",
    {"ledger"},
    8,
    transfers,
)
def _(ask: Any) -> Any:
    def mutated(self: StateTransfers, local: Local, group: str, transfer: Any, members: Any) -> None:
        transfer.first = 0
        ask(self, local, group, transfer, members)

    return mutated
