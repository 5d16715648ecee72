"""From what a reader was told to positions, and to a plan."""

import logging
from collections.abc import Iterator

from reconvene.entries import EntryBatch
from reconvene.errors import Rejected
from reconvene.pipeline.source.clock import Clock
from reconvene.pipeline.source.options import EARLIEST, LATEST, ROWS_PER_PARTITION, SourceOptions
from reconvene.pipeline.source.plan import Plan, Planner, share
from reconvene.pipeline.source.pushdown import EVERY, Wanted
from reconvene.pipeline.source.reading import LogPartition
from reconvene.pipeline.source.replicas import Replicas, Survey
from reconvene.pipeline.source.route import How, Lost, read_headings

__all__ = ["clock_at", "first_position", "last_position", "make_plan", "partitions_of", "rows_per_partition"]

_log = logging.getLogger("reconvene.source")

_TASKS = 4
"""That a read of some rows is shared by, where nothing is told."""


def first_position(start: int | str, survey: Survey, fail_on_data_loss: bool) -> int:
    """Raises Rejected where it is beyond the log's end, Lost where it is truncated and that is to fail."""
    if start == EARLIEST:
        return survey.base
    if start == LATEST:
        return survey.green
    position = int(start)
    if position > survey.green:
        raise Rejected(
            f"startingPosition {position}: beyond the log's end, which is at {survey.green}; start there or before, "
            f"or at {LATEST}"
        )
    if position >= survey.base:
        return position
    lost = Lost(position, survey.base)
    if fail_on_data_loss:
        raise lost
    _log.warning("positions %d to %d were truncated, and are left out", position, survey.base - 1)
    return survey.base


def last_position(end: int | str, survey: Survey) -> int:
    """The position after the last. Raises Rejected where it is beyond the log's end."""
    if end == LATEST:
        return survey.green
    if int(end) > survey.green:
        raise Rejected(
            f"endingPosition {end}: beyond the log's end, which is at {survey.green}; end there, or before"
        )
    return int(end)


def clock_at(replicas: Replicas, base: int, position: int, counters: dict[str, int] | None = None) -> Clock:
    """The log's clock before `position`, from all that is left of the log before it. `counters` notes the last
    counter of each author."""
    clock = Clock()
    # What is truncated meanwhile is nobody's loss: no row of it is wanted.
    for heading in _headings(replicas, base, position, fail_on_loss=False):
        clock.see(heading.author, heading.time)
        _count(counters, heading)
    return clock


def make_plan(
    replicas: Replicas,
    options: SourceOptions,
    start: int,
    stop: int,
    clock: Clock,
    *,
    most_rows: int | None = None,
    counters: dict[str, int] | None = None,
    wanted: Wanted = EVERY,
) -> Plan:
    # A stream's batch has at most `most_rows`, however much more there is to read.
    rows = wanted.rows(start, stop)
    rows = rows if most_rows is None else min(rows, most_rows)
    planner = Planner(start, stop, clock, rows_per_partition(options, rows), most_rows, wanted)
    for heading in _headings(replicas, start, stop, options.fail_on_data_loss):
        planner.see(heading)
        _count(counters, heading)
        if planner.full:
            break
    return planner.plan()


def partitions_of(options: SourceOptions, plan: Plan) -> list[LogPartition]:
    rows = rows_per_partition(options, plan.rows)
    return [LogPartition(index, pieces) for index, pieces in enumerate(share(plan.pieces, rows))]


def rows_per_partition(options: SourceOptions, rows: int) -> int:
    """For a plan of so many rows."""
    if options.rows_per_partition is not None:
        return options.rows_per_partition
    if options.partitions is not None:
        return max(1, -(-rows // options.partitions))
    # A task costs Spark as much as about a hundred thousand rows: a few long ones, then as many as there have to be.
    least, most = ROWS_PER_PARTITION
    return min(most, max(least, -(-rows // _TASKS)))


def _headings(replicas: Replicas, start: int, stop: int, fail_on_loss: bool) -> Iterator[EntryBatch]:
    for some in read_headings(replicas.thread, replicas.access, start, stop, How(fail_on_loss=fail_on_loss)):
        yield from some


def _count(counters: dict[str, int] | None, heading: EntryBatch) -> None:
    if counters is not None:
        counters[heading.author] = heading.first + heading.count - 1
