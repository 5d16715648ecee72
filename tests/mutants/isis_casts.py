"""Bugs planted in CBCAST, its pool and its floors, in ABCAST, and in addressing (4.3.1, 4.3.2, 3.6)."""

from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace
from tests.mutants.harness import Mutant, planting
from tests.mutants.isis_scenarios import chains, crossing, detours, growing, losing, outsiders, takeovers, watching

from reconvene.core.groups.events import Process
from reconvene.core.intersite.channels import Channels
from reconvene.isis import delivery
from reconvene.isis.abcast import Abcasts
from reconvene.isis.calls import Calls
from reconvene.isis.casting import Casting, _Out
from reconvene.isis.delivery import Delivery
from reconvene.isis.events import CastId
from reconvene.isis.here import Here
from reconvene.isis.labels import Label
from reconvene.isis.local import AbEntry, Local
from reconvene.isis.messages import Ask, Copy, Decided, Entered
from reconvene.isis.monitor import Monitor
from reconvene.isis.own import OwnCast, OwnCasts
from reconvene.isis.pool import Entry, Pool
from reconvene.isis.processes import Processes
from reconvene.isis.reading import Reading
from reconvene.isis.receipts import Receipts

__all__ = ["MUTANTS"]

MUTANTS: list[Mutant] = []
plant = planting(MUTANTS)

CAUSAL = {"isis.causal", "isis.extended", "isis.causal-abcast"}
LOST = {"isis.atomic", "isis.extended"}
SIDES = {"isis.gbcast"}


# -- the pool


@plant(
    "packet-without-predecessors",
    Pool,
    "send",
    "a cast goes out alone, without those that precede it",
    CAUSAL,
    0,
    chains,
)
def _(send: Any) -> Any:
    def mutated(self: Pool, entry: Entry, site: int) -> int:
        if site not in entry.sent:
            entry.sent[site] = self._here.send(site, entry.copy)
        return entry.sent[site]

    return mutated


@plant(
    "predecessors-not-closed",
    Delivery,
    "_remember",
    "what a process casts follows what it has received, and not what precedes that",
    CAUSAL,
    0,
    detours,
)
def _(remember: Any) -> Any:
    def mutated(self: Delivery, local: Local, entry: Entry) -> None:
        local.remember(entry)

    return mutated


@plant(
    "sent-to-counts-as-arrived",
    Channels,
    "arrived",
    "what was sent to a site counts as arrived there",
    {*SIDES, "isis.flush", "isis.failure"},
    1,
    crossing,
)
def _(_: Any) -> Any:
    def mutated(self: Channels, peer: int) -> int:
        return 1 << 60

    return mutated


@plant(
    "gossip-trusted",
    Pool,
    "receive_stub",
    "a cast does not wait for a predecessor that its origin is known to send to the same site",
    CAUSAL,
    0,
    chains,
)
def _(receive_stub: Any) -> Any:
    return lambda self, cast_id: None


@plant(
    "ack-counts-as-delivered",
    Receipts,
    "_below",
    "a site says that it is done with all that has arrived, also with what waits in its queues",
    {*LOST, *CAUSAL, "isis.once"},
    0,
    growing,
)
def _(below: Any) -> Any:
    return lambda self, waiting, last, *, complete: below(self, waiting, last, complete=True)


@plant(
    "disposable-after-transmission",
    OwnCasts,
    "wait_for",
    "a cast counts as everywhere once it is handed to the channels",
    {*LOST, *CAUSAL},
    0,
    chains,
)
def _(wait_for: Any) -> Any:
    return lambda self, cast, site, record: None


@plant(
    "floor-one-too-high",
    OwnCasts,
    "tell_floor",
    "a site's floor is its second open cast",
    {*LOST, *CAUSAL},
    0,
    chains,
)
def _(tell_floor: Any) -> Any:
    def mutated(self: OwnCasts) -> None:
        tell_floor(self)
        self._here.channels.floor += bool(self.open)

    return mutated


@plant(
    "old-copies-accepted",
    Pool,
    "is_old",
    "a copy of a cast below its origin's floor is taken for a new one",
    {"isis.once"},
    6,
    growing,
)
def _(is_old: Any) -> Any:
    def mutated(self: Pool, cast_id: CastId) -> bool:
        return bool(is_old(self, cast_id)) and not self._here.knows(cast_id)

    return mutated


# -- delivery


@plant(
    "own-copy-skips-the-wait-queue",
    Delivery,
    "arrive",
    "a sender's own copy is received at once, also while a GBCAST is under way",
    SIDES,
    0,
    growing,
)
def _(arrive: Any) -> Any:
    def mutated(self: Delivery, entry: Entry) -> None:
        arrive(self, entry)
        local = self.living(entry.copy.sender)
        if local is not None and entry in local.waiting:
            local.waiting.remove(entry)
            self._take(local, entry, entry.copy)

    return mutated


@plant(
    "causal-abcast-not-waited-for",
    Delivery,
    "_causes_done",
    "what follows a causal ABCAST does not wait for it",
    {"isis.causal-abcast"},
    0,
    growing,
)
def _(causes_done: Any) -> Any:
    def mutated(self: Delivery, entry: Entry, process: Process) -> bool:
        found = [(cast_id, self._pool.entries.get(cast_id)) for cast_id in entry.causes]
        plain = [cast_id for cast_id, cause in found if cause is not None and cause.copy.queue is None]
        return bool(causes_done(self, SimpleNamespace(copy=entry.copy, causes=plain, handled=entry.handled), process))

    return mutated


@plant(
    "causal-abcast-followed-before-it-has-its-place",
    Abcasts,
    "undecided",
    "what follows a causal ABCAST goes out before that has its final priority",
    {"isis.causal-abcast", "isis.live", "isis.atomic", *SIDES},
    0,
    growing,
)
def _(undecided: Any) -> Any:
    return lambda self, cast_id: False


# -- ABCAST


@plant(
    "coordinators-priority-ignored",
    Abcasts,
    "begin",
    "an ABCAST's final priority does not count what its sender's site has seen",
    {"isis.abcast", *SIDES},
    12,
    takeovers,
)
def _(begin: Any) -> Any:
    def mutated(self: Abcasts, cast: OwnCast, ask: Ask) -> None:
        begin(self, cast, replace(ask, clock=0))
        run = self._rounds[cast.id]
        if run.records is None:
            run.highest = (0, 0)

    return mutated


@plant(
    "equal-priorities-by-arrival",
    delivery,
    "_by_priority",
    "of two ABCASTs whose priorities differ by site only, the one that came first is first",
    {"isis.abcast"},
    2,
    growing,
)
def _(by_priority: Any) -> Any:
    return lambda item: item.priority[:1]


@plant(
    "token-from-priority-alone",
    Here,
    "priority",
    "a priority is a number that several sites may give, without the site that gave it",
    {"isis.abcast"},
    2,
    growing,
)
def _(priority: Any) -> Any:
    return lambda self: (self.tick(), 0)


@plant(
    "final-ignored-at-takeover",
    Abcasts,
    "learn",
    "whoever takes an ABCAST over gives it a new final priority though some site knows one",
    {"isis.abcast"},
    2,
    takeovers,
)
def _(learn: Any) -> Any:
    def mutated(self: Abcasts, decided: Decided) -> None:
        learn(self, replace(decided, casts=[replace(c, priority=self._here.priority()) for c in decided.casts]))

    return mutated


@plant(
    "asked-before-adoption",
    Reading,
    "receive",
    "a site reads what others say in a site view before it has adopted that",
    {"isis.abcast", "isis.live", "isis.atomic"},
    1,
    takeovers,
)
def _(receive: Any) -> Any:
    def mutated(self: Reading, packets: Any, now: int) -> None:
        for packet in packets:
            self._receive(packet, now)
            for number, record in self._paused.pop(packet.site, ()):
                if not isinstance(record, Entered):
                    self._read(record, packet.site, number)

    return mutated


# -- addressing


@plant(
    "rejected-by-one",
    Delivery,
    "_take",
    "the member of the first rank rejects what the others accept: casts of any earlier view",
    {"isis.reject", "isis.members"},
    0,
    outsiders,
)
def _(take: Any) -> Any:
    def mutated(self: Delivery, local: Local, item: Entry | AbEntry, cast: Copy | Ask) -> None:
        membership = local.groups.get(cast.group or "")
        if membership is None or membership.ranked[0].process != local.process:
            take(self, local, item, cast)
            return
        gained, membership.gained = membership.gained, membership.view
        take(self, local, item, cast)
        membership.gained = gained

    return mutated


def _accepting(blocked: Any, counts: Any) -> Any:
    """As if the casts of which `counts` says so were accepted."""

    def mutated(self: Casting, local: Local, label: Label, group: str | None, *rest: Any, **named: Any) -> bool:
        early: list[_Out] = [out for out in self._out.values() if out.cast.judged and counts(out, group)]
        for out in early:
            out.cast.judged = False
        result = bool(blocked(self, local, label, group, *rest, **named))
        for out in early:
            out.cast.judged = True
        return result

    return mutated


@plant(
    "cache-changed-without-flush",
    Casting,
    "_blocked",
    "an outsider's cast to a group's next view goes out before its last one is accepted",
    CAUSAL,
    11,
    outsiders,
)
def _(blocked: Any) -> Any:
    return _accepting(blocked, lambda out, group: out.cast.group == group)


@plant(
    "third-party-not-waited-for",
    Casting,
    "_blocked",
    "an outsider casts to others before its cast to a group is accepted",
    CAUSAL,
    9,
    outsiders,
)
def _(blocked: Any) -> Any:
    return _accepting(blocked, lambda out, group: out.cast.group != group)


# -- replies


@plant(
    "failure-overtakes-reply",
    Processes,
    "end",
    "a dead process's callers are told at once, before its last casts are everywhere",
    {"isis.failure", "isis.replies"},
    5,
    losing,
)
def _(end: Any) -> Any:
    def mutated(self: Processes, local: Local) -> None:
        end(self, local)
        self._calls.died(local)

    return mutated


@plant(
    "lost-site-reported-at-once",
    Calls,
    "depart",
    "callers are told of a lost site's processes before its casts are everywhere",
    {"isis.failure"},
    1,
    losing,
)
def _(depart: Any) -> Any:
    def mutated(self: Calls, sites: Any) -> None:
        depart(self, sites)
        self.report_lost(lambda process, sender: True)

    return mutated


@plant(
    "dead-do-not-answer",
    Calls,
    "missed",
    "nobody answers for a destination that is dead or has left",
    {"isis.replies"},
    0,
    losing,
)
def _(missed: Any) -> Any:
    return lambda self, process, cast_id, asker: None


# -- watches


@plant(
    "watch-answered-at-once",
    Processes,
    "end",
    "those that watch a dead process are told at once, before its last casts are everywhere",
    {"isis.failure"},
    5,
    watching,
)
def _(end: Any) -> Any:
    def mutated(self: Processes, local: Local) -> None:
        end(self, local)
        self._monitor.died(local.process)

    return mutated


@plant(
    "watched-site-lost-at-once",
    Monitor,
    "depart",
    "those that watch a lost site's processes are told before its casts are everywhere",
    {"isis.failure"},
    1,
    watching,
)
def _(depart: Any) -> Any:
    def mutated(self: Monitor, sites: Any, old: Any) -> None:
        depart(self, sites, old)
        self.report(lambda watcher, process: True)

    return mutated


@plant(
    "not-come-yet-counts-as-over",
    Monitor,
    "is_over",
    "a process whose site has not come to the line yet counts as over",
    {"isis.failure", "ledger"},
    0,
    watching,
)
def _(is_over: Any) -> Any:
    return lambda self, process: True


@plant(
    "watch-of-the-buried-ignored",
    Monitor,
    "take_watch",
    "a site does not answer a watch of a process that is over by then",
    {"ledger"},
    3,
    watching,
)
def _(take_watch: Any) -> Any:
    def mutated(self: Monitor, process: Process, site: int) -> None:
        if self._find(process) is not None:
            take_watch(self, process, site)

    return mutated
