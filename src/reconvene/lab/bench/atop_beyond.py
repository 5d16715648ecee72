"""Beyond the experiment of the ATOP paper: every adaptation policy and both sequences under unsteady traffic."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from reconvene.core.options import Options
from reconvene.lab.bench.sheet import Settings, Sheet, Table, number
from reconvene.lab.load.simulated import MS, SECOND, Rate, System, Traffic, measure

__all__ = ["WORKS", "Work", "add", "systems"]

POLICIES = ("none", "book-keeper", "round-trip", "damped", "declared")
GENERATORS = ("low-discrepancy", "pseudo-random")

SETS = ((10.0, 10.0, 20.0, 1 / 3, 1 / 3, 1 / 3), (1 / 3, 1 / 3, 10.0, 20.0, 10.0, 1 / 3), (5.0,) * 6)
"""Rates by member, which take turns."""
EACH_NS = 10 * SECOND
"""How long each of them lasts."""
BURST_NS = 3 * SECOND
STILL_NS = 300 * MS
"""Too short to be suspected: six sites suspect one after 660 ms."""


@dataclass(frozen=True, slots=True)
class Work:
    name: str
    patterns: tuple[tuple[float, ...], ...]
    """The rates that the application declares."""
    traffic: Callable[[int, int], Traffic]
    """Called with the warm-up time and the span."""


def _constant(rate: float) -> Rate:
    return lambda _: rate


def _in_turns(member: int) -> Rate:
    return lambda at: SETS[at // EACH_NS % len(SETS)][member]


def _in_bursts(at: int) -> float:
    return 20.0 if at // BURST_NS % 2 == 0 else 0.0


def _steady(rates: tuple[float, ...]) -> Callable[[int, int], Traffic]:
    return lambda warm, span: Traffic(tuple(map(_constant, rates)), warm, span, 5 * SECOND)


def _bursts(warm: int, span: int) -> Traffic:
    rates = [_constant(rate) for rate in SETS[0]]
    rates[2] = _in_bursts
    return Traffic(tuple(rates), warm, span, 5 * SECOND)


def _stills(warm: int, span: int) -> Traffic:
    still = tuple((2, at, at + STILL_NS) for at in range(SECOND, warm + span, 3 * SECOND))
    return replace(_steady(SETS[0])(warm, span), still=still)


def _changing(warm: int, span: int) -> Traffic:
    return Traffic(tuple(_in_turns(member) for member in range(6)), warm, span, 5 * SECOND)


TWELVE = (10.0, 10.0, 20.0, *(1 / 3 for _ in range(9)))

WORKS = (
    Work("steady, slow at 1/3", SETS[:1], _steady(SETS[0])),
    Work("rates change every 10 s", SETS, _changing),
    Work("the fastest in bursts of 3 s", SETS[:1], _bursts),
    Work("the fastest stands still 0.3 s in 3", SETS[:1], _stills),
    Work("12 members", (TWELVE,), _steady(TWELVE)),
)


def systems(work: Work, quick: bool = False) -> list[System]:
    patterns = tuple(tuple(max(1, round(rate * 3)) for rate in pattern) for pattern in work.patterns)
    return [
        System(f"atop {policy}, {generator}", Options(generator=generator, policy=policy, patterns=patterns))
        for generator in GENERATORS
        for policy in POLICIES
        if not quick or generator == GENERATORS[0] or policy == "book-keeper"
    ]


def add(sheet: Sheet, settings: Settings) -> None:
    works = (WORKS[1],) if settings.quick else WORKS
    warm_ns, span_ns = (8 * SECOND, 14 * SECOND) if settings.quick else (10 * SECOND, 60 * SECOND)
    todo = [(work, system) for work in works for system in systems(work, settings.quick)]
    lines: dict[str, list[list[str]]] = {work.name: [] for work in works}
    for done, (work, system) in enumerate(todo):
        settings.progress(f"{work.name}: {system.name}", done, len(todo))
        arrivals = measure(system, work.traffic(warm_ns, span_ns), seed=settings.seed)
        dummies = arrivals.dummies / arrivals.messages
        copies = arrivals.datagrams / arrivals.messages
        prefix = f"agreed 50 B, {work.name}"
        sheet.add(f"{prefix}: mean latency", system.name, arrivals.mean_ms, "ms")
        sheet.add(f"{prefix}: p99 latency", system.name, arrivals.percentile_ms(99), "ms")
        sheet.add(f"{prefix}: variance", system.name, arrivals.variance_ms2, "ms²")
        sheet.add(f"{prefix}: dummies", system.name, dummies, "frames/message")
        sheet.add(f"{prefix}: datagrams", system.name, copies, "copies/message")
        sheet.add(f"{prefix}: undelivered", system.name, arrivals.missing, "deliveries")
        policy, generator = system.options.policy, system.options.generator
        figures = (arrivals.mean_ms, arrivals.percentile_ms(99), arrivals.variance_ms2, dummies, copies)
        lines[work.name].append([policy, generator, *map(number, figures), str(arrivals.distributions)])
    columns = (
        "policy",
        "sequence",
        "mean ms",
        "p99 ms",
        "variance ms²",
        "dummies/msg",
        "copies/msg",
        "distributions",
    )
    sheet.tables += [Table.of(f"atop, {name}", columns, table) for name, table in lines.items()]
