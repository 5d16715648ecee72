"""The source's parts that need no Spark session: options, offsets, payloads, rows."""

import datetime
import decimal
import json

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from reconvene.corel.batch import Kind
from reconvene.entries import Color, Entry, EntryBatch
from reconvene.errors import Malformed, Rejected
from reconvene.pipeline.source.batch import BatchReader, tentative_rows
from reconvene.pipeline.source.clock import Clock
from reconvene.pipeline.source.columns import column_ddl
from reconvene.pipeline.source.decode import Decoder, check_fields
from reconvene.pipeline.source.offsets import Mark, Offset, decode_offset, encode_offset, initial_offset
from reconvene.pipeline.source.options import Access, Decoding, parse_options
from reconvene.pipeline.source.progress import Lag, lags_of
from reconvene.pipeline.source.pushdown import EVERY, Wanted, wanted_by
from reconvene.pipeline.source.ranges import first_position, last_position
from reconvene.pipeline.source.reading import check_schema
from reconvene.pipeline.source.replicas import Standing, Survey
from reconvene.pipeline.source.rows import Rows, without_void

HERE = {"addresses": "localhost:7100, b.example:7101"}
OWN = StructType(
    [
        StructField("position", LongType()),
        StructField("id", StringType()),
        StructField("author", StringType()),
        StructField("time", TimestampType()),
        StructField("log_time", TimestampType()),
        StructField("payload", BinaryType()),
    ]
)
S = 10**9


def test_options_are_read_in_any_case() -> None:
    options = parse_options(
        {"ADDRESSES": HERE["addresses"], "startingposition": "7", "EndingPosition": "9", "failondataloss": "False",
         "keyfile": "k", "timeout": "3s", "partitions": "5", "format": "JSON", "schema": "a INT", "mode": "FAILFAST"}
    )  # fmt: skip
    assert options.access == Access(("localhost:7100", "b.example:7101"), "k", timeout_s=3.0)
    assert (options.start, options.end, options.fail_on_data_loss, options.partitions) == (7, 9, False, 5)
    assert options.decoding == Decoding("json", "a INT", True)
    defaults = parse_options(HERE, stream=True)
    assert (defaults.start, defaults.end, defaults.fail_on_data_loss) == ("earliest", "latest", True)


@pytest.mark.parametrize(
    ("given", "stream", "line"),
    [
        ({}, False, "addresses: expected the replicas' addresses"),
        ({"addresses": "what"}, False, "addresses: address 'what': unix:PATH"),
        ({"addresses": "a:1,a:1"}, False, "one is named twice"),
        ({"adresses": "a:1"}, False, "option adresses: not known; did you mean addresses? Expected some of add"),
        ({**HERE, "zzz": "1"}, False, "option zzz: not known; expected some of addresses, keyFile"),
        ({**HERE, "kafka.bootstrap.servers": "a:1"}, False, "servers: not known; did you mean addresses? It names"),
        ({**HERE, "subscribe": "t"}, False, "option subscribe: not known; a cluster has one log, and no topics"),
        ({**HERE, "minPartitions": "3"}, False, "option minPartitions: not known; did you mean partitions?"),
        ({**HERE, "kafka.group.id": "g"}, True, "kafka.group.id: not known; did you mean checkpointLocation?"),
        ({**HERE, "startingOffsets": '{"t":{"0":5}}'}, False, "expected earliest, latest or a position"),
        ({**HERE, "startingOffsets": "5", "startingPosition": "5"}, False, "another name of startingPosition, which"),
        ({**HERE, "endingOffsets": "5"}, True, "endingPosition: not for a stream"),
        ({**HERE, "payload": "no"}, False, "payload no: expected true or false"),
        ({**HERE, "payload": "false", "payloadColumn": "v"}, False, "payloadColumn: expected payload to be true"),
        ({**HERE, "payload": "false", "format": "json", "schema": "a INT"}, False, "format: expected payload to be"),
        ({**HERE, "payloadColumn": " "}, False, "payloadColumn: expected a column's name"),
        ({**HERE, "startingPosition": "-1"}, False, "startingPosition -1: expected earliest, latest or a position"),
        ({**HERE, "startingPosition": str(1 << 63)}, False, "expected earliest, latest or a position"),
        ({**HERE, "endingPosition": "earliest"}, False, "endingPosition earliest: expected latest or a position"),
        ({**HERE, "startingPosition": "9", "endingPosition": "8"}, False, "expected at least startingPosition, 9"),
        ({**HERE, "failOnDataLoss": "no"}, False, "failOnDataLoss no: expected true or false"),
        ({**HERE, "partitions": "0"}, False, "partitions 0: expected a number from 1 on"),
        ({**HERE, "partitions": "2", "rowsPerPartition": "2"}, False, "expected one of them, not both"),
        ({**HERE, "maxRowsPerTrigger": "many"}, True, "maxRowsPerTrigger many: expected a number from 1 on"),
        ({**HERE, "maxRowsPerTrigger": "5"}, False, "maxRowsPerTrigger: for a stream"),
        ({**HERE, "tentative": "true"}, True, "tentative: not for a stream"),
        ({**HERE, "tentative": "true", "endingPosition": "3"}, False, "expected latest"),
        ({**HERE, "endingPosition": "5"}, True, "endingPosition: not for a stream"),
        ({**HERE, "timeout": "never"}, False, "timeout never: expected seconds"),
        ({**HERE, "timeout": "nan"}, False, "timeout nan: expected seconds"),
        ({**HERE, "format": "xml", "schema": "a INT"}, False, "format xml: expected json or msgpack"),
        ({**HERE, "format": "json"}, False, "format and schema: expected both"),
        ({**HERE, "format": "json", "schema": " "}, False, "schema: expected columns as DDL"),
        (
            {**HERE, "format": "json", "schema": "a INT", "mode": "x"},
            False,
            "mode x: expected permissive or failFast",
        ),
        ({**HERE, "mode": "failFast"}, False, "mode: expected together with format and schema"),
    ],
)
def test_a_bad_option_is_one_line(given: dict[str, str], stream: bool, line: str) -> None:
    with pytest.raises(Malformed) as told:
        parse_options(given, stream=stream)
    assert line in str(told.value)
    assert "\n" not in str(told.value)


def test_where_a_reader_begins_and_ends() -> None:
    survey = Survey((Standing("a", "c", 5, 90, 0), Standing("b", "c", 10, 100, 0)))
    assert [first_position(start, survey, True) for start in ("earliest", "latest", 5, 100)] == [5, 100, 5, 100]
    assert [last_position(end, survey) for end in ("latest", 7)] == [100, 7]
    with pytest.raises(Rejected, match="startingPosition 101: beyond the log's end, which is at 100; start there"):
        first_position(101, survey, True)
    with pytest.raises(Rejected, match="endingPosition 101: beyond the log's end, which is at 100"):
        last_position(101, survey)
    with pytest.raises(Rejected, match=r"position 4 is not in the log any more: .* begins at 5; .* failOnDataLoss"):
        first_position(4, survey, True)
    assert first_position(4, survey, False) == 5


def test_filters_become_a_range_of_positions() -> None:
    at = ("position",)
    assert wanted_by([IsNotNull(at), GreaterThanOrEqual(at, 5), LessThan(at, 9)]) == Wanted(5, 9)
    assert wanted_by([GreaterThan(at, 5), LessThanOrEqual(at, 9)]) == Wanted(6, 10)
    assert wanted_by([EqualTo(at, 7)]) == Wanted(7, 8)
    assert wanted_by([In(at, (9, 3))]) == Wanted(3, 10)
    assert wanted_by([GreaterThan(at, 9), LessThan(at, 5)]) == Wanted(10, 10)
    others = [EqualTo(("author",), "a"), Not(EqualTo(at, 5)), EqualTo(at, None), LessThan(("into", "position"), 3)]
    assert wanted_by(others) == EVERY
    reader = BatchReader(HERE, OWN)
    assert reader.pushFilters.__func__ is DataSourceReader.pushFilters, "Spark refuses others where it does not ask"
    assert reader.pushFilters(others) == others


def test_offsets_go_through_json() -> None:
    assert decode_offset(json.loads(json.dumps(initial_offset("latest")))) is None
    clock = Clock()
    clock.see("a", 5)
    clock.see("b#2", 1 << 62)
    offset = Offset(Mark(7, *clock.state), "cluster", Mark(3))
    again = decode_offset(json.loads(json.dumps(encode_offset(offset))))
    assert again == offset
    assert again.mark.clock == clock.state
    with pytest.raises(Malformed, match="the checkpoint's offset is not one of this source"):
        decode_offset({"kafka": {"0": 1}})
    with pytest.raises(Rejected, match="the checkpoint is of the log of cluster cluster, and the replicas are of x"):
        offset.check("x")


def test_the_lag_of_a_stream_is_read_from_its_progress() -> None:
    ours = {
        "endOffset": json.dumps(encode_offset(Offset(Mark(700), "cluster"))),
        "latestOffset": '{"position": 1000}',
        "numInputRows": 100,
    }
    (lag,) = lags_of({"sources": [ours, {"endOffset": "7", "latestOffset": None, "numInputRows": 3}]})
    assert (lag, lag.behind) == (Lag(700, 1_000, 100), 300)
    assert lags_of(None) == []
    waiting = {"endOffset": json.dumps(initial_offset("latest")), "latestOffset": None, "numInputRows": 0}
    assert lags_of({"sources": [waiting]}) == []


def rows_of(batches: list[EntryBatch]) -> list[dict[str, object]]:
    rows = Rows(to_arrow_schema(OWN, timezone="UTC"), None)
    found = list(rows.batches(one for batch in batches for one in without_void(batch, 7 * S)))
    assert all(batch.schema == to_arrow_schema(OWN, timezone="UTC") for batch in found)
    return [row for batch in found for row in batch.to_pylist()]


def test_rows_are_built_by_columns() -> None:
    found = rows_of(
        [
            EntryBatch(10, "a", 1, 5, 3 * S + 1_999, Kind.DATA, [b"x", b"", b"z"], (1,)),
            EntryBatch(13, "b#2", 4, 1, 4 * S, Kind.DATA, [b"only void"], (0,)),
            EntryBatch(14, "b#2", 4, 2, 4 * S, Kind.DATA, [b"\xff"]),
        ]
    )
    at = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

    def seconds(number: float) -> datetime.datetime:
        return at + datetime.timedelta(seconds=number)

    assert found == [
        {"position": 10, "id": "a:1:5", "author": "a", "time": seconds(3.000001), "log_time": seconds(7),
         "payload": b"x"},
        {"position": 12, "id": "a:1:7", "author": "a", "time": seconds(3.000001), "log_time": seconds(7),
         "payload": b"z"},
        {"position": 14, "id": "b#2:4:2", "author": "b#2", "time": seconds(4), "log_time": seconds(7),
         "payload": b"\xff"},
    ]  # fmt: skip


def test_arrow_batches_are_of_bounded_size() -> None:
    rows = Rows(to_arrow_schema(OWN, timezone="UTC"), None)
    small = [EntryBatch(at * 1_000, "a", 1, at * 1_000 + 1, 0, Kind.DATA, [b"x"] * 1_000) for at in range(100)]
    sizes = [batch.num_rows for batch in rows.batches(dated for one in small for dated in without_void(one, 0))]
    assert (sum(sizes), max(sizes)) == (100_000, 32_000)
    large = [EntryBatch(at, "a", 1, at + 1, 0, Kind.DATA, [bytes(5 << 20)]) for at in range(3)]
    assert [batch.num_rows for batch in rows.batches(dated for one in large for dated in without_void(one, 0))] == [
        1,
        1,
        1,
    ]


def test_pending_messages_are_listed_once_and_not_if_they_are_ordered() -> None:
    def entry(author: str, counter: int, color: Color) -> Entry:
        return Entry(0, b"%d" % counter, author, 1, counter, 5 * S, color)

    red, yellow = Color.RED, Color.YELLOW
    at_a = [entry("a", 3, red), entry("a", 4, red)]
    at_b = [entry("b", 1, yellow), entry("a", 3, yellow), entry("b", 2, red)]
    rows = list(tentative_rows([at_a, at_b], {"a": 2, "b": 1}, (9 * S, ())))
    assert [(row.batch.author, row.batch.first, row.color) for row in rows] == [
        ("a", 3, "yellow"),
        ("a", 4, "red"),
        ("b", 2, "red"),
    ]
    assert {row.log_time for row in rows} == {9 * S}
    schema = to_arrow_schema(StructType([*OWN.fields, StructField("color", StringType())]), timezone="UTC")
    shown = [row for some in Rows(schema, None).batches(rows) for row in some.to_pylist()]
    assert [(row["position"], row["id"]) for row in shown] == [(None, "a:1:3"), (None, "a:1:4"), (None, "b:1:2")]


FIELDS = [
    StructField("n", IntegerType()),
    StructField("small", ByteType()),
    StructField("name", StringType()),
    StructField("price", DecimalType(5, 2)),
    StructField("when", TimestampType()),
    StructField("day", DateType()),
    StructField("data", BinaryType()),
    StructField("tags", ArrayType(StringType())),
    StructField("more", MapType(StringType(), DoubleType())),
    StructField("of", StructType([StructField("a-b", LongType()), StructField("c", ArrayType(LongType()))])),
]
GOOD: dict[str, object] = {
    "n": 7, "small": -128, "name": "tea", "price": decimal.Decimal("1.25"), "day": datetime.date(2026, 1, 2),
    "when": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC), "data": b"\0\xff", "tags": ["x", None],
    "more": [("k", 1.5)], "of": {"a-b": 1, "c": [1, 2]},
}  # fmt: skip
MISSING = dict.fromkeys([field.name for field in FIELDS])


def decoded(decoding: Decoding, payloads: list[bytes]) -> list[dict[str, object]]:
    ids = pa.array([f"a:1:{at}" for at in range(len(payloads))])
    columns = Decoder(decoding, FIELDS).columns(payloads, ids)
    rows: list[dict[str, object]] = pa.RecordBatch.from_pydict(columns).to_pylist()
    return rows


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_payloads_become_columns(form: str) -> None:
    encode = msgspec.json.encode if form == "json" else msgspec.msgpack.encode
    full = {**GOOD, "more": {"k": 1.5}, "unknown": [1]}
    bad: list[object] = [
        {"n": "7"}, {"n": 1 << 31}, {"small": 128}, {"price": "12345.67"}, {"tags": [1]}, {"of": 3}, [1], None, "x"
    ]  # fmt: skip
    payloads = [encode(full), encode({}), encode({"n": None, "of": {}}), *map(encode, bad), b"\xc1", b"", b"{"]
    found = decoded(Decoding(form, ""), payloads)
    assert found[0] == GOOD
    assert found[1] == MISSING
    assert found[2] == {**MISSING, "of": {"a-b": None, "c": None}}
    assert found[3:] == [MISSING] * (len(payloads) - 3)


def test_a_bad_payload_may_end_the_read() -> None:
    for bad in (b'{"n": "7"}', b'{"price": "12345.67"}', b"[" * 100_000):
        with pytest.raises(
            Malformed, match="message a:1:1: its payload is not the json that the schema says: "
        ) as told:
            decoded(Decoding("json", "", fail_fast=True), [b"{}", bad])
        assert "\n" not in str(told.value)


def test_all_of_it_may_go_into_one_column() -> None:
    (row,) = decoded(Decoding("json", "", into="sale"), [b'{"n": 1}'])
    assert row == {"sale": {**MISSING, "n": 1}}
    into = {**HERE, "format": "json", "schema": "n INT", "into": "my`sale"}
    assert column_ddl(parse_options(into)).endswith(", `payload` BINARY, `my``sale` STRUCT<n INT>")


def test_names_that_users_of_kafka_know() -> None:
    given = {**HERE, "STARTINGOFFSETS": "7", "maxOffsetsPerTrigger": "100", "maxRecordsPerPartition": "9"}
    options = parse_options(given, stream=True)
    assert (options.start, options.most_rows, options.rows_per_partition) == (7, 100, 9)
    assert parse_options({**HERE, "endingOffsets": "latest"}).end == "latest"


def test_the_payloads_column_has_another_name_or_is_left_out() -> None:
    own = "`position` BIGINT, `id` STRING, `author` STRING, `time` TIMESTAMP, `log_time` TIMESTAMP"
    assert column_ddl(parse_options({**HERE, "payloadColumn": "value"})) == f"{own}, `value` BINARY"
    assert column_ddl(parse_options({**HERE, "payload": "false"})) == own
    with pytest.raises(Malformed, match="payloadColumn Time: a column of the log itself; expected another name"):
        column_ddl(parse_options({**HERE, "payloadColumn": "Time"}))
    schema = StructType([*OWN.fields[:-1], StructField("value", BinaryType())])
    check_schema(parse_options({**HERE, "payloadColumn": "value"}), schema)
    rows = Rows(to_arrow_schema(schema, timezone="UTC"), None, "value")
    (batch,) = rows.batches(without_void(EntryBatch(0, "a", 1, 1, 0, Kind.DATA, [b"x", b"y"]), 0))
    assert batch.column("value").to_pylist() == [b"x", b"y"]


@pytest.mark.parametrize(
    ("field", "line"),
    [
        (StructField("id", StringType()), "id is a column of the log itself; set `into`"),
        (StructField("color", StringType()), "color is a column of the log itself"),
        (StructField("n", LongType(), nullable=False), "n can't be NOT NULL"),
        (StructField("n", ArrayType(DayTimeIntervalType())), "n[] interval day to second: can't be decoded"),
        (StructField("n", MapType(LongType(), LongType())), "n map<bigint,bigint>: can't be decoded"),
    ],
)
def test_a_schema_that_can_not_be_is_one_line(field: StructField, line: str) -> None:
    options = parse_options({**HERE, "format": "json", "schema": "…"})
    with pytest.raises(Malformed) as told:
        check_schema(options, StructType([*OWN.fields, field]))
    assert line in str(told.value)
    with pytest.raises(Malformed, match="named twice"):
        check_fields([FIELDS[0], FIELDS[0]], [])


def test_the_columns_are_the_sources_own() -> None:
    with pytest.raises(Malformed, match=r"leave out \.schema\(\)"):
        check_schema(parse_options(HERE), StructType(OWN.fields[:3]))
    check_schema(parse_options(HERE), OWN)
