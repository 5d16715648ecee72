"""A writer's options as Spark passes them, checked, each fault in one line that says what was expected."""

from collections.abc import Mapping

from msgspec import Struct
from pyspark.sql.types import AtomicType, BinaryType, StringType, StructType

from reconvene.errors import Malformed
from reconvene.pipeline.source.naming import named_options
from reconvene.pipeline.source.options import Access, parse_access

__all__ = ["SinkOptions", "parse_options"]

TIMEOUT_S = 60.0
"""How long a task, or the commit, waits where nothing moves: a cluster that parts and mends takes some seconds."""

_FORMATS = ("json", "msgpack")
_ACCESS = ("addresses", "keyFile", "keyName", "tls", "timeout")
_WRITING = ("payloadColumn", "format", "txnAppId", "txnVersion", "idColumn")
_SPARKS_OWN = ("checkpointLocation", "queryName", "path")
"""What Spark hands on of its own options."""
_NAME_LENGTH = 512
_VERSIONS = 1 << 61


class SinkOptions(Struct, frozen=True):
    access: Access
    payload_column: str | None
    """None: the whole row is encoded, in `format`."""
    format: str | None
    application: str | None = None
    """txnAppId: whose transactions these are …"""
    version: int | None = None
    """… txnVersion: and which of them this is."""
    id_column: str | None = None


def parse_options(given: Mapping[str, str], schema: StructType, overwrite: bool, *, stream: bool) -> SinkOptions:
    """Raises Malformed."""
    if overwrite:
        expected = 'outputMode("append") or "update"' if stream else 'mode("append")'
        raise Malformed(f"the log is appended to, and nothing in it is overwritten: expected {expected}")
    told = named_options(given, (*_ACCESS, *_WRITING, *_SPARKS_OWN))
    if "path" in told:
        raise Malformed(f"path {told['path']}: the log has none; expected save(), and the option addresses")
    column, form = _payload(told, schema)
    options = SinkOptions(
        access=parse_access({"timeout": str(TIMEOUT_S), **told}),
        payload_column=column,
        format=form,
        application=_application(told),
        version=_version(told),
        id_column=_id_column(told, schema),
    )
    if stream:
        for name in ("txnAppId", "txnVersion", "idColumn"):
            if name in told:
                raise Malformed(f"{name}: for a batch write; a stream is written once by its checkpoint")
        return options
    if options.version is not None and options.id_column is not None:
        raise Malformed("txnVersion and idColumn: expected one of them, not both")
    if (options.version is None and options.id_column is None) != (options.application is None):
        raise Malformed("txnAppId: expected together with txnVersion, or with idColumn")
    return options


def _payload(told: Mapping[str, str], schema: StructType) -> tuple[str | None, str | None]:
    """(column, format), of which one is None."""
    column, form = told.get("payloadColumn"), told.get("format")
    if column is not None and form is not None:
        raise Malformed(
            "payloadColumn and format: expected one of them: a column is written as it is, or the row encoded"
        )
    if form is not None:
        if form.lower() not in _FORMATS:
            raise Malformed(f"format {form}: expected {' or '.join(_FORMATS)}")
        return None, form.lower()
    names = schema.fieldNames()
    if column is None:
        column = names[0] if len(names) == 1 else "payload"
        if column not in names:
            meant = "; did you mean payloadColumn value?" if "value" in names else ""
            raise Malformed(
                f"rows of the columns {', '.join(names)}: expected payloadColumn, which one is written, or format, "
                f"{' or '.join(_FORMATS)}, for the whole row{meant}"
            )
    if column not in names:
        raise Malformed(f"payloadColumn {column}: no such column; expected one of {', '.join(names)}")
    kind = schema[column].dataType
    if not isinstance(kind, BinaryType | StringType):
        raise Malformed(
            f"payloadColumn {column}: a payload is binary or a string, not {kind.simpleString()}; expected format, "
            f"{' or '.join(_FORMATS)}, for the whole row"
        )
    return column, None


def _application(told: Mapping[str, str]) -> str | None:
    name = told.get("txnAppId")
    if name is not None and not 0 < len(name) <= _NAME_LENGTH:
        raise Malformed(f"txnAppId: expected a name of 1 to {_NAME_LENGTH} letters")
    return name


def _version(told: Mapping[str, str]) -> int | None:
    text = told.get("txnVersion")
    if text is None:
        return None
    if text.strip().isdecimal() and text.isascii() and int(text) < _VERSIONS:
        return int(text)
    raise Malformed(f"txnVersion {text}: expected a number from 0 on")


def _id_column(told: Mapping[str, str], schema: StructType) -> str | None:
    column = told.get("idColumn")
    if column is not None and column not in schema.fieldNames():
        raise Malformed(f"idColumn {column}: no such column; expected one of {', '.join(schema.fieldNames())}")
    if column is not None and not isinstance(schema[column].dataType, AtomicType):
        raise Malformed(f"idColumn {column}: expected a single value, not {schema[column].dataType.simpleString()}")
    return column
