"""Messages a second through three sites that all send: a message counts once every site's application has it.

Our sites run sealed and not sealed, on loopback and in network namespaces, with trains, which are the default, and
without, and with frames that the kernel fragments. Links between namespaces carry true packets. Corosync runs on the
same paths, in turns with ours. Bare datagrams, as many and as large as ours, show the limit.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import mean, median

from reconvene.errors import Unavailable
from reconvene.lab import namespaces
from reconvene.lab.bench import sites
from reconvene.lab.bench.limit import Limit, bare
from reconvene.lab.bench.peers import cpg
from reconvene.lab.bench.peers.corosync import Options
from reconvene.lab.bench.rounds import in_turns, spread
from reconvene.lab.bench.sheet import Settings, Sheet, Table, number, size_of, verdict
from reconvene.lab.bench.sites import Setup

__all__ = ["BARS", "run"]

SIZES = (100, 1024, 10_240)
FRAMES = (8_900, 60_000)
"""Larger than an MTU of 1500."""
SECONDS = 2.0
QUICK_SECONDS = 1.0

DEFAULT = "corosync udpu, MTU 1500"
NOT_RR = "corosync udpu, sched_rr: no, MTU 1500"
TUNED = "corosync udpu tuned, MTU 9000"
COROSYNC = {
    DEFAULT: Options(),
    NOT_RR: Options(sched_rr=False),
    TUNED: Options(mtu=9000, netmtu=8900, window_size=256, max_messages=64),
}
STALLS = {(DEFAULT, 10_240), (NOT_RR, 10_240)}
"""Corosync fails here, for an unknown reason: no figure."""

QUICK_SIZES = {DEFAULT: (100, 1024), NOT_RR: (100,), TUNED: (1024, 10_240)}


@dataclass(frozen=True, slots=True)
class Bar:
    size: int
    mtu: int
    against: tuple[str, ...]
    """The best of these."""
    times: float
    what: str


BARS = (
    Bar(100, 1500, (DEFAULT,), 4.0, "its default"),
    Bar(1024, 1500, (DEFAULT,), 2.0, "its default at MTU 1500"),
    Bar(1024, 9000, (DEFAULT, NOT_RR, TUNED), 2.0, "its best"),
    Bar(10_240, 9000, (TUNED,), 1.5, "its best"),
)

Key = tuple[str, int]
"""System and size."""


@dataclass(frozen=True, slots=True)
class Figure:
    per_second: float
    foreign_cores: float
    ours: sites.Throughput | None = None


def run(settings: Settings) -> Sheet:
    sheet = Sheet("agreed")
    setups = _setups(settings, sheet)
    measures: dict[str, Callable[[], dict[Key, Figure]]] = {}
    for setup, sizes in setups.items():
        if "corosync" in settings.peers:
            for system in _peers_beside(setup, settings):
                measures[system] = _theirs(system, settings)
        measures[setup.system] = _ours(setup, sizes, settings)
    found = in_turns(sheet, settings, measures)
    _add_figures(sheet, found, setups)
    if settings.peers:
        _add_bars(sheet, found)
        sheet.notes.append(
            "no figure for Corosync with 10 KiB over MTU 1500: there it stalls, for a reason not found"
        )
    _add_limits(sheet, settings, found, setups)
    return sheet


def _setups(settings: Settings, sheet: Sheet) -> dict[Setup, tuple[int, ...]]:
    """The setups that are measured, with their sizes. Setups of one path are adjacent."""
    reason = namespaces.available()
    if reason is not None:
        sheet.notes.append(f"on loopback only: {reason}")
    if settings.quick:
        setups = {
            Setup(): SIZES,
            Setup(mtu=1500): (100, 1024),
            Setup(mtu=1500, trains=False): (100, 1024),
            Setup(mtu=1500, frame_bytes=60_000): (1024,),
            Setup(mtu=9000): SIZES,
            Setup(mtu=9000, trains=False): (1024, 10_240),
            Setup(mtu=9000, sealed=False): (1024,),
        }
    else:
        kinds = [Setup()]
        for mtu, frames in ((1500, FRAMES), (9000, FRAMES[-1:])):
            kinds += [Setup(mtu=mtu), Setup(mtu=mtu, trains=False)]
            kinds += [Setup(mtu=mtu, frame_bytes=frame) for frame in frames]
        setups = {replace(kind, sealed=sealed): SIZES for kind in kinds for sealed in (True, False)}
    return {setup: sizes for setup, sizes in setups.items() if setup.mtu is None or reason is None}


def _peers_beside(setup: Setup, settings: Settings) -> tuple[str, ...]:
    """The peers that are measured before this setup."""
    if setup != Setup(mtu=setup.mtu):
        return ()
    return {1500: (DEFAULT, NOT_RR), 9000: (TUNED,)}.get(setup.mtu or 0, ())


def _ours(setup: Setup, sizes: tuple[int, ...], settings: Settings) -> Callable[[], dict[Key, Figure]]:
    def measure() -> dict[Key, Figure]:
        seconds = QUICK_SECONDS if settings.quick else SECONDS
        with sites.running(setup, "throughput") as running:
            found = {(setup.system, size): running.throughput(size, seconds) for size in sizes}
        return {key: Figure(got.per_second, got.foreign_cores, got) for key, got in found.items()}

    return measure


def _theirs(system: str, settings: Settings) -> Callable[[], dict[Key, Figure]]:
    options = COROSYNC[system]

    def measure() -> dict[Key, Figure]:
        found = {}
        for size in SIZES:
            if (system, size) in STALLS or (settings.quick and size not in QUICK_SIZES[system]):
                continue
            got = cpg.throughput(size, QUICK_SECONDS if settings.quick else SECONDS, options)
            if options.sched_rr and not got.real_time:
                raise Unavailable("real-time scheduling was refused to it")
            found[system, size] = Figure(got.per_second, got.foreign_cores)
        return found

    return measure


def _add_figures(sheet: Sheet, found: dict[Key, list[Figure]], setups: dict[Setup, tuple[int, ...]]) -> None:
    paths = {setup.system: setup.mtu for setup in setups}
    lines = []
    for size in SIZES:
        for (system, of_size), figures in found.items():
            if of_size != size:
                continue
            value = median(figure.per_second for figure in figures)
            against = {1500: DEFAULT, 9000: TUNED}.get(paths.get(system) or 0)
            theirs = found.get((against, size)) if against is not None else None
            ratio = None if theirs is None else value / median(figure.per_second for figure in theirs)
            work = f"agreed {size_of(size)}"
            sheet.add(work, system, value, "messages/s", None if ratio is None else against, ratio)
            sheet.add(f"{work}: others' processor time", system, _foreign(figures), "cores")
            lines.append(
                [
                    work,
                    system,
                    number(value),
                    spread([figure.per_second for figure in figures], number),
                    "" if ratio is None else f"{ratio:.2f}",
                    _cores(figures),
                    f"{_foreign(figures):.2f}",
                ]
            )
    columns = ("work", "system", "messages/s", "lowest–highest", "/ Corosync", "cores by site", "others' cores")
    sheet.tables.append(Table.of("delivered at all three sites, a second", columns, lines))
    sheet.notes.append(
        f"/ Corosync: {DEFAULT}, where the path is that; {TUNED} (window_size 256, max_messages 64, netmtu 8900) "
        "where it is that; nothing is encrypted there"
    )


def _foreign(figures: list[Figure]) -> float:
    return median(figure.foreign_cores for figure in figures)


def _cores(figures: list[Figure]) -> str:
    used = [mean(figure.ours.cpu) for figure in figures if figure.ours is not None]
    return f"{median(used):.2f}" if used else ""


def _add_bars(sheet: Sheet, found: dict[Key, list[Figure]]) -> None:
    lines = []
    for bar in BARS:
        theirs = {
            system: median(figure.per_second for figure in found[system, bar.size])
            for system in bar.against
            if (system, bar.size) in found
        }
        if not theirs:
            continue
        against = max(theirs, key=lambda system: theirs[system])
        ours = Setup(mtu=bar.mtu)
        figures = found.get((ours.system, bar.size))
        if figures is None:
            continue
        ratio = median(figure.per_second for figure in figures) / theirs[against]
        work = f"agreed {size_of(bar.size)}, MTU {bar.mtu}: at least {bar.times:g} times {bar.what}"
        sheet.add(work, ours.system, ratio, "times", against, ratio / bar.times)
        lines.append([work, ours.system, against, f"{ratio:.2f}", verdict(ratio >= bar.times)])
        if ratio < bar.times:
            sheet.notes.append(f"missed: {work}: {ratio:.2f}")
    sheet.tables.append(Table.of("bars, with our default settings", ("bar", "system", "against", "times", ""), lines))


def _add_limits(
    sheet: Sheet, settings: Settings, found: dict[Key, list[Figure]], setups: dict[Setup, tuple[int, ...]]
) -> None:
    """As many datagrams of the same mean size: their cost depends on their number and on their bytes."""
    chosen = [
        (setup, size)
        for setup, sizes in setups.items()
        for size in sizes
        if setup.sealed and (size == 100 or not settings.quick) and (setup.system, size) in found
    ]
    lines = []
    for step, (setup, size) in enumerate(chosen):
        settings.progress(f"bare datagrams, {setup.path}", step, len(chosen))
        ours = [figure.ours for figure in found[setup.system, size] if figure.ours is not None]
        seconds = QUICK_SECONDS if settings.quick else SECONDS
        sent = median(got.total("sent_datagrams") for got in ours) / setup.sites
        length = round(sum(got.total("sent_bytes") for got in ours) / max(1, sum(map(_datagrams, ours))))
        try:
            limit = bare(setup, length, max(1, round(sent / (setup.sites - 1))))
        except Unavailable as error:
            sheet.notes.append(f"bare datagrams, {setup.path}: no figure: {error}")
            continue
        rate = sent / seconds
        work = f"agreed {size_of(size)}: datagrams that a site sends"
        loop = f"bare loop, {setup.path}, {length:,} B"
        sheet.add(work, setup.system, rate, "datagrams/s", loop, rate / limit.per_second)
        sheet.add(work, loop, limit.per_second, "datagrams/s")
        lines.append(_limit_line(size, setup, rate, length, ours, limit))
    columns = (
        *("work", "system", "datagrams/s", "mean bytes", "messages each", "bare loop, datagrams/s", "of the limit"),
        "bare loop, cores each",
    )
    sheet.tables.append(Table.of("against datagrams alone: what one site sends a second", columns, lines))


def _datagrams(got: sites.Throughput) -> int:
    return got.total("sent_datagrams")


def _limit_line(
    size: int, setup: Setup, rate: float, length: int, ours: list[sites.Throughput], limit: Limit
) -> list[str]:
    each = median(got.total("sent_messages") * (setup.sites - 1) / max(1, _datagrams(got)) for got in ours)
    return [
        f"agreed {size_of(size)}", setup.system, number(rate), number(length), number(each),
        number(limit.per_second), f"{rate / limit.per_second:.2f}", f"{limit.cpu:.2f}",
    ]  # fmt: skip
