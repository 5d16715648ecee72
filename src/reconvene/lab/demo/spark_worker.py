"""The process that `spark.SparkBeside` starts: one Spark session, which carries out the demo's orders one by one.

python -m reconvene.lab.demo.spark_worker FD
"""

import os
import select
import socket
import sys
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct
from pyspark.sql import SparkSession
from pyspark.sql.functions import count as count_rows

from reconvene.errors import ReconveneError, Unavailable
from reconvene.lab.demo.spark import (
    Close,
    Doing,
    Failed,
    Follow,
    Judge,
    Judged,
    Progress,
    Started,
    Table,
    decode_order,
    encode_line,
)
from reconvene.objects.tally import Addition
from reconvene.pipeline.analyze.measure import measure
from reconvene.pipeline.analyze.moments import TableSource, diagrams_of_tables
from reconvene.pipeline.export import export_log, hold
from reconvene.pipeline.refusals import plain_errors
from reconvene.pipeline.session import open_session
from reconvene.pipeline.traces import read_traces
from reconvene.pipeline.verify.engine import verify_traces
from reconvene.report.analysis_page import analysis_page
from reconvene.report.moment import within
from reconvene.report.page import write_page
from reconvene.report.verify_page import write_verify_report
from reconvene.verify.report import Report

__all__ = ["count_votes", "main", "patiently"]

_CONF = {
    "spark.sql.shuffle.partitions": "2",
    # Many small jobs: compiling them well would take Java longer than running them.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.memory": "1g",
}
_MASTER = "local[2,4]"
_LESS_PRIORITY = 5
_LOOK_S = 0.2
_EVERY = "500 milliseconds"
_LATE = "failed to connect back"
"""In Spark's error about a Python process that did not start in time."""
_TRIES = 10

T = TypeVar("T", bound=Struct)
R = TypeVar("R")


class Line:
    """The connection to the demo. When the demo ends, it raises `EOFError`."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._file = self._socket.makefile("rb")

    def tell(self, said: Struct) -> None:
        self._socket.sendall(encode_line(said))

    def hear(self, form: type[T]) -> T:
        line = self._file.readline()
        if not line:
            raise EOFError
        order = decode_order(line)
        assert isinstance(order, form), "orders come in the story's order"
        return order

    def waits(self) -> bool:
        """Whether there is an order, or the end."""
        return bool(select.select([self._socket], [], [], 0)[0])


def main(descriptor: int) -> int:
    os.nice(_LESS_PRIORITY)
    line = Line(descriptor)
    try:
        _work(line)
    except EOFError:
        return 0
    except ReconveneError as error:
        line.tell(Failed(" ".join(str(error).split())))
        return 1
    return 0


def _work(line: Line) -> None:
    with open_session(_MASTER, app="Wiredville", conf=_CONF) as spark:
        line.tell(Started())
        follow = line.hear(Follow)
        following = _Following(spark, follow, line)
        with hold(Path(follow.table)):
            patiently(following.run)
        line.tell(count_votes(spark, Path(follow.table)))
        judge = line.hear(Judge)
        line.tell(Judged(patiently(lambda: _judge(spark, judge, lambda what: line.tell(Doing(what))))))


def patiently(work: Callable[[], R]) -> R:
    """Repeats the work if Spark gave up a Python process because it did not start within 10 s, as on a busy machine:
    that time is fixed in Spark. The work must be repeatable."""
    for tried in count(1):
        try:
            return work()
        except Unavailable as error:
            if _LATE not in str(error) or tried == _TRIES:
                raise
    raise AssertionError("it returns or raises")


class _Following:
    """A stream that copies the log to the table until `Close`. A second `run` continues."""

    def __init__(self, spark: SparkSession, order: Follow, line: Line) -> None:
        self._spark = spark
        self._order = order
        self._line = line
        self._close: Close | None = None
        self._reached = 0
        self._rows = 0
        """Rows read by streams that were stopped."""

    def run(self) -> None:
        options = {"addresses": ",".join(self._order.addresses)}
        export = export_log(self._spark, options, Path(self._order.table), every=_EVERY)
        rows = 0
        try:
            while self._close is None or self._reached < self._close.position:
                if export.wait(_LOOK_S):
                    raise Unavailable("the stream has ended by itself")
                progress = export.progress()
                if progress is not None and progress.position != self._reached:
                    self._reached, rows = progress.position, progress.rows
                    self._line.tell(Progress(self._reached, self._rows + rows))
                if self._close is None and self._line.waits():
                    self._close = self._line.hear(Close)
        finally:
            self._rows += rows
            export.stop()


def count_votes(spark: SparkSession, table: Path) -> Table:
    """All votes for one candidate are the same bytes, so only a few payloads have to be decoded."""
    with plain_errors():
        rows = spark.read.parquet(str(table / "log"))
        found = rows.groupBy("payload").agg(count_rows("*").alias("rows")).collect()
        positions = rows.select("position").distinct().count()
    counts: Counter[str] = Counter()
    for row in found:
        addition = msgspec.msgpack.decode(row["payload"], type=Addition)
        counts[addition.key] += addition.amount * row["rows"]
    return Table(sum(row["rows"] for row in found), positions, dict(counts))


def _judge(spark: SparkSession, order: Judge, tell: Callable[[str], None]) -> Report:
    tell("reading the traces")
    with plain_errors(), read_traces(spark, [order.trace]) as found:
        report = verify_traces(spark, found, tell=tell)
        write_verify_report(Path(order.checks), report, diagrams_of_tables(report, found))
        tell("measuring")
        analysis = measure(found, [order.trace])
        tell("drawing")
        source = TableSource(found)
        moment = within(source, order.shown[0] - source.start, order.shown[1] - source.start)
        page = analysis_page(analysis, [("While the network mends", moment)], report)
        write_page(Path(order.report), page)
    return report


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
