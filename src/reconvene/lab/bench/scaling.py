"""Throughput and processor time by the number of sites, on loopback; and where the time goes."""

from collections import Counter
from collections.abc import Callable
from statistics import median

from reconvene.lab.bench import sites
from reconvene.lab.bench.rounds import in_turns, spread
from reconvene.lab.bench.sheet import Settings, Sheet, Table, number, size_of
from reconvene.lab.bench.sites import Setup, Throughput
from reconvene.lab.load.sampler import layer_of

__all__ = ["run"]

COUNTS = (2, 3, 5, 8)
SIZE = 100
SECONDS = 2.0
QUICK_SECONDS = 1.0
PROFILED = 3
"""Sites."""
PROFILE_FRAMES = (0, 1_400)
"""Bytes of a frame: from the path, which is loopback, and as on an Ethernet."""
PROFILE_SECONDS = 4.0
TOP = 15


def run(settings: Settings) -> Sheet:
    sheet = Sheet("scaling")
    found = in_turns(sheet, settings, {f"{count} sites": _measure(count, settings) for count in COUNTS})
    lines = []
    for count, figures in found.items():
        rate = median(figure.per_second for figure in figures)
        cpu = [median(used) for used in zip(*(sorted(figure.cpu) for figure in figures), strict=True)]
        cost_us = median(sum(figure.cpu) / len(figure.cpu) / figure.per_second * 1e6 for figure in figures)
        kernel = median(sum(figure.system) / sum(figure.cpu) for figure in figures)
        work, system = f"agreed {size_of(SIZE)}, {count} sites", Setup(count).system
        sheet.add(work, system, rate, "messages/s")
        sheet.add(f"{work}: a message at one site", system, cost_us, "µs of processor time")
        for place, used in enumerate(cpu):
            sheet.add(f"{work}: site {place}, from the least busy", system, used, "cores")
        lines.append(
            [
                str(count),
                number(rate),
                spread([figure.per_second for figure in figures], number),
                number(rate / count),
                " ".join(f"{used:.2f}" for used in cpu),
                f"{kernel * 100:.0f} %",
                number(cost_us),
                f"{median(figure.foreign_cores for figure in figures):.2f}",
            ]
        )
    columns = (
        *("sites", "messages/s", "lowest–highest", "by sender", "cores by site, sorted", "in the kernel"),
        *("µs a message and site", "others' cores"),
    )
    sheet.tables.append(
        Table.of(f"all sites send, {size_of(SIZE)}, sealed, loopback: delivered at all", columns, lines)
    )
    for frame_bytes in PROFILE_FRAMES:
        _add_profile(sheet, settings, Setup(PROFILED, frame_bytes=frame_bytes))
    sheet.notes.append("own time, by looks at all sites; what C code spends counts where Python called it")
    return sheet


def _measure(count: int, settings: Settings) -> Callable[[], dict[int, Throughput]]:
    def measure() -> dict[int, Throughput]:
        with sites.running(Setup(count), "throughput") as running:
            return {count: running.throughput(SIZE, QUICK_SECONDS if settings.quick else SECONDS)}

    return measure


def _add_profile(sheet: Sheet, settings: Settings, setup: Setup) -> None:
    settings.progress(f"where the time goes, {setup.system}", 0, 1)
    with sites.running(setup, "throughput") as running:
        figure = running.throughput(SIZE, QUICK_SECONDS if settings.quick else PROFILE_SECONDS, profile=True)
    total = max(1, sum(figure.profile.values()))
    layers: Counter[str] = Counter()
    functions: Counter[tuple[str, str]] = Counter()
    for (file, function, _), looks in figure.profile.items():
        layers[layer_of(file)] += looks
        functions[file, function] += looks
    frames = f"frames of {setup.frame_bytes:,} B" if setup.frame_bytes else "frames from the path"
    title = f"where the time goes, {setup.sites} sites, {size_of(SIZE)}, {frames}: {total} looks"
    for layer, looks in layers.most_common():
        sheet.add(f"own time, {setup.sites} sites, {frames}", layer, looks / total * 100, "%")
    lines = [[layer, f"{looks / total * 100:.1f} %"] for layer, looks in layers.most_common()]
    sheet.tables.append(Table.of(title, ("layer", "own time"), lines))
    lines = [
        [function, file, f"{looks / total * 100:.1f} %"] for (file, function), looks in functions.most_common(TOP)
    ]
    sheet.tables.append(Table.of(f"the same by function, the first {TOP}", ("function", "file", "own time"), lines))
