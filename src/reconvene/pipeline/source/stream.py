"""`spark.readStream.format("reconvene")`: the log as it grows.

A stream waits for replicas: where none answers, there is nothing new, and nothing fails. With the trigger
availableNow having nothing new would be the end: there it goes on with batches of no rows until one answers. Nothing
here waits for long: Spark can't end a call, and whoever is in one would outlive the query.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from reconvene.errors import Unavailable
from reconvene.pipeline.first_line import first_line, first_line_of_each
from reconvene.pipeline.source.clock import Clock
from reconvene.pipeline.source.offsets import Mark, Offset, decode_offset, encode_offset, initial_offset, waited_at
from reconvene.pipeline.source.options import SourceOptions, parse_options
from reconvene.pipeline.source.plan import Plan, Unplanned
from reconvene.pipeline.source.ranges import clock_at, first_position, make_plan, partitions_of
from reconvene.pipeline.source.reading import LogPartition, check_schema, read_partition
from reconvene.pipeline.source.replicas import Replicas, Survey

__all__ = ["StreamReader"]

_log = logging.getLogger("reconvene.source")

_POLL_S = 0.05
"""Between two questions whether there is something new: Spark asks more often."""
_PAUSE_S = 2.0
"""Between two batches of no rows."""
_COMPLAIN_S = 30.0


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One object in the driver for as long as the query runs; in tasks, where it is a copy, only `read` is called."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._options: SourceOptions = parse_options(given, stream=True)
        self._schema = schema
        check_schema(self._options, schema)
        self._replicas: Replicas | None = None
        self._asked_at = 0.0
        self._complained_at = 0.0
        self._latest: int | None = None
        """The log's end, when it was last asked for."""
        self._ends = False
        """With the trigger availableNow …"""
        self._until: int | None = None
        """… the query ends at this position: the log's end, once a replica has told it."""
        self._planned: tuple[int, Plan] | None = None
        """Where the last plan begins, and the plan."""

    # -- offsets

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return initial_offset(self._options.start)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._options.most_rows
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    @first_line
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._ends = True
        with suppress(Unavailable):
            self._until = self._all().survey(settled=True).green

    @first_line
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """`start` itself where there is nothing new, or nobody answers. Raises Rejected where it can't go on."""
        try:
            if self._ends and self._until is None:
                self._until = self._all().survey(settled=True).green
            return self._next(start, limit)
        except Unavailable as error:
            self._complain(error)
            if not self._ends:
                return start
            time.sleep(_PAUSE_S)
            return waited_at(start)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return None if self._latest is None else {"position": self._latest}

    def _next(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        time.sleep(max(0.0, self._asked_at + _POLL_S - time.monotonic()))
        offset = decode_offset(start)
        survey = self._all().survey(settled=offset is None)
        self._asked_at = time.monotonic()
        self._latest = survey.green
        since = self._begin(survey) if offset is None else offset.mark
        if offset is not None:
            offset.check(survey.cluster)
        stop = survey.green if self._until is None else min(survey.green, self._until)
        if self._until is not None and stop <= since.position < self._until:
            raise Unavailable(f"the replicas that answer have nothing from position {since.position} on yet")
        if since.position >= stop:
            return start if offset is not None else encode_offset(Offset(since, survey.cluster, since))
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        plan = make_plan(self._all(), self._options, since.position, stop, Clock(*since.clock), most_rows=most)
        self._planned = (since.position, plan)
        reached = Offset(Mark(plan.end, *plan.clock), survey.cluster)
        return encode_offset(reached if offset is not None else replace(reached, since=since))

    def _begin(self, survey: Survey) -> Mark:
        position = first_position(self._options.start, survey, self._options.fail_on_data_loss)
        return Mark(position, *clock_at(self._all(), survey.base, position).state)

    # -- batches

    @first_line
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        reached = decode_offset(end)
        begun = decode_offset(start)
        since = begun.mark if begun is not None else None if reached is None else reached.since
        if reached is None or since is None or since.position >= reached.mark.position:
            return []
        try:
            plan = self._plan(since, reached.mark.position)
        except Unavailable as error:
            self._complain(error)
            return [LogPartition(0, (Unplanned(since.position, reached.mark.position, since.clock),))]
        return list(partitions_of(self._options, plan))

    def _plan(self, since: Mark, stop: int) -> Plan:
        if self._planned is not None and (self._planned[0], self._planned[1].end) == (since.position, stop):
            return self._planned[1]
        # A batch that is repeated after a restart: the same range, and the same clock.
        return make_plan(self._all(), self._options, since.position, stop, Clock(*since.clock))

    @first_line_of_each
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options, self._schema, partition, patient=True)

    def commit(self, end: dict[str, Any]) -> None:
        """The log keeps what it keeps, whoever has read it."""

    def stop(self) -> None:
        replicas, self._replicas = self._replicas, None
        if replicas is not None:
            replicas.close()

    # -- waiting

    def _all(self) -> Replicas:
        if self._replicas is None:
            self._replicas = Replicas(self._options.access)
        return self._replicas

    def _complain(self, error: Unavailable) -> None:
        now = time.monotonic()
        if now - self._complained_at > _COMPLAIN_S:
            self._complained_at = now
            _log.warning("waiting: %s", error)
