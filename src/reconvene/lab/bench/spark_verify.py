"""What verification on Spark costs: by the number of events, in one run and in a thousand, on one core and on two, on
one executor and on two.

It is compared with one window over the same events in the same session. The traces are made on Spark too. The local
engine is measured too, as far as its memory suffices.
"""

import math
import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import msgspec

from reconvene.errors import Unavailable
from reconvene.lab.bench.sheet import Settings, Sheet, Table, number, verdict
from reconvene.lab.bench.spark_verify_child import Measured

__all__ = ["Point", "add_bar", "add_points", "grown", "make_traces", "measure", "run"]

SIZES = (2_000_000, 10_000_000)
QUICK_SIZES = (100_000, 400_000)
RUNS = 1_000
QUICK_RUNS = 20
NODES, SPREAD_NODES = 5, 3
PARTITIONS, MANY_PARTITIONS = 8, 64
WARM = 20_000
TURNS = 3

WINDOW_BAR = 6.0
CORES_BAR = 0.65
WORKERS_BAR = 0.75
EXPONENT_BAR = 1.05
SCANS_BAR = 2.0
LOCAL_BAR = 1.0

_PATIENCE_S = 7200


@dataclass(frozen=True)
class Point:
    events: int
    runs: int = 1
    master: str = "local[2,4]"
    nodes: int = NODES
    partitions: int = PARTITIONS

    @property
    def trace(self) -> str:
        return f"made-{self.events}-{self.runs}-{self.nodes}"

    @property
    def said(self) -> str:
        return f"{self.events:,} events in {self.runs:,} runs, {self.master}"


def run(settings: Settings) -> Sheet:
    sheet = Sheet("spark-verify")
    small, large = QUICK_SIZES if settings.quick else SIZES
    two, one, many = (
        Point(large),
        Point(large, master="local[1,4]"),
        Point(large, QUICK_RUNS if settings.quick else RUNS),
    )
    spread = Point(large, nodes=SPREAD_NODES, partitions=MANY_PARTITIONS)
    workers = [Point(large, master=f"local-cluster[{count},1,2048]") for count in (1, 2)]
    points = [Point(small), two, one, many, spread, *workers]
    with TemporaryDirectory(prefix="reconvene-bench-") as place:
        folder = Path(place)
        settings.progress("making traces", 0, len(points))
        make_traces(folder, points)
        found = measure(folder, points, settings)
        local = {small: _local(folder, Point(small), "local"), large: _local(folder, two, "local")}
        chosen_s, _ = _local(folder, Point(small), None)
    add_points(sheet, found, local)
    add_bar(sheet, f"{two.said}: windows over the same events", found[two].verify_s / found[two].window_s, WINDOW_BAR)
    add_bar(sheet, f"{large:,} events: two cores over one", found[two].verify_s / found[one].verify_s, CORES_BAR)
    above = [found[each].verify_s for each in workers]
    add_bar(sheet, f"{large:,} events: two executors of one core over one", above[1] / above[0], WORKERS_BAR)
    add_bar(sheet, f"{small:,} to {large:,} events: growth", grown(found, Point(small), two), EXPONENT_BAR, "power")
    tasks = float(found[spread].tasks)
    what = f"{SPREAD_NODES} nodes, {MANY_PARTITIONS} shuffle partitions: tasks of the widest stage"
    add_bar(sheet, what, tasks, MANY_PARTITIONS, "tasks", least=True)
    add_bar(sheet, f"{two.said}: scans of the input", found[two].scans, SCANS_BAR, "scans")
    seconds, _ = local[small]
    add_bar(
        sheet, f"{small:,} events: Spark over the local engine", found[Point(small)].verify_s / seconds, LOCAL_BAR
    )
    sheet.notes.append(
        f"{small:,} events: without --engine, verify takes {chosen_s / seconds:.2f} of the local engine"
    )
    return sheet


def make_traces(folder: Path, points: Sequence[Point]) -> None:
    """Makes every trace once, as Parquet, in a session of its own."""
    from reconvene.lab.generate import generate, recipe, write_traces
    from reconvene.pipeline.session import open_session

    with open_session() as spark:
        for point in {each.trace: each for each in (Point(WARM), *points)}.values():
            changes = 4 if point.runs == 1 else 2
            how = recipe(point.events, runs=point.runs, nodes=point.nodes, changes=changes)
            write_traces(generate(spark, how), folder / point.trace)


def measure(folder: Path, points: Sequence[Point], settings: Settings) -> dict[Point, Measured]:
    found: dict[Point, Measured] = {}
    for done, point in enumerate(points):
        settings.progress(point.said, done, len(points))
        found[point] = _measure(folder, point, 1 if settings.quick else TURNS)
    return found


def _measure(folder: Path, point: Point, turns: int) -> Measured:
    command = [sys.executable, "-m", "reconvene.lab.bench.spark_verify_child", "--master", point.master]
    command += ["--trace", str(folder / point.trace), "--warm", str(folder / Point(WARM).trace)]
    command += ["--turns", str(turns), "--partitions", str(point.partitions)]
    environment = {**os.environ, "SPARK_WORKER_DIR": str(folder / "work")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    if done.returncode:
        raise Unavailable(f"verifying {point.said} failed: {done.stderr.strip().splitlines()[-1:]}")
    return msgspec.json.decode(done.stdout, type=Measured)


def _local(folder: Path, point: Point, engine: str | None) -> tuple[float, float]:
    """Seconds and peak MB of the command `verify`, in a process of its own, with this engine or without one named."""
    command = [sys.executable, "-m", "reconvene", "verify", str(folder / point.trace), "--json"]
    command += [] if engine is None else ["--engine", engine]
    begun = perf_counter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    if done.returncode:
        raise Unavailable(f"reconvene verify failed: {done.stderr.strip()}")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return perf_counter() - begun, max(peak, before) / 1024


def add_points(sheet: Sheet, found: Mapping[Point, Measured], local: Mapping[int, tuple[float, float]]) -> None:
    lines = []
    for point, measured in found.items():
        work = f"verify {point.said}"
        rate, ratio = measured.events / measured.verify_s, measured.verify_s / measured.window_s
        sheet.add(work, "spark", rate, "events/s", "one window", ratio)
        sheet.add(f"{work}: memory", "spark", measured.jvm_peak_mb, "MB")
        lines.append([
            f"{point.events:,}", f"{point.runs:,}", point.master, number(measured.verify_s), number(rate),
            number(ratio), number(measured.scans), str(measured.tasks), number(measured.jvm_peak_mb),
            number(measured.python_peak_mb), f"{measured.foreign_cores:.2f}",
            "accepted" if measured.ok else f"rejected: {', '.join(measured.violated)}",
        ])  # fmt: skip
    for events, (seconds, peak) in local.items():
        sheet.add(f"verify {events:,} events in 1 runs", "local", events / seconds, "events/s")
        shown = number(seconds), number(events / seconds)
        lines.append([f"{events:,}", "1", "local engine", *shown, "", "", "", number(peak), "", "", ""])
    columns = (
        *("events", "runs", "master", "s", "events/s", "windows", "scans", "tasks", "JVM MB", "worker MB"),
        *("others' cores", ""),
    )
    sheet.tables.append(Table.of("verify on Spark, session start excluded: medians", columns, lines))


def grown(found: Mapping[Point, Measured], small: Point, large: Point) -> float:
    """The power of the number of events with which the time grows."""
    return math.log(found[large].verify_s / found[small].verify_s) / math.log(large.events / small.events)


def add_bar(sheet: Sheet, what: str, value: float, bar: float, unit: str = "ratio", *, least: bool = False) -> None:
    """A row of its own, and a note that says whether the bar is met."""
    sheet.add(what, "spark", value, unit, "bar", value / bar)
    met = value >= bar if least else round(value, 2) <= bar
    sheet.notes.append(f"{what}: {value:.2f} (at {'least' if least else 'most'} {bar:g}: {verdict(met)})")
