"""Records in a stream: however it is cut, and whatever is in it."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconvene.errors import Malformed
from reconvene.wire.clients import decode_from_client, decode_from_site
from reconvene.wire.records import RecordReader, RecordSeal, frame


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=20), st.lists(st.integers(1, 400), max_size=30))
def test_however_the_stream_is_cut(records: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(piece for record in records for piece in frame(record))
    reader = RecordReader(300)
    found = []
    at = 0
    for cut in [*cuts, len(stream) + 1]:
        found += reader.feed(stream[at : at + cut])
        at += cut
    assert found == records


@given(st.binary(max_size=2_000), st.integers(1, 100))
def test_no_more_than_a_record_is_kept(data: bytes, step: int) -> None:
    reader = RecordReader(64)
    with suppress(Malformed):
        for at in range(0, len(data), step):
            assert all(len(record) <= 64 for record in reader.feed(data[at : at + step]))
            assert len(reader._kept) <= 4 + 64 + step


@given(st.binary(max_size=500))
def test_decoding_raises_malformed_and_nothing_else(data: bytes) -> None:
    for decode in (decode_from_client, decode_from_site):
        with suppress(Malformed):
            decode(data)


def test_a_seal_holds_for_one_place_in_one_direction() -> None:
    there, back = bytes(32), bytes([1]) * 32
    sealer, opener = RecordSeal(there), RecordSeal(there)
    first, second = sealer.seal(b"x"), sealer.seal(b"x")
    assert first != second
    assert opener.open(first) == b"x"
    assert opener.open(second) == b"x"
    for bad in (RecordSeal(there), RecordSeal(back)):
        with pytest.raises(Malformed):
            bad.open(second)
    with pytest.raises(Malformed):
        RecordSeal(there).open(b"short")
