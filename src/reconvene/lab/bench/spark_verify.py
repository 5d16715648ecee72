"""What verification on Spark costs: by the number of events, in one run and in a thousand, on one core and on two.

It is compared with one window over the same events in the same session. The traces are made on Spark too. The local
engine is measured too, as far as its memory suffices.
"""

import math
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import msgspec

from reconvene.errors import Unavailable
from reconvene.lab.bench.sheet import Settings, Sheet, Table, number, verdict
from reconvene.lab.bench.spark_verify_child import Measured

__all__ = ["run"]

SIZES = (1_000_000, 10_000_000)
QUICK_SIZES = (100_000, 400_000)
RUNS = (1, 1_000)
QUICK_RUNS = (1, 20)
CORES = (1, 2)
LOCAL_MOST = 10_000_000
WARM = 20_000

WINDOW_BAR = 12.0
CORES_BAR = 0.7
EXPONENT_BAR = 1.1

_PATIENCE_S = 7200


@dataclass(frozen=True)
class _Point:
    events: int
    runs: int
    cores: int


def run(settings: Settings) -> Sheet:
    sheet = Sheet("spark-verify")
    sizes = QUICK_SIZES if settings.quick else SIZES
    runs = QUICK_RUNS if settings.quick else RUNS
    points = [_Point(events, of, cores) for events in sizes for of in runs for cores in CORES]
    found: dict[_Point, Measured] = {}
    with TemporaryDirectory(prefix="reconvene-bench-") as place:
        folder = Path(place)
        settings.progress("making traces", 0, len(points))
        _make(folder, [(events, of) for events in sizes for of in runs])
        for done, point in enumerate(points):
            settings.progress(f"{point.events:,} events, {point.runs} runs, {point.cores} cores", done, len(points))
            found[point] = _measure(folder, point)
        local = {size: _local(folder, size) for size in sizes if size <= LOCAL_MOST}
    _add_points(sheet, found, local)
    _add_bars(sheet, found, sizes, runs)
    return sheet


def _make(folder: Path, wanted: list[tuple[int, int]]) -> None:
    """Makes every trace once, as Parquet, in a session of its own."""
    from reconvene.lab.generate import generate, recipe, write_traces
    from reconvene.pipeline.session import open_session

    with open_session() as spark:
        for events, runs in [(WARM, 1), *wanted]:
            changes = 4 if runs == 1 else 2
            how = recipe(events, runs=runs, changes=changes)
            write_traces(generate(spark, how), folder / _name(events, runs))


def _name(events: int, runs: int) -> str:
    return f"made-{events}-{runs}"


def _measure(folder: Path, point: _Point) -> Measured:
    command = [sys.executable, "-m", "reconvene.lab.bench.spark_verify_child", "--cores", str(point.cores)]
    command += ["--trace", str(folder / _name(point.events, point.runs)), "--warm", str(folder / _name(WARM, 1))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    if done.returncode:
        raise Unavailable(f"verifying {point.events:,} events failed: {done.stderr.strip().splitlines()[-1:]}")
    return msgspec.json.decode(done.stdout, type=Measured)


def _local(folder: Path, events: int) -> tuple[float, float]:
    """Seconds and peak MB of the local engine, in a process of its own, for one run of so many events."""
    command = [sys.executable, "-m", "reconvene", "verify", str(folder / _name(events, 1)), "--json"]
    begun = perf_counter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    if done.returncode:
        raise Unavailable(f"the local engine failed: {done.stderr.strip()}")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return perf_counter() - begun, max(peak, before) / 1024


def _add_points(sheet: Sheet, found: dict[_Point, Measured], local: dict[int, tuple[float, float]]) -> None:
    lines = []
    for point, measured in found.items():
        work = f"verify {point.events:,} events in {point.runs:,} runs, {point.cores} cores"
        rate, ratio = measured.events / measured.verify_s, measured.verify_s / measured.window_s
        sheet.add(work, "spark", rate, "events/s", "one window", ratio)
        sheet.add(f"{work}: memory", "spark", measured.jvm_peak_mb, "MB")
        lines.append([
            f"{point.events:,}", f"{point.runs:,}", str(point.cores), number(measured.verify_s), number(rate),
            number(ratio), number(measured.jvm_peak_mb), number(measured.python_peak_mb),
            "accepted" if measured.ok else f"rejected: {', '.join(measured.violated)}",
        ])  # fmt: skip
    for events, (seconds, peak) in local.items():
        sheet.add(f"verify {events:,} events in 1 runs, 1 cores", "local", events / seconds, "events/s")
        shown = number(seconds), number(events / seconds)
        lines.append([f"{events:,}", "1", "1 (local engine)", *shown, "", number(peak), "", ""])
    columns = ("events", "runs", "cores", "s", "events/s", "windows", "JVM MB", "worker MB", "")
    sheet.tables.append(Table.of("verify on Spark, session start excluded", columns, lines))


def _add_bars(sheet: Sheet, found: dict[_Point, Measured], sizes: tuple[int, ...], runs: tuple[int, ...]) -> None:
    large = sizes[-1]
    for of in runs:
        took = {cores: found[_Point(large, of, cores)].verify_s for cores in CORES}
        windows = took[2] / found[_Point(large, of, 2)].window_s
        exponent = math.log(took[2] / found[_Point(sizes[0], of, 2)].verify_s) / math.log(large / sizes[0])
        speedup = took[2] / took[1]
        what = f"{large:,} events in {of:,} runs"
        sheet.add(f"{what}: two cores over one", "spark", speedup, "ratio", "bar", speedup / CORES_BAR)
        sheet.add(f"{what}: growth", "spark", exponent, "power", "bar", exponent / EXPONENT_BAR)
        sheet.notes.append(
            f"{what}: {windows:.1f} windows (at most {WINDOW_BAR:.0f}: {verdict(windows <= WINDOW_BAR)}),"
            f" two cores take {speedup:.2f} of one (at most {CORES_BAR}: {verdict(speedup <= CORES_BAR)}),"
            f" grows with the events to the power of {exponent:.2f}"
        )
