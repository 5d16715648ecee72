"""How long a single message takes: to the sender's own delivery, and to that of the slowest site.

Our sites: agreed and safe, sealed and not sealed, on loopback and on the peer's path. Corosync: agreed, in turns with
ours. The next message is sent when its sender has delivered the last one, at once or after a pause, in both systems.
"""

from collections.abc import Callable
from statistics import median

from reconvene.lab import namespaces
from reconvene.lab.bench import sites
from reconvene.lab.bench.figures import Latency
from reconvene.lab.bench.peers import cpg
from reconvene.lab.bench.peers.corosync import Options
from reconvene.lab.bench.rounds import in_turns
from reconvene.lab.bench.sheet import Settings, Sheet, Table, number, size_of, verdict
from reconvene.lab.bench.sites import Setup

__all__ = ["BARS", "run"]

SIZE = 100
COUNT = 2_000
QUICK_COUNT = 500
PAUSES_US = (0, 1_000)
MTU = 1500

COROSYNC = {
    f"corosync udpu, MTU {MTU}": Options(mtu=MTU),
    f"corosync udpu, sched_rr: no, MTU {MTU}": Options(mtu=MTU, sched_rr=False),
}
DEFAULT = next(iter(COROSYNC))

BARS = (("agreed", "self", 1.0), ("agreed", "slowest", 1.5), ("safe", "slowest", 2.0))
"""(service, whose delivery, limit): the limit is a multiple of the time that Corosync's agreed message takes to
*self-delivery*. Its delivery at the slowest site takes longer, so this is the stricter of two readings."""

PERCENTS = ("p50", "p99")

Key = tuple[str, str, int]
"""System, service, pause."""


def run(settings: Settings) -> Sheet:
    sheet = Sheet("latency")
    measures: dict[str, Callable[[], dict[Key, Latency]]] = {}
    setups = _setups(settings, sheet)
    for setup in setups:
        if setup.mtu is not None and setup.sealed and "corosync" in settings.peers:
            for system in COROSYNC:
                if system == DEFAULT or not settings.quick:
                    measures[system] = _theirs(system, settings)
        measures[setup.system] = _ours(setup, settings)
    found = in_turns(sheet, settings, measures)
    _add_figures(sheet, found)
    if settings.peers:
        _add_bars(sheet, found, [setup for setup in setups if setup.mtu is not None])
    sheet.notes.append(
        f"messages of {size_of(SIZE)}; pause: between its delivery at its sender and the next message; "
        "Corosync has no safe delivery"
    )
    return sheet


def _setups(settings: Settings, sheet: Sheet) -> list[Setup]:
    reason = namespaces.available()
    if reason is not None:
        sheet.notes.append(f"on loopback only: {reason}")
    setups = [Setup(mtu=mtu, sealed=sealed) for mtu in (None, MTU) for sealed in (True, False)]
    if settings.quick:
        setups = [setup for setup in setups if setup.sealed]
    return [setup for setup in setups if setup.mtu is None or reason is None]


def _ours(setup: Setup, settings: Settings) -> Callable[[], dict[Key, Latency]]:
    def measure() -> dict[Key, Latency]:
        count = QUICK_COUNT if settings.quick else COUNT
        with sites.running(setup, "latency") as running:
            return {
                (setup.system, service, pause): running.latency(count, service, pause, SIZE)
                for pause in PAUSES_US
                for service in ("agreed", "safe")
            }

    return measure


def _theirs(system: str, settings: Settings) -> Callable[[], dict[Key, Latency]]:
    def measure() -> dict[Key, Latency]:
        count = QUICK_COUNT if settings.quick else COUNT
        return {(system, "agreed", pause): cpg.latency(count, COROSYNC[system], pause, SIZE) for pause in PAUSES_US}

    return measure


def _value(figures: list[Latency], to: str, percent: str) -> float:
    values: list[float] = [getattr(figure, f"{to}_{percent}") for figure in figures]
    return median(values)


def _pause(pause_us: int) -> str:
    return f"pause {pause_us / 1000:g} ms" if pause_us else "no pause"


def _add_figures(sheet: Sheet, found: dict[Key, list[Latency]]) -> None:
    lines = []
    for (system, service, pause), figures in sorted(found.items(), key=lambda item: item[0][2]):
        line = [_pause(pause), system, service]
        theirs = found.get((DEFAULT, "agreed", pause))
        for to in ("self", "slowest"):
            for percent in PERCENTS:
                value = _value(figures, to, percent)
                work = f"{service} {size_of(SIZE)} to {to}, {percent}, {_pause(pause)}"
                if theirs is None or not system.endswith(f"MTU {MTU}") or system == DEFAULT:
                    sheet.add(work, system, value, "µs")
                else:
                    against = _value(theirs, to, percent)
                    sheet.add(work, system, value, "µs", f"{DEFAULT}, agreed to {to}", value / against)
                line.append(number(value))
        line.append(f"{median(figure.foreign_cores for figure in figures):.2f}")
        lines.append(line)
    columns = (
        "",
        "system",
        "service",
        *(f"{to}, {p}" for to in ("self", "slowest") for p in PERCENTS),
        "others' cores",
    )
    sheet.tables.append(Table.of("one message alone, µs", columns, lines))


def _add_bars(sheet: Sheet, found: dict[Key, list[Latency]], setups: list[Setup]) -> None:
    lines = []
    for pause in PAUSES_US:
        theirs = found.get((DEFAULT, "agreed", pause))
        if theirs is None:
            continue
        for setup in setups:
            for service, to, times in BARS:
                figures = found.get((setup.system, service, pause))
                if figures is None:
                    continue
                ratios = [_value(figures, to, percent) / _value(theirs, "self", percent) for percent in PERCENTS]
                bar = f"{service} to {to}: within {times:g} times Corosync's agreed to self"
                for percent, ratio in zip(PERCENTS, ratios, strict=True):
                    work = f"{bar}, {percent}, {_pause(pause)}"
                    sheet.add(work, setup.system, ratio, "times", f"bar of {times:g}", ratio / times)
                shown = [f"{ratio:.2f} {verdict(ratio <= times)}" for ratio in ratios]
                lines.append([_pause(pause), bar, setup.system, *shown])
    sheet.tables.append(Table.of(f"bars, against {DEFAULT}", ("", "bar", "system", *PERCENTS), lines))
