"""Planting a bug in the core, running a scenario with it, and telling what caught it.

A mutant replaces one function of the core while it is planted. What can catch it: the checks of `verify`, by their
ids; `invariant`, a layer's own assertion; `content`, a message that is not delivered as it was handed over; `sent`, a
message that a site still holds when all is over; `storm`, more turns or datagrams than any run needs; and the name of
an exception that the core raised. Traces hold no payloads, so `content` and `sent` are looked at here.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from reconvene.core import site as core_site
from reconvene.core.effects import Delivered, Effects, Event, Sent
from reconvene.core.options import Options
from reconvene.core.site import Site
from reconvene.ids import Service
from reconvene.sim.node import Node, SiteLike
from reconvene.sim.profiles import random_scenario
from reconvene.sim.runner import Runner
from reconvene.sim.scenario import Scenario
from reconvene.trace.events import Row, Run
from reconvene.verify.engine import verify
from reconvene.verify.history import History

__all__ = ["SEEDS", "Family", "Mutant", "Plant", "catch", "catch_within", "planting", "record"]

SEEDS = 50
"""Random scenarios that a mutant may survive before it counts as not caught."""

Family = Callable[[int], Scenario]

_CHECK_EVERY = 20
_MOST_TURNS = _MOST_COPIES = 10_000
"""For each site: about twice what the busiest of these runs needs."""


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    breaks: str
    """What it does wrong, in a line."""
    owner: Any
    """The class or module whose function it replaces."""
    function: str
    mutate: Callable[[Any], Any]
    """From the function to the broken one."""
    expected: frozenset[str]
    """What has to catch it: one of these is enough."""
    seed: int
    """Where it is known to be caught; the search begins there."""
    family: Family
    """From a seed to a scenario: the profile `chaos`, or what reaches a situation that it does not."""

    @contextmanager
    def planted(self) -> Iterator[None]:
        original = getattr(self.owner, self.function)
        setattr(self.owner, self.function, self.mutate(original))
        try:
            yield
        finally:
            setattr(self.owner, self.function, original)


Plant = Callable[..., Callable[[Callable[[Any], Any]], Callable[[Any], Any]]]


def planting(mutants: list[Mutant]) -> Plant:
    """The decorator of a module's mutants: it takes from the original function to the broken one."""

    def plant(
        name: str,
        owner: Any,
        function: str,
        breaks: str,
        expected: Iterable[str],
        seed: int,
        family: Family = random_scenario,
    ) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
        def register(mutate: Callable[[Any], Any]) -> Callable[[Any], Any]:
            mutants.append(Mutant(name, breaks, owner, function, mutate, frozenset(expected), seed, family))
            return mutate

        return register

    return plant


class Storm(Exception):
    """More turns or datagrams than any run needs: without it a mutant could run for ever."""


class _Watch:
    """Makes the sites of one run, and remembers what went into them and what came out."""

    def __init__(self, sites: int) -> None:
        self.sites = sites
        self.found: set[str] = set()
        self.submitted: dict[tuple[int, int], list[bytes]] = {}
        """By site and incarnation, in order: message i is the one with counter i + 1."""
        self.sent: dict[tuple[int, int], int] = {}
        self.turns = 0
        self.copies = 0

    def boot(self, stored: bytes | None, ordinal: int, token: int) -> bytes:
        return core_site.boot(stored, ordinal, token)

    def site(self, options: Options, ordinal: int, sites: int, record: bytes, now: int) -> SiteLike:
        return _WatchedSite(self, options, ordinal, sites, record, now)

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

    def flush(self, now: int) -> Effects:
        effects = super().flush(now)
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


def record(scenario: Scenario) -> tuple[set[str], Run, dict[str, list[Row]]]:
    """Runs the scenario with whatever is planted: what found fault with it, the checks apart, and its trace."""
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
    # What was recorded until an exception is judged too, as a run that was cut short.
    result = runner._result()
    meta = replace(result.meta, settled=settled and result.settled)
    return watch.found, meta, result.rows


def catch(scenario: Scenario) -> set[str]:
    """Runs the scenario with whatever is planted, and gives what found fault with it."""
    found, meta, rows = record(scenario)
    return found.union(verify([History.of(meta, rows)]).violated())


def catch_within(mutant: Mutant, seeds: int = SEEDS) -> tuple[int, set[str]] | None:
    """The first seed, from the known one on, whose run one of the expected ones finds fault with; and all that do."""
    with mutant.planted():
        for step in range(seeds):
            seed = (mutant.seed + step) % seeds
            found = catch(mutant.family(seed))
            if found & mutant.expected:
                return seed, found
    return None
