"""One process, one Spark session, one trace: a window over its events, and all checks, timed. `bench.spark_verify`
starts it with a number of cores, and reads the one line of JSON that it prints.

The session is warmed up on a small trace, and each figure is the median of several turns, so that neither the start
of Spark nor Java's compilation is measured.
"""

import argparse
import resource
import threading
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from reconvene.lab.bench.foreign import Foreign
from reconvene.pipeline.session import open_session
from reconvene.pipeline.traces import Traces, read_traces
from reconvene.pipeline.verify.engine import verify_traces
from reconvene.verify.report import Report

__all__ = ["Measured", "main"]

_LOOK_EVERY_S = 0.2
_LOCAL_TRACE_ROWS = 10_000_000


class Measured(msgspec.Struct):
    events: int
    ok: bool
    window_s: float
    verify_s: float
    jvm_peak_mb: float
    """Of the driver's process, which in local mode is the executor too."""
    python_peak_mb: float
    """Of the largest Python worker."""
    scans: float
    """Rows that were read from the input while it was verified, over its events."""
    tasks: int
    """Of the widest stage."""
    foreign_cores: float
    violated: list[str] = []


class Memory:
    """The most memory that this process's descendants used, sampled."""

    def __init__(self) -> None:
        self.jvm_kb = 0
        self.python_kb = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        self.python_kb = max(self.python_kb, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)

    def _watch(self) -> None:
        while not self._over.is_set():
            for _, name, kb in descendants():
                if name == "java":
                    self.jvm_kb = max(self.jvm_kb, kb)
                elif name.startswith("python"):
                    self.python_kb = max(self.python_kb, kb)
            sleep(_LOOK_EVERY_S)


def descendants() -> list[tuple[int, str, int]]:
    """(process, program, kB resident) of every descendant of this process."""
    parents: dict[int, int] = {}
    memory: dict[int, tuple[str, int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = dict(
                line.split(":\t", 1) for line in (entry / "status").read_text().splitlines() if ":\t" in line
            )
            pid = int(entry.name)
            parents[pid] = int(fields["PPid"])
            memory[pid] = fields["Name"], int(fields.get("VmRSS", "0 kB").split()[0])
        except (OSError, KeyError, ValueError):
            continue  # it has just ended
    below = {_own_pid()}
    grown = True
    while grown:
        grown = False
        for pid, parent in parents.items():
            if parent in below and pid not in below:
                below.add(pid)
                grown = True
    return [(pid, *memory[pid]) for pid in below if pid in memory and pid != _own_pid()]


def _own_pid() -> int:
    return int(Path("/proc/self").resolve().name)


def one_window(traces: Traces) -> DataFrame:
    """For comparison: each event with the one before it in its node's file."""
    order = Window.partitionBy("run", "node").orderBy("place")
    grown = F.col("n") > F.lag("n").over(order)
    return traces.events.select(grown.alias("grown")).agg(F.count_if(~F.col("grown")), F.count("*"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--master", required=True)
    parser.add_argument("--trace", required=True)
    parser.add_argument("--warm", required=True)
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--memory", default="2g")
    parser.add_argument("--partitions", type=int, default=8)
    given = parser.parse_args()
    conf = {
        "spark.driver.memory": given.memory,
        "spark.sql.shuffle.partitions": str(given.partitions),
        "spark.ui.retainedStages": "10000",  # all of them are looked at in the end
    }
    with open_session(given.master, conf=conf) as spark:
        print(msgspec.json.encode(_measure(spark, given.trace, given.warm, given.turns)).decode(), flush=True)


def _measure(spark: SparkSession, trace: str, warm: str, turns: int) -> Measured:
    for _ in range(2):
        small = read_traces(spark, [warm])
        one_window(small).collect()
        verify_traces(spark, small)
    memory = Memory()
    traces = read_traces(spark, [trace])
    traces.close()  # else the verification would find what was surveyed here
    reports = []
    windows_s: list[float] = []
    verifies_s: list[float] = []
    seen = _stages(spark)
    with Foreign(lambda: [pid for pid, _, _ in descendants()]) as foreign:
        for _ in range(turns):
            windows_s.append(_timed(lambda: one_window(traces).collect()))
            before = _stages(spark)
            verifies_s.append(_timed(lambda: reports.append(_verify(spark, trace))))
            seen = {number: stage for number, stage in _stages(spark).items() if number not in before}
    memory.stop()
    return Measured(
        events=reports[0].events,
        ok=reports[0].ok,
        window_s=median(windows_s),
        verify_s=median(verifies_s),
        jvm_peak_mb=memory.jvm_kb / 1024,
        python_peak_mb=memory.python_kb / 1024,
        scans=sum(records for _, records in seen.values()) / reports[0].events,
        tasks=max(tasks for tasks, _ in seen.values()),
        foreign_cores=foreign.cores,
        violated=reports[0].violated(),
    )


def _verify(spark: SparkSession, trace: str) -> Report:
    with read_traces(spark, [trace]) as traces:
        return verify_traces(spark, traces)


def _stages(spark: SparkSession) -> dict[int, tuple[int, int]]:
    """By number: the tasks of each stage, and the records that it has read. Of what Spark keeps itself, a batch of
    thousands of rows is one record."""
    jvm: Any = spark._jvm
    nothing = jvm.java.util.ArrayList
    quantiles = spark.sparkContext._gateway.new_array(jvm.double, 0)  # type: ignore[union-attr]
    store = spark.sparkContext._jsc.sc().statusStore()
    stages = store.stageList(nothing(), False, False, quantiles, nothing())
    return {
        stages.apply(at).stageId(): (stages.apply(at).numCompleteTasks(), stages.apply(at).inputRecords())
        for at in range(stages.size())
    }


def _timed(work: Callable[[], object]) -> float:
    begun = perf_counter()
    work()
    return perf_counter() - begun


if __name__ == "__main__":
    main()
