"""The experiment of section 6 of the ATOP paper, in virtual time over the real core, and more than that.

Six members on a network like a LAN send messages of 50 bytes: two of them 10 a second, one 20, three fewer and fewer.
The latency of a message is from its sending to its delivery at each member, its sender too.
"""

from fractions import Fraction
from itertools import pairwise

from reconvene.core.options import Options
from reconvene.ids import Service
from reconvene.lab.bench import atop_beyond, atop_plots
from reconvene.lab.bench.sheet import Settings, Sheet, Table, number
from reconvene.lab.load.simulated import MS, SECOND, Arrivals, System, measure
from reconvene.sim.conditions import Conditions

__all__ = ["ATOP", "CAUSAL", "EAGER", "LAZY", "LIMIT", "NETWORK", "SLOW", "network_delay_ms", "rates", "run"]

NETWORK = Conditions(latency_ns=1 * MS, jitter_ns=MS // 5)

CAUSAL = System("causal", Options(), Service.CAUSAL)
ATOP = System("atop", Options())
LAZY = System("all-ack lazy", Options(order="all-ack", eager=False))
EAGER = System("all-ack eager", Options(order="all-ack"))
SYSTEMS = (CAUSAL, ATOP, LAZY, EAGER)

SLOW = tuple(map(Fraction, ("10", "5", "2", "1", "1/2", "1/3")))
"""Messages a second of each of the three slow members, one experiment each."""

LIMIT = 1.3
"""ATOP's mean latency is at most so many times that of causal delivery plus one network delay."""

REFERENCE = "causal + one network delay"


def network_delay_ms() -> float:
    return (NETWORK.latency_ns + NETWORK.jitter_ns / 2) / MS


def rates(slow: Fraction) -> tuple[float, ...]:
    return (10, 10, 20, float(slow), float(slow), float(slow))


def run(settings: Settings) -> Sheet:
    sheet = Sheet("atop")
    slow_rates = (SLOW[0], SLOW[3], SLOW[5]) if settings.quick else SLOW
    span_ns = (12 if settings.quick else 60) * SECOND
    results: dict[tuple[str, Fraction], Arrivals] = {}
    total = len(SYSTEMS) * len(slow_rates)
    for slow in slow_rates:
        for system in SYSTEMS:
            settings.progress(f"{system.name}, slow members at {slow}/s", len(results), total)
            results[system.name, slow] = measure(
                system, rates(slow), span_ns=span_ns, seed=settings.seed, conditions=NETWORK
            )
    _rows(sheet, results, slow_rates)
    _tables(sheet, results, slow_rates)
    if settings.plots is not None:
        sheet.plots += atop_plots.draw(settings.plots, results, [s.name for s in SYSTEMS], list(slow_rates))
    sheet.notes.append(
        f"six members at 10, 10, 20 and three times the slow rate; 50 B; a network delay of "
        f"{NETWORK.latency_ns / MS:g} ms plus up to {NETWORK.jitter_ns / MS:g} ms; intervals jittered by 20 %; "
        f"{span_ns // SECOND} s counted after 10 s to adapt; seed {settings.seed}"
    )
    atop_beyond.add(sheet, settings)
    return sheet


def _rows(sheet: Sheet, results: dict[tuple[str, Fraction], Arrivals], slow_rates: tuple[Fraction, ...]) -> None:
    for slow in slow_rates:
        least = results["causal", slow].mean_ms + network_delay_ms()
        for system in SYSTEMS:
            arrivals = results[system.name, slow]
            work = f"{system.service.label} 50 B, slow members at {slow}/s"
            mean = arrivals.mean_ms
            sheet.add(f"{work}: mean latency", system.name, mean, "ms", REFERENCE, mean / least)
            by_sender = arrivals.mean_by_sender_ms
            sheet.add(f"{work}: mean latency by sender", system.name, by_sender, "ms", REFERENCE, by_sender / least)
            sheet.add(f"{work}: p99 latency", system.name, arrivals.percentile_ms(99), "ms")
            variance = arrivals.variance_ms2
            reference = results["causal", slow].variance_ms2
            sheet.add(f"{work}: variance", system.name, variance, "ms²", "causal", variance / reference)
            sheet.add(f"{work}: datagrams", system.name, arrivals.datagrams / arrivals.messages, "copies/message")
            sheet.add(f"{work}: undelivered", system.name, arrivals.missing, "deliveries")
    for faster, slower in pairwise(slow_rates):
        for system in SYSTEMS:
            value, before = results[system.name, slower].mean_ms, results[system.name, faster].mean_ms
            work = f"{system.service.label} 50 B, slow members at {slower}/s: growth of the mean latency"
            sheet.add(work, system.name, value, "ms", f"slow members at {faster}/s", value / before)


def _tables(sheet: Sheet, results: dict[tuple[str, Fraction], Arrivals], slow_rates: tuple[Fraction, ...]) -> None:
    names = [system.name for system in SYSTEMS]
    latency, spread = [], []
    for slow in slow_rates:
        here = [results[name, slow] for name in names]
        ratio = results["atop", slow].mean_ms / (results["causal", slow].mean_ms + network_delay_ms())
        verdict = "" if ratio <= LIMIT else f" over {LIMIT}"
        latency.append([f"{slow}", *(number(a.mean_ms) for a in here), f"{ratio:.2f}{verdict}"])
        spread.append(
            [f"{slow}", *(number(a.variance_ms2) for a in here), *(number(a.percentile_ms(99)) for a in here)]
        )
    sheet.tables.append(
        Table.of(
            f"mean latency in ms; atop against {REFERENCE}: at most {LIMIT}",
            ["slow msg/s", *names, "atop's ratio"],
            latency,
        )
    )
    columns = ["slow msg/s", *(f"{name}: var" for name in names), *(f"{name}: p99" for name in names)]
    sheet.tables.append(Table.of("variance of the latency in ms², and its 99th percentile in ms", columns, spread))
