"""Appends to a replicated log on disk: throughput, latency, and the effect of a lost replica, for us and other
systems.

Each system has three replicas on this machine, with their data on the same disk; every round measures all systems.
`durable_system` is the interface of a system. Add another one to `SYSTEMS`, or to `OWN` if it is ours.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from reconvene.errors import Unavailable
from reconvene.lab.bench.durable_bars import tell_bars
from reconvene.lab.bench.durable_disk import disk_of, folder, syncs_a_second
from reconvene.lab.bench.durable_own import Reconvene
from reconvene.lab.bench.durable_system import Durable, Replicas, Way
from reconvene.lab.bench.foreign import Foreign
from reconvene.lab.bench.peers.etcd import Etcd
from reconvene.lab.bench.peers.nats import Nats
from reconvene.lab.bench.peers.pysyncobj import PySyncObj
from reconvene.lab.bench.peers.zookeeper import Zookeeper
from reconvene.lab.bench.rounds import in_turns, spread
from reconvene.lab.bench.sheet import Settings, Sheet, Table, number, percentile, size_of

__all__ = ["AGAINST", "OWN", "SYSTEMS", "run"]

SIZES = (100, 1024)
SMALL = SIZES[0]
SECONDS = 2.0
QUICK_SECONDS = 0.5
COUNT = 1000
QUICK_COUNT = 200
MINORITY_S = 10.0
"""Longer than any peer that answers at all waits before it refuses."""
QUICK_MINORITY_S = 1.0
DISK_S = 0.5

OWN: tuple[Callable[[], Durable], ...] = (Reconvene,)
"""Our systems: always measured, and before the peers."""
SYSTEMS: dict[str, Callable[[], Durable]] = {
    "etcd": Etcd,
    "nats": Nats,
    "zookeeper": Zookeeper,
    "pysyncobj": PySyncObj,
}
"""By the name of the peer."""
AGAINST = Etcd.name
"""The system with whose figures the others are compared."""

Key = tuple[str, str]
"""Work and system."""


@dataclass(frozen=True, slots=True)
class Figure:
    value: float
    unit: str
    foreign_cores: float
    note: str
    """About the disk, or the answer to refused writes."""


def run(settings: Settings) -> Sheet:
    sheet = Sheet("durable")
    systems = [make() for make in (*OWN, *(SYSTEMS[peer] for peer in settings.peers))]
    if not systems:
        raise Unavailable(f"bench durable: nothing to measure without --peer {','.join(SYSTEMS)}")
    sheet.notes.append(_where())
    measures: dict[str, Callable[[], dict[Key, Figure]]] = {"disk": _disk}
    for system in systems:
        measures[system.name] = _measure(system, settings, sheet)
    found = in_turns(sheet, settings, measures)
    if not any(system != "disk" for _, system in found):
        raise Unavailable(sheet.notes[-1])
    _add_figures(sheet, found)
    tell_bars(sheet, [make().name for make in OWN])
    sheet.notes += [
        "an append of a peer counts when the peer acknowledges it: at a majority, synced or not as the table says",
        "one of three lost: of a peer, a replica that does not lead is killed; minority: the one that leads is left "
        "alone, and asked for one append after another",
    ]
    return sheet


def _disk() -> dict[Key, Figure]:
    """In every round: the disk is shared too, and processor time does not show what others do to it."""
    with folder() as place, Foreign() as foreign:
        rate = syncs_a_second(place, DISK_S)
    return {("fdatasync of 4 KiB, one process alone", "disk"): Figure(rate, "syncs/s", foreign.cores, "")}


def _where() -> str:
    with folder() as place:
        disk = disk_of(place)
    where = "a file system that the system does not name" if disk is None else f"{disk.kind} ({disk.device})"
    return f"data of all replicas under {place.parent}, {where}"


def _measure(system: Durable, settings: Settings, sheet: Sheet) -> Callable[[], dict[Key, Figure]]:
    def measure() -> dict[Key, Figure]:
        found: dict[Key, Figure] = {}
        try:
            with folder() as place, system.running(place, settings.quick) as replicas:
                for step in (_throughput, _latency, _without_one, _minority):
                    found |= step(system, replicas, settings.quick)
        except Unavailable as error:
            # Earlier figures stay: a system that fails without a replica still has its others.
            if not found:
                raise
            sheet.notes.append(f"{system.name}: not all figures of a round: {error}")
        return found

    return measure


def _throughput(system: Durable, replicas: Replicas, quick: bool) -> dict[Key, Figure]:
    found: dict[Key, Figure] = {}
    for size in SIZES:
        for way in _ways(system, quick):
            figure = _loaded(system, replicas, size, way, quick)
            key = (f"append {size_of(size)}", _named(system, way))
            if key not in found or figure.value > found[key].value:
                found[key] = figure
    return found


def _latency(system: Durable, replicas: Replicas, quick: bool) -> dict[Key, Figure]:
    found: dict[Key, Figure] = {}
    for size in SIZES[:1] if quick else SIZES:
        with Foreign(replicas.pids) as foreign:
            took = replicas.latency(size, QUICK_COUNT if quick else COUNT)
        for percent in (50, 99):
            value = percentile(took, percent)
            work = f"append {size_of(size)} alone, p{percent}"
            found[work, system.name] = Figure(value, "ms", foreign.cores, system.synced)
    return found


def _without_one(system: Durable, replicas: Replicas, quick: bool) -> dict[Key, Figure]:
    replicas.lose_one()
    work = f"append {size_of(SMALL)}, one of three lost"
    return {(work, system.name): _loaded(system, replicas, SMALL, system.ways[0], quick)}


def _minority(system: Durable, replicas: Replicas, quick: bool) -> dict[Key, Figure]:
    with Foreign(replicas.pids) as foreign:
        got = replicas.minority(SMALL, QUICK_MINORITY_S if quick else MINORITY_S)
    work = f"append {size_of(SMALL)}, accepted in a minority"
    return {(work, system.name): Figure(got.accepted_per_second, "appends/s", foreign.cores, got.answer)}


def _loaded(system: Durable, replicas: Replicas, size: int, way: Way, quick: bool) -> Figure:
    with Foreign(replicas.pids) as foreign:
        rate = replicas.throughput(size, QUICK_SECONDS if quick else SECONDS, way)
    return Figure(rate, "appends/s", foreign.cores, way.synced or system.synced)


def _ways(system: Durable, quick: bool) -> Sequence[Way]:
    if not quick:
        return system.ways
    first: dict[str, Way] = {}
    for way in system.ways:
        first.setdefault(way.name, way)
    return list(first.values())


def _named(system: Durable, way: Way) -> str:
    return f"{system.name}, {way.name}" if way.name else system.name


def _add_figures(sheet: Sheet, found: dict[Key, list[Figure]]) -> None:
    lines = []
    works = list(dict.fromkeys(work for work, _ in found))
    for work in works:
        theirs = found.get((work, AGAINST))
        against = median(figure.value for figure in theirs) if theirs else 0.0
        for (of_work, system), figures in found.items():
            if of_work != work:
                continue
            values = [figure.value for figure in figures]
            value, unit = median(values), figures[0].unit
            foreign = median(figure.foreign_cores for figure in figures)
            ratio = value / against if against and system != AGAINST else None
            sheet.add(work, system, value, unit, None if ratio is None else AGAINST, ratio)
            sheet.add(f"{work}: others' processor time", system, foreign, "cores")
            lines.append(
                [
                    *(work, system, number(value), unit, spread(values, number)),
                    *("" if ratio is None else f"{ratio:.2f}", f"{foreign:.2f}", figures[-1].note),
                ]
            )
    columns = (
        *("work", "system", "value", "unit", "lowest–highest", f"/ {AGAINST}", "others' cores"),
        "sync before it counts; the answer",
    )
    sheet.tables.append(Table.of("three replicas on one disk", columns, lines))
