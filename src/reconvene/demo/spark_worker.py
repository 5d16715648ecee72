"""The process that `spark.SparkBeside` starts: one session, and what is asked of it, in the order of the story.

python -m reconvene.demo.spark_worker FD
"""

import os
import select
import socket
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct
from pyspark.sql import SparkSession
from pyspark.sql.functions import count

from reconvene.demo.spark import (
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
from reconvene.errors import ReconveneError, Unavailable
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

__all__ = ["count_votes", "main"]

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

T = TypeVar("T", bound=Struct)


class Line:
    """To the demo. Its end is an end of file, which raises `EOFError`."""

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
        """There is an order, or an end."""
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
        _follow(spark, follow, line)
        line.tell(count_votes(spark, Path(follow.table)))
        line.tell(Judged(_judge(spark, line.hear(Judge), lambda what: line.tell(Doing(what)))))


def _follow(spark: SparkSession, order: Follow, line: Line) -> None:
    """Until the table has what `Close` asks for."""
    close: Close | None = None
    reached = 0
    with hold(Path(order.table)):
        options = {"addresses": ",".join(order.addresses)}
        export = export_log(spark, options, Path(order.table), every=_EVERY)
        while close is None or reached < close.position:
            if export.wait(_LOOK_S):
                raise Unavailable("the stream has ended by itself")
            told = export.progress()
            if told is not None and told.position != reached:
                reached = told.position
                line.tell(Progress(reached, told.rows))
            if close is None and line.waits():
                close = line.hear(Close)
        export.stop()


def count_votes(spark: SparkSession, table: Path) -> Table:
    """A vote for someone is always the same bytes, so few payloads have to be looked into."""
    with plain_errors():
        rows = spark.read.parquet(str(table / "log"))
        found = rows.groupBy("payload").agg(count("*").alias("rows")).collect()
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
