"""Plants a bug in the core, runs a scenario with it, and reports what caught it.

A mutant replaces one function of the core while it is planted. These can catch it: the checks of `verify`, by their
ids; `invariant`, an assertion of a layer; `content`, a message whose delivered payload is not the one submitted;
`sent`, a message that a site still holds at the end; `storm`, more turns or datagrams than any run needs; and the
name of an exception that the core raised. Traces hold no payloads, so `content` and `sent` are checked here.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from reconvene.core import record as core_record
from reconvene.core.effects import Delivered, Effects, Event, Sent
from reconvene.core.options import Options
from reconvene.core.site import Site
from reconvene.ids import Service
from reconvene.sim.core import EvsSite, SiteLike
from reconvene.sim.node import Node
from reconvene.sim.profiles import random_scenario
from reconvene.sim.runner import Runner
from reconvene.sim.scenario import Scenario
from reconvene.trace.events import Row, Run
from reconvene.verify.engine import verify
from reconvene.verify.history import History

__all__ = [
    "SEEDS",
    "Family",
    "Mutant",
    "Plant",
    "Record",
    "Recorded",
    "catch",
    "catch_within",
    "planting",
    "record",
    "record_known",
]

SEEDS = 50
"""A mutant that survives this many random scenarios is not caught."""

Family = Callable[[int], Scenario]

Recorded = tuple[set[str], Run, dict[str, list[Row]]]
"""A run: what found fault with it, except the checks of `verify`, and its trace."""

Record = Callable[[Scenario], Recorded]
"""Runs a scenario with whatever is planted: `record` here for the core, `corel_harness.record` for the log."""

_CHECK_EVERY = 20
_MOST_TURNS = _MOST_COPIES = 10_000
"""For each site: about twice what the busiest of these runs needs."""


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    breaks: str
    """What it does wrong, in one line."""
    owner: Any
    """The class or module whose function it replaces."""
    function: str
    mutate: Callable[[Any], Any]
    """Turns the function into the broken one."""
    expected: frozenset[str]
    """One of these must catch it."""
    seed: int
    """The seed that is known to catch it; the search starts there."""
    family: Family
    """Makes a scenario from a seed: the profile `chaos`, or one that reaches a situation that `chaos` does not."""
    also: tuple[tuple[Any, str, Callable[[Any], Any]], ...] = ()
    """Where two guards stand before the same fault: the other one, as owner, function and what it is turned into."""

    @contextmanager
    def planted(self) -> Iterator[None]:
        places = ((self.owner, self.function, self.mutate), *self.also)
        originals = [getattr(owner, function) for owner, function, _ in places]
        for (owner, function, mutate), original in zip(places, originals, strict=True):
            setattr(owner, function, mutate(original))
        try:
            yield
        finally:
            for (owner, function, _), original in zip(places, originals, strict=True):
                setattr(owner, function, original)


Plant = Callable[..., Callable[[Callable[[Any], Any]], Callable[[Any], Any]]]


def planting(mutants: list[Mutant]) -> Plant:
    """The decorator of a module's mutants. It decorates a function that turns the original function into the broken
    one."""

    def plant(
        name: str,
        owner: Any,
        function: str,
        breaks: str,
        expected: Iterable[str],
        seed: int,
        family: Family = random_scenario,
        also: tuple[tuple[Any, str, Callable[[Any], Any]], ...] = (),
    ) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
        def register(mutate: Callable[[Any], Any]) -> Callable[[Any], Any]:
            mutants.append(Mutant(name, breaks, owner, function, mutate, frozenset(expected), seed, family, also))
            return mutate

        return register

    return plant


class Storm(Exception):
    """The run took more turns or datagrams than any run needs. Without this limit a mutant could run forever."""


class _Watch:
    """Makes the sites of one run, and records what went into them and what came out."""

    def __init__(self, sites: int) -> None:
        self.sites = sites
        self.found: set[str] = set()
        self.submitted: dict[tuple[int, int], list[bytes]] = {}
        """By site and incarnation, in order: message i is the one with counter i + 1."""
        self.sent: dict[tuple[int, int], int] = {}
        self.turns = 0
        self.copies = 0

    def boot(self, stored: bytes | None, ordinal: int, token: int) -> bytes:
        return core_record.boot(stored, ordinal, token)

    def site(self, options: Options, ordinal: int, sites: int, record: bytes, now: int) -> SiteLike:
        return EvsSite(_WatchedSite(self, options, ordinal, sites, record, now))

    def events(self, node: Node, events: list[Event]) -> None:
        assert node.site is not None
        for event in events:
            match event:
                case Sent(count=count):
                    key = (node.ordinal, node.site.incarnation)
                    self.sent[key] = self.sent.get(key, 0) + count
                case Delivered(sender=sender, incarnation=incarnation, first=first, payloads=payloads):
                    submitted = self.submitted.get((sender, incarnation), [])
                    if submitted[first - 1 : first - 1 + len(payloads)] != payloads:
                        self.found.add("content")

    def judge_end(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            if node.site is not None:
                key = (node.ordinal, node.site.incarnation)
                if self.sent.get(key, 0) != len(self.submitted.get(key, [])):
                    self.found.add("sent")


class _WatchedSite(Site):
    def __init__(self, watch: _Watch, options: Options, ordinal: int, sites: int, record: bytes, now: int) -> None:
        super().__init__(options, ordinal, sites, record, now)
        self._watch_ = watch

    def submit(self, service: Service, payload: bytes, now: int) -> None:
        super().submit(service, payload, now)
        self._watch_.submitted.setdefault((self.ordinal, self.incarnation), []).append(payload)

    def withdraw(self) -> int:
        withdrawn = super().withdraw()
        if withdrawn:
            del self._watch_.submitted[self.ordinal, self.incarnation][-withdrawn:]
        return withdrawn

    def flush(self, now: int, effects: Effects | None = None) -> Effects:
        effects = super().flush(now, effects)
        watch = self._watch_
        watch.turns += 1
        watch.copies += sum(len(to) for to, _ in effects.datagrams)
        if watch.turns > _MOST_TURNS * watch.sites or watch.copies > _MOST_COPIES * watch.sites:
            raise Storm
        return effects

    def invariants(self) -> None:
        # Noted, not raised: the run goes on to show what the bug does.
        try:
            super().invariants()
        except AssertionError:
            self._watch_.found.add("invariant")


def record(scenario: Scenario) -> Recorded:
    """Runs the scenario with whatever is planted."""
    watch = _Watch(len(scenario.nodes))
    runner = Runner(scenario, check_every=_CHECK_EVERY, core=watch)
    runner.cluster.on_events(watch.events)
    settled = False
    try:
        runner.run()
        settled = True
        watch.judge_end(runner.cluster.nodes)
    except Storm:
        watch.found.add("storm")
    except Exception as error:
        watch.found.add(type(error).__name__)
    # After an exception, what was recorded until then is judged too, as a run that was cut short.
    result = runner._result()
    meta = replace(result.meta, settled=settled and result.settled)
    return watch.found, meta, result.rows


def catch(scenario: Scenario, record: Record) -> set[str]:
    """Runs the scenario with whatever is planted, and returns what found fault with it."""
    return _judge(record(scenario))


def _judge(recorded: Recorded) -> set[str]:
    found, meta, rows = recorded
    return found.union(verify([History.of(meta, rows)]).violated())


def record_known(mutant: Mutant, record: Record) -> Recorded:
    """Plants the mutant and runs the scenario that is known to show it."""
    with mutant.planted():
        return record(mutant.family(mutant.seed))


def catch_within(mutant: Mutant, record: Record, known: Recorded, seeds: int = SEEDS) -> tuple[int, set[str]] | None:
    """The first seed, from the known one on, whose run is caught as expected, and everything that caught it. `known`
    is the run of the known seed."""
    found = _judge(known)
    if found & mutant.expected:
        return mutant.seed, found
    with mutant.planted():
        for step in range(1, seeds):
            seed = (mutant.seed + step) % seeds
            found = catch(mutant.family(seed), record)
            if found & mutant.expected:
                return seed, found
    return None
