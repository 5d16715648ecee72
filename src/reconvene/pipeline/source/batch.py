"""`spark.read.format("reconvene")`: what is in the log now, or between two positions."""

import logging
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from reconvene.entries import Color, Entry
from reconvene.pipeline.first_line import first_line, first_line_of_each
from reconvene.pipeline.source.clock import Clock, ClockState
from reconvene.pipeline.source.options import parse_options
from reconvene.pipeline.source.pushdown import EVERY, Pushing, Wanted
from reconvene.pipeline.source.ranges import clock_at, first_position, last_position, make_plan, partitions_of
from reconvene.pipeline.source.reading import LogPartition, check_schema, read_partition
from reconvene.pipeline.source.replicas import Replicas, Survey
from reconvene.pipeline.source.rows import Dated, pending_row

__all__ = ["BatchReader", "tentative_rows"]

_log = logging.getLogger("reconvene.source")


class BatchReader(DataSourceReader):
    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._options = parse_options(given)
        self._schema = schema
        check_schema(self._options, schema)
        self._wanted = EVERY

    @property
    def pushFilters(self) -> Pushing:  # noqa: N802
        return Pushing(self._want)

    def _want(self, wanted: Wanted) -> None:
        self._wanted = wanted

    @first_line
    def partitions(self) -> list[InputPartition]:
        """Raises Unavailable where no replica answers, Rejected where the log does not have what is asked for."""
        options = self._options
        with Replicas(options.access) as replicas:
            # First what is not ordered: what becomes ordered meanwhile is then in both, and left out of the former.
            pending = replicas.pending() if options.tentative else {}
            survey = replicas.survey(settled=True)
            start = first_position(options.start, survey, options.fail_on_data_loss)
            stop = max(last_position(options.end, survey), start)
            start = self._wanted.start(start, stop)
            counters: dict[str, int] = {}
            clock = clock_at(replicas, survey.base, start, counters)
            plan = make_plan(replicas, options, start, stop, clock, counters=counters, wanted=self._wanted)
            found: list[InputPartition] = list(partitions_of(options, plan))
        if options.tentative:
            _complain(survey, pending)
            rows = tuple(tentative_rows(pending.values(), counters, plan.clock))
            found.append(LogPartition(len(found), (), rows))
        return found

    @first_line_of_each
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options, self._schema, partition, patient=False)


def _complain(survey: Survey, pending: Mapping[str, list[Entry]]) -> None:
    for standing in survey.standings:
        listed = len(pending.get(standing.site, ()))
        if listed < standing.pending:
            _log.warning(
                "site %s has %d messages that are not ordered: it listed the first %d", standing.site,
                standing.pending, listed,
            )  # fmt: skip


def tentative_rows(pending: Iterable[list[Entry]], counters: Mapping[str, int], clock: ClockState) -> Iterator[Dated]:
    """Each message once, though several replicas have it, and none that one of them knows to be ordered."""
    found: dict[str, Entry] = {}
    for entries in pending:
        for entry in entries:
            known = found.get(entry.id)
            if known is None or entry.color is Color.YELLOW:
                found[entry.id] = entry
    for entry in sorted(found.values(), key=lambda entry: entry.color is not Color.YELLOW):
        if entry.counter > counters.get(entry.author, 0):
            yield pending_row(entry, Clock(*clock).see(entry.author, entry.time))
