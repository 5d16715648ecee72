"""How long a site can be busy without answering: its longest turn, compared with the time to suspicion.

Three sites at the defaults, each inside a program. The work that waits: a gigabyte or a million messages of a site
that was cut off and comes back, or is restarted with them; or a few messages of the largest size at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, monotonic_ns

from reconvene.lab.bench.durable_disk import folder
from reconvene.lab.bench.durable_own import Sites, again, running
from reconvene.lab.bench.foreign import Foreign
from reconvene.lab.bench.sheet import Settings, Sheet, Table, number, verdict
from reconvene.runtime.config.file import load as load_config
from reconvene.runtime.node.explain import explain

__all__ = ["BAR", "run"]

BAR = 0.25
"""The most that one turn may take, as a share of the time to suspicion."""
_PATIENCE_S = 900.0
_MIB = 1 << 20
_LARGE = (15 * _MIB, 16_711_680)
"""The second one is the largest message that a log accepts at the defaults."""
_SEVERAL = 6
_MEASURES = ("turn_ms", "stood_ms", "work_ms", "configurations")


@dataclass(frozen=True, slots=True)
class Measured:
    """What each site measured, by `_MEASURES`."""

    sites: Sequence[dict[str, float]]
    green_ms: float
    """Until everything was green everywhere."""
    suspicion_ms: float

    def worst(self, measure: str) -> float:
        return max(site[measure] for site in self.sites)


Measure = Callable[[Path], Measured]


def run(settings: Settings) -> Sheet:
    sheet = Sheet("turns")
    works = _works(settings.quick)
    lines = []
    worst = most_work = suspicion_ms = 0.0
    for turn, (work, measure) in enumerate(works):
        settings.progress(work, turn, len(works))
        with folder() as place, Foreign() as foreign:
            measured = measure(place)
        suspicion_ms = measured.suspicion_ms
        ratio = measured.worst("turn_ms") / suspicion_ms
        worst = max(worst, ratio)
        work_ratio = measured.worst("work_ms") / suspicion_ms
        most_work = max(most_work, work_ratio)
        _add_rows(sheet, work, measured)
        figures = [number(measured.worst(measure)) for measure in _MEASURES]
        ratios = [f"{ratio:.2f}", f"{work_ratio:.2f}"]
        lines.append([work, *figures, *ratios, number(measured.green_ms), f"{foreign.cores:.2f}"])
    sheet.add("longest turn of all, over the time to suspicion", "reconvene", worst, "times")
    sheet.add("most work between two looks, over the time to suspicion", "reconvene", most_work, "times")
    sheet.tables.append(
        Table.of(
            "the longest of three sites, in ms",
            (
                *("what waits", "turn", "standstill", "work between looks", "configurations"),
                *("turn / suspicion", "work / suspicion", "all green after", "others' cores"),
            ),
            lines,
        )
    )
    sheet.notes += [
        f"a site that is silent for {suspicion_ms:.0f} ms is suspected (see `reconvene node --check`)",
        f"longest turn below {BAR} of that: {worst:.2f}, {verdict(worst < BAR)}",
        f"a turn waits where others use the processors; what the site itself used is the work: {most_work:.2f}",
    ]
    return sheet


def _works(quick: bool) -> list[tuple[str, Measure]]:
    large, small = (64, 100_000) if quick else (1024, 1_000_000)
    return [
        *((f"{_SEVERAL} appends of {size:,} B at once", _at_once(size)) for size in _LARGE),
        (f"rejoin with {large:,} MiB red", _rejoin(large, _MIB)),
        (f"rejoin with {small:,} red messages", _rejoin(small, 100)),
        (f"restart with {large:,} MiB red", _restart(large, _MIB)),
        (f"restart with {small:,} red messages", _restart(small, 100)),
    ]


def _add_rows(sheet: Sheet, work: str, measured: Measured) -> None:
    for index, site in enumerate(measured.sites):
        name, turn, stood = f"site {index}", site["turn_ms"], site["stood_ms"]
        sheet.add(f"{work}: longest turn", name, turn, "ms", "suspicion", turn / measured.suspicion_ms)
        sheet.add(f"{work}: longest standstill", name, stood, "ms", "suspicion", stood / measured.suspicion_ms)
        sheet.add(f"{work}: work between two looks", name, site["work_ms"], "ms")
        sheet.add(f"{work}: configurations", name, site["configurations"], "installed")


def _at_once(size: int) -> Measure:
    def measure(place: Path) -> Measured:
        with running(place, "watch") as sites:
            begin = monotonic_ns()
            sites.ask(sites.loads[0], f"several {_SEVERAL} {size}", "ms", _PATIENCE_S)
            return _when_green(sites, place, _SEVERAL, begin)

    return measure


def _rejoin(count: int, size: int) -> Measure:
    """The last site accepts so many messages while it is cut off; then all sites have to order them."""

    def measure(place: Path) -> Measured:
        with running(place, "watch") as sites:
            _make_red(sites, count, size)
            begin = monotonic_ns()
            sites.heal()
            return _when_green(sites, place, count + 1, begin)

    return measure


def _restart(count: int, size: int) -> Measure:
    """The same, but all sites are ended while it is cut off, and started again; nothing is appended then."""

    def measure(place: Path) -> Measured:
        with running(place) as sites:
            _make_red(sites, count, size)
        begin = monotonic_ns()
        with again(place, "watch", timeout_s=_PATIENCE_S) as sites:
            return _when_green(sites, place, count + 1, begin)

    return measure


def _make_red(sites: Sites, count: int, size: int) -> None:
    last = len(sites.loads) - 1
    sites.cut(last)
    sites.ask(sites.loads[0], "latency 1 1", "took")  # the others order again
    sites.ask(sites.loads[last], f"red {count} {size}", "accepted", _PATIENCE_S)


def _when_green(sites: Sites, place: Path, count: int, begin: int) -> Measured:
    deadline = monotonic() + _PATIENCE_S
    for load in sites.loads:
        load.say(f"green {count}")
    for load in sites.loads:
        load.hear("at", deadline)
    green_ms = (monotonic_ns() - begin) / 1e6
    measured = [sites.ask(load, "stood", "stood_ms") for load in sites.loads]
    return Measured(
        [{name: float(str(line[name])) for name in _MEASURES} for line in measured],
        green_ms,
        explain(load_config(place / "site-0.toml")).suspicion_ns / 1e6,
    )
