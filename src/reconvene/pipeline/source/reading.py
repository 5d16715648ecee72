"""What a task does: the rows of its pieces, from whichever replica has them."""

from collections.abc import Generator, Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from reconvene.client.loop_thread import LoopThread
from reconvene.entries import EntryBatch
from reconvene.errors import Malformed
from reconvene.pipeline.source.clock import Clock
from reconvene.pipeline.source.columns import COLUMNS, own_columns
from reconvene.pipeline.source.decode import Decoder, check_fields
from reconvene.pipeline.source.options import SourceOptions
from reconvene.pipeline.source.plan import Piece, Plan, Planner, Shown, Unplanned
from reconvene.pipeline.source.route import How, read_batches, read_headings
from reconvene.pipeline.source.rows import Dated, Rows, without_void
from reconvene.pipeline.source.staged import read_shown

__all__ = ["LogPartition", "check_schema", "read_partition"]


class LogPartition(InputPartition):
    """What one task reads."""

    def __init__(
        self, index: int, pieces: tuple[Piece | Shown | Unplanned, ...], pending: tuple[Dated, ...] = ()
    ) -> None:
        super().__init__(index)
        self.index = index
        self.pieces = pieces
        self.pending = pending
        """Messages that are not ordered: few, and with the driver already."""


def check_schema(options: SourceOptions, schema: StructType) -> None:
    """Raises Malformed where it is not the one that the options make."""
    expected = own_columns(options)
    own = {field.name: field.dataType.simpleString().upper() for field in schema.fields[: len(expected)]}
    decoded = schema.fields[len(expected) :]
    if list(own.items()) != list(expected.items()) or bool(decoded) != (options.decoding is not None):
        raise Malformed(
            "the columns are the source's own: leave out .schema(), choose columns with select(), and decode "
            "payloads with the options format and schema"
        )
    if options.decoding is not None and options.decoding.into is None:
        check_fields(decoded, [*COLUMNS, *expected])
    elif options.decoding is not None:
        check_fields(decoded, list(expected))
        struct = decoded[0].dataType
        check_fields(struct.fields if isinstance(struct, StructType) else [], [])


def read_partition(
    options: SourceOptions, schema: StructType, partition: InputPartition, *, patient: bool
) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, LogPartition):
        return  # Spark's own, where there is nothing to read
    rows = Rows(to_arrow_schema(schema, timezone="UTC"), _decoder(options, schema), options.payload_column)
    thread = LoopThread()
    dated = _dated(thread, options, partition, patient)
    try:
        yield from rows.batches(dated)
    finally:
        dated.close()  # Spark may have had enough: the connection is closed before its thread
        thread.close()


def _decoder(options: SourceOptions, schema: StructType) -> Decoder | None:
    decoding = options.decoding
    if decoding is None:
        return None
    if decoding.into is None:
        return Decoder(decoding, [field for field in schema.fields if field.name not in own_columns(options)])
    struct = schema[decoding.into].dataType
    return Decoder(decoding, struct.fields if isinstance(struct, StructType) else [])


def _dated(thread: LoopThread, options: SourceOptions, partition: LogPartition, patient: bool) -> Generator[Dated]:
    # Each begins at another replica, so that all of them have something to do.
    how = How(first=partition.index, patient=patient, fail_on_loss=options.fail_on_data_loss)
    for piece in partition.pieces:
        if isinstance(piece, Unplanned):
            for planned in _planned(thread, options, piece, how).pieces:
                yield from _rows_of(thread, options, planned, how)
        else:
            yield from _rows_of(thread, options, piece, how)
    yield from partition.pending


def _rows_of(thread: LoopThread, options: SourceOptions, piece: Piece | Shown, how: How) -> Generator[Dated]:
    if options.payload_column is None:
        yield from _headings_of(thread, options, piece, how)
        return
    if isinstance(piece, Shown):
        for batch in read_shown(thread, options.access, piece, how):
            yield from without_void(batch, piece.log_time)
        return
    clock = Clock(*piece.clock)
    for some in read_batches(thread, options.access, piece.start, piece.stop, how):
        for batch in some:
            log_time = clock.see(batch.author, batch.time)
            if batch.kind == "data":
                yield from without_void(batch, log_time)


def _headings_of(thread: LoopThread, options: SourceOptions, piece: Piece | Shown, how: How) -> Generator[Dated]:
    """The same without messages."""
    if isinstance(piece, Shown):
        for first, count in piece.ranges:
            for heading in _cut_headings(thread, options, first, first + count, how):
                if heading.kind == "staged":
                    yield from without_void(heading, piece.log_time)
        return
    clock = Clock(*piece.clock)
    for heading in _cut_headings(thread, options, piece.start, piece.stop, how):
        log_time = clock.see(heading.author, heading.time)
        if heading.kind == "data":
            yield from without_void(heading, log_time)


def _cut_headings(
    thread: LoopThread, options: SourceOptions, start: int, stop: int, how: How
) -> Generator[EntryBatch]:
    for some in read_headings(thread, options.access, start, stop, how):
        yield from (heading.cut(start, stop) for heading in some)


def _planned(thread: LoopThread, options: SourceOptions, piece: Unplanned, how: How) -> Plan:
    planner = Planner(piece.start, piece.stop, Clock(*piece.clock), piece.rows)
    for some in read_headings(thread, options.access, piece.start, piece.stop, how):
        for heading in some:
            planner.see(heading)
    return planner.plan()
