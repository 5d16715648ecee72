"""The sink's parts: options, payloads, which rows are new."""

import datetime
from collections.abc import Mapping

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import ArrayType, StringType, StructType

from reconvene.errors import Malformed
from reconvene.pipeline.sink import batch_writer, stream_writer
from reconvene.pipeline.sink.digests import DIGEST_BYTES, digests_of
from reconvene.pipeline.sink.identities import NewRows
from reconvene.pipeline.sink.options import SinkOptions, parse_options
from reconvene.pipeline.sink.payloads import payloads_of

ADDRESSES = {"addresses": "127.0.0.1:7100,127.0.0.1:7101"}
ONE = StructType().add("text", "string")
SEVERAL = StructType().add("id", "long").add("text", "string").add("tags", ArrayType(StringType()))


def parsed(schema: StructType, **told: str) -> SinkOptions:
    return parse_options({**ADDRESSES, **told}, schema, False, stream=False)


def test_what_is_written_of_a_row() -> None:
    assert parsed(ONE).payload_column == "text"
    assert parsed(StructType().add("id", "long").add("payload", "binary")).payload_column == "payload"
    assert parsed(SEVERAL, payloadColumn="text").payload_column == "text"
    assert (parsed(SEVERAL, format="JSON").format, parsed(SEVERAL, format="json").payload_column) == ("json", None)
    options = parsed(ONE, TXNAPPID="till 7", txnversion="12", timeout="5")
    assert (options.application, options.version, options.access.timeout_s) == ("till 7", 12, 5.0)
    assert parsed(ONE).access.timeout_s == 60.0


@pytest.mark.parametrize(
    ("told", "schema", "complaint"),
    [
        ({}, StructType().add("a", "string").add("b", "string"), "rows of the columns a, b: expected payloadColumn"),
        ({"payloadColumn": "c"}, ONE, "payloadColumn c: no such column; expected one of text"),
        ({"payloadColumn": "id"}, SEVERAL, "payloadColumn id: a payload is binary or a string, not bigint"),
        ({"payloadColumn": "text", "format": "json"}, ONE, "expected one of them: a column"),
        ({"format": "xml"}, ONE, "format xml: expected json or msgpack"),
        ({"txnAppId": "a"}, ONE, "txnAppId: expected together with txnVersion"),
        ({"txnVersion": "1"}, ONE, "txnAppId: expected together with txnVersion"),
        ({"txnAppId": "", "txnVersion": "1"}, ONE, "txnAppId: expected a name"),
        ({"txnAppId": "a", "txnVersion": "x"}, ONE, "txnVersion x: expected a number from 0 on"),
        ({"txnAppId": "a", "txnVersion": "-1"}, ONE, "txnVersion -1: expected a number from 0 on"),
        ({"idColumn": "text"}, ONE, "txnAppId: expected together with"),
        ({"idColumn": "x", "txnAppId": "a"}, ONE, "idColumn x: no such column"),
        ({"idColumn": "tags", "txnAppId": "a", "format": "json"}, SEVERAL, "idColumn tags: expected a single value"),
        ({"idColumn": "text", "txnAppId": "a", "txnVersion": "1"}, ONE, "expected one of them, not both"),
        ({"adresses": "x"}, ONE, "option adresses: not known"),
        ({"path": "/tmp/x"}, ONE, "path /tmp/x: the log has none"),
        ({"addresses": ""}, ONE, "addresses: expected"),
        ({"timeout": "never"}, ONE, "timeout never: expected seconds"),
    ],
)
def test_bad_options_are_one_line(told: Mapping[str, str], schema: StructType, complaint: str) -> None:
    with pytest.raises(Malformed) as raised:
        batch_writer({**ADDRESSES, **told}, schema, False)
    assert complaint in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_log_is_not_overwritten_and_a_stream_has_its_own_transactions() -> None:
    with pytest.raises(Malformed, match=r'expected mode\("append"\)'):
        batch_writer(ADDRESSES, ONE, True)
    with pytest.raises(Malformed, match="expected outputMode"):
        stream_writer(ADDRESSES, ONE, True)
    for name in ("txnAppId", "idColumn"):
        with pytest.raises(Malformed, match=f"{name}: for a batch write"):
            stream_writer({**ADDRESSES, name: "text"}, ONE, False)
    stream_writer({**ADDRESSES, "checkpointLocation": "/tmp/x"}, ONE, False)


MOMENT = datetime.datetime(2026, 1, 2, 3, 4, 5, 678, datetime.UTC)


def test_rows_become_payloads() -> None:
    batch = pa.RecordBatch.from_pylist(
        [{"id": 1, "text": "é", "raw": b"\0", "at": MOMENT}, {"id": None, "text": "x", "raw": b"y", "at": None}]
    )
    schema = StructType().add("id", "long").add("text", "string").add("raw", "binary").add("at", "timestamp")
    assert payloads_of(batch, parsed(schema, payloadColumn="text")) == ["é".encode(), b"x"]
    assert payloads_of(batch, parsed(schema, payloadColumn="raw")) == [b"\0", b"y"]
    first, second = payloads_of(batch, parsed(schema, format="json"))
    assert msgspec.json.decode(first) == {"id": 1, "text": "é", "raw": "AA==", "at": "2026-01-02T03:04:05.000678Z"}
    assert msgspec.json.decode(second) == {"id": None, "text": "x", "raw": "eQ==", "at": None}
    first, _ = payloads_of(batch, parsed(schema, format="msgpack"))
    assert msgspec.msgpack.decode(first) == {"id": 1, "text": "é", "raw": b"\0", "at": MOMENT}


def test_a_null_is_refused_by_its_columns_name() -> None:
    batch = pa.RecordBatch.from_pylist([{"text": "x"}, {"text": None}])
    with pytest.raises(Malformed, match="column text: 1 of 2 rows are null"):
        payloads_of(batch, parsed(ONE))
    with pytest.raises(Malformed, match="idColumn text: 1 of 2 rows have none"):
        digests_of(batch, "text")


def test_ids_are_compared_as_text() -> None:
    numbers = pa.RecordBatch.from_pydict({"id": pa.array([1, 20], pa.int32())})
    texts = pa.RecordBatch.from_pydict({"id": pa.array(["1", "20"])})
    binary = pa.RecordBatch.from_pydict({"id": pa.array([b"1", b"\xff"])})
    assert digests_of(numbers, "id") == digests_of(texts, "id")
    assert digests_of(binary, "id")[0] == digests_of(texts, "id")[0]
    assert {len(digest) for digest in digests_of(binary, "id")} == {DIGEST_BYTES}


def digest(low: int, high: int) -> bytes:
    return high.to_bytes(8, "big") + low.to_bytes(8, "big")


IDS = st.lists(st.builds(digest, st.integers(0, 20), st.integers(0, 1)), max_size=40)


@given(IDS.filter(bool), st.lists(IDS, max_size=4))
def test_the_first_row_of_each_id_that_is_not_known(ids: list[bytes], known: list[list[bytes]]) -> None:
    rows = NewRows(b"".join(ids))
    for some in known:
        rows.leave_out(b"".join(some))
    seen = {found for some in known for found in some}
    assert rows.kept.tolist() == [found not in seen and found not in ids[:at] for at, found in enumerate(ids)]
