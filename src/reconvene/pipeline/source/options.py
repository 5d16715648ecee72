"""What a reader is told: Spark's options, checked, each fault in one line that says what was expected."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from reconvene.client.addresses import parse_addresses
from reconvene.errors import InvalidArgument, Malformed
from reconvene.pipeline.source.naming import named_options

__all__ = [
    "EARLIEST",
    "LATEST",
    "PAYLOAD",
    "Access",
    "Decoding",
    "SourceOptions",
    "parse_access",
    "parse_options",
]

EARLIEST = "earliest"
LATEST = "latest"
PAYLOAD = "payload"

_FORMATS = ("json", "msgpack")
_MODES = ("permissive", "failFast")
_NUMBERS = 1 << 62
_LONGEST_S = 86_400.0
TIMEOUT_S = 10.0
ROWS_PER_PARTITION = (100_000, 1_000_000)
"""Where nothing is told: at least and at most, and between them a quarter of what is read."""


class Access(Struct, frozen=True):
    """How the replicas are reached. Travels to the executors, which connect by themselves."""

    addresses: tuple[str, ...]
    key_file: str | None = None
    """A path, or the name of a file that Spark has distributed."""
    key_name: str | None = None
    tls: str | bool = False
    timeout_s: float = TIMEOUT_S


class Decoding(Struct, frozen=True):
    """How payloads become columns."""

    format: str
    schema: str
    """DDL, as the user wrote it."""
    fail_fast: bool = False
    into: str | None = None
    """The one column that holds all of them, as a struct; None: each is a column."""


class SourceOptions(Struct, frozen=True):
    access: Access
    start: int | str = EARLIEST
    end: int | str = LATEST
    fail_on_data_loss: bool = True
    tentative: bool = False
    most_rows: int | None = None
    """In one batch of a stream."""
    partitions: int | None = None
    rows_per_partition: int | None = None
    decoding: Decoding | None = None
    payload_column: str | None = PAYLOAD
    """The name of the column that has the messages; None: they are not read, only their headings."""


_ACCESS = ("addresses", "keyFile", "keyName", "tls", "timeout")
_READING = (
    "startingPosition", "endingPosition", "failOnDataLoss", "tentative", "maxRowsPerTrigger", "partitions",
    "rowsPerPartition", "format", "schema", "mode", "into", "payload", "payloadColumn",
)  # fmt: skip


def parse_options(given: Mapping[str, str], *, stream: bool | None = False) -> SourceOptions:
    """Names are the same in any case. `stream`: None where it is not known whether it is one. Raises Malformed."""
    told = named_options(given, (*_ACCESS, *_READING))
    options = SourceOptions(
        access=parse_access(told),
        start=_position(told, "startingPosition", (EARLIEST, LATEST), EARLIEST),
        end=_position(told, "endingPosition", (LATEST,), LATEST),
        fail_on_data_loss=_flag(told, "failOnDataLoss", True),
        tentative=_flag(told, "tentative", False),
        most_rows=_count(told, "maxRowsPerTrigger"),
        partitions=_count(told, "partitions"),
        rows_per_partition=_count(told, "rowsPerPartition"),
        decoding=_decoding(told),
        payload_column=_payload_column(told),
    )
    if options.partitions is not None and "rowsPerPartition" in told:
        raise Malformed("partitions and rowsPerPartition: expected one of them, not both")
    if stream:
        _check_stream(options, told)
    elif stream is False:
        _check_batch(options, told)
    return options


def parse_access(told: Mapping[str, str]) -> Access:
    """Of options by their exact names; those that say nothing of access are not looked at. Raises Malformed."""
    addresses = tuple(filter(None, map(str.strip, told.get("addresses", "").split(","))))
    if not addresses:
        raise Malformed('addresses: expected the replicas\' addresses, such as "host:7100,host:7101"')
    try:
        parse_addresses(addresses)
    except InvalidArgument as error:
        raise Malformed(f"addresses: {error}") from None
    if len(set(addresses)) < len(addresses):
        raise Malformed(f"addresses {told['addresses']}: one is named twice")
    return Access(addresses, told.get("keyFile"), told.get("keyName"), _tls(told.get("tls")), _seconds(told))


def _check_stream(options: SourceOptions, told: Mapping[str, str]) -> None:
    if options.tentative:
        raise Malformed("tentative: not for a stream, whose rows can't be taken back; expected a batch read")
    if "endingPosition" in told:
        raise Malformed("endingPosition: not for a stream, which has no end; expected a batch read")


def _check_batch(options: SourceOptions, told: Mapping[str, str]) -> None:
    if "maxRowsPerTrigger" in told:
        raise Malformed("maxRowsPerTrigger: for a stream; a batch read is bounded by endingPosition")
    if options.tentative and options.end != LATEST:
        raise Malformed(
            f"endingPosition {options.end}: with tentative rows, which follow the last, expected {LATEST}"
        )
    if isinstance(options.start, int) and isinstance(options.end, int) and options.end < options.start:
        raise Malformed(f"endingPosition {options.end}: expected at least startingPosition, {options.start}")


def _position(told: Mapping[str, str], name: str, words: tuple[str, ...], default: str) -> int | str:
    text = told.get(name, default).strip()
    if text.lower() in words:
        return text.lower()
    if text.isdecimal() and text.isascii() and int(text) < _NUMBERS:
        return int(text)
    raise Malformed(f"{name} {text}: expected {', '.join(words)} or a position from 0 on")


def _count(told: Mapping[str, str], name: str) -> int | None:
    text = told.get(name)
    if text is None:
        return None
    if text.strip().isdecimal() and text.isascii() and 1 <= int(text) < _NUMBERS:
        return int(text)
    raise Malformed(f"{name} {text}: expected a number from 1 on")


def _flag(told: Mapping[str, str], name: str, default: bool) -> bool:
    text = told.get(name)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise Malformed(f"{name} {text}: expected true or false")
    return text.lower() == "true"


def _seconds(told: Mapping[str, str]) -> float:
    text = told.get("timeout", str(TIMEOUT_S)).strip().lower().removesuffix("s")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= _LONGEST_S:
        raise Malformed(f"timeout {told['timeout']}: expected seconds, more than 0 and up to {_LONGEST_S:g}")
    return seconds


def _tls(text: str | None) -> str | bool:
    """The authority's file, or whether the system's authorities are asked."""
    if text is None or text.lower() in ("true", "false"):
        return text is not None and text.lower() == "true"
    return str(Path(text))


def _payload_column(told: Mapping[str, str]) -> str | None:
    if _flag(told, "payload", True):
        name = told.get("payloadColumn", PAYLOAD).strip()
        if not name:
            raise Malformed("payloadColumn: expected a column's name, such as value")
        return name
    for option in ("payloadColumn", "format", "schema"):
        if option in told:
            raise Malformed(f"{option}: expected payload to be true, since it needs the messages")
    return None


def _decoding(told: Mapping[str, str]) -> Decoding | None:
    form, schema, mode, into = (told.get(name) for name in ("format", "schema", "mode", "into"))
    if form is None and schema is None:
        for name in ("mode", "into"):
            if name in told:
                raise Malformed(f"{name}: expected together with format and schema, which decode payloads")
        return None
    if form is None or schema is None:
        raise Malformed("format and schema: expected both, to decode payloads into columns")
    if form.lower() not in _FORMATS:
        raise Malformed(f"format {form}: expected {' or '.join(_FORMATS)}")
    if not schema.strip():
        raise Malformed("schema: expected columns as DDL, such as: item STRING, count INT")
    modes = {name.lower(): name for name in _MODES}
    if mode is not None and mode.lower() not in modes:
        raise Malformed(f"mode {mode}: expected {' or '.join(_MODES)}")
    return Decoding(form.lower(), schema.strip(), mode is not None and mode.lower() == "failfast", into)
