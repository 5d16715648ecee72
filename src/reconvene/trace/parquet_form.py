"""Where the Parquet form of traces has what, and whether a file is one of it.

    DIR/runs/*.parquet                  one row a run: run.json, with `quorum` as the text of a JSON object
    DIR/events/run=NAME/*.parquet       the events of that run, all nodes together or in a file each

Needs pyarrow, which the extra `spark` installs; raises Unavailable without it.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from reconvene.errors import Malformed, Unavailable
from reconvene.trace.events import Row, Run

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "ALWAYS",
    "EVENTS_DIR",
    "EVENT_TYPES",
    "RUNS_DIR",
    "RUN_TYPES",
    "check_file",
    "documents",
    "event_files",
    "is_parquet",
    "name_of",
    "run_directory",
    "run_file",
    "run_files",
]

EVENTS_DIR, RUNS_DIR = "events", "runs"
_PREFIX = "run="

_ESCAPED = frozenset("\"#%'*/:=?\\{[]^\x7f") | frozenset(map(chr, range(32)))
"""What Spark writes as %XX in a directory's name, and reads so."""

_STRING, _INT, _BOOL = "string", "64-bit integer", "bool"
_STRINGS, _INTS = f"list of {_STRING}", f"list of {_INT}"
EVENT_TYPES = {
    **dict.fromkeys(Row.__struct_fields__, _STRING),
    **dict.fromkeys(("inc", "n", "t", "pos", "primary", "view", "attempt", "replies"), _INT),
    **dict.fromkeys(("members", "dests"), _STRINGS),
    "ts": _INTS,
}
"""Of the columns of events …"""
RUN_TYPES = {
    **dict.fromkeys(Run.__struct_fields__, _STRING),
    **dict.fromkeys(("schema", "seed"), _INT),
    **dict.fromkeys(("nodes", "down", "followers", "outposts"), _STRINGS),
    "settled": _BOOL,
    "components": f"list of {_STRINGS}",
}
"""… and of those of the table of runs, which has them all but, where no run has any, followers and outposts."""
ALWAYS = ("node", "inc", "n", "t", "layer", "kind")
"""What every event has …"""
_RUN_ALWAYS = tuple(name for name in RUN_TYPES if name not in ("followers", "outposts"))
"""… and every run."""


def is_parquet(path: Path) -> bool:
    """Has this directory the form, or a part of it? A trace directory has not."""
    return (path / EVENTS_DIR).is_dir() or (path / RUNS_DIR).is_dir()


def run_directory(root: Path, run: str) -> Path:
    return root / EVENTS_DIR / f"{_PREFIX}{_escape(run)}"


def run_file(root: Path, run: str) -> Path:
    return root / RUNS_DIR / f"run-{_escape(run)}.parquet"


def _escape(name: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in name)


def name_of(directory: str) -> str | None:
    """The run that a directory is named after; None if the name is of another form."""
    if not directory.startswith(_PREFIX):
        return None
    first, *rest = directory.removeprefix(_PREFIX).split("%")
    parts = [first]
    for part in rest:
        code = part[:2]
        is_code = len(code) == 2 and all(char in "0123456789abcdefABCDEF" for char in code)
        parts.append(chr(int(code, 16)) + part[2:] if is_code else f"%{part}")
    return "".join(parts)


def _visible(directory: Path, what: str) -> list[Path]:
    """Its files; those that begin with a dot or an underscore are temporary files, which every reader ignores."""
    try:
        found = sorted(path for path in directory.iterdir() if not path.name.startswith((".", "_")))
    except OSError as error:
        raise Malformed(f"{directory}: expected {what} ({error.strerror})") from None
    return found


def event_files(root: Path) -> dict[str, list[Path]]:
    """By run, the files of its events. May raise Malformed."""
    found: dict[str, list[Path]] = {}
    for directory in _visible(root / EVENTS_DIR, "a directory with the events of runs"):
        name = name_of(directory.name)
        if name is None or not directory.is_dir():
            raise Malformed(f"{directory}: expected a directory {_PREFIX}NAME with the events of a run")
        found[name] = _visible(directory, "the events of a run")
        for file in found[name]:
            if file.suffix != ".parquet":
                raise Malformed(f"{file}: expected a file of events, {directory.name}/….parquet")
    return found


def run_files(root: Path) -> list[Path]:
    """The files of the table of runs. May raise Malformed."""
    found = _visible(root / RUNS_DIR, "a directory with a table of runs")
    for file in found:
        if file.suffix != ".parquet":
            raise Malformed(f"{file}: expected a file of the table of runs, {RUNS_DIR}/….parquet")
    if not found:
        raise Malformed(f"{root / RUNS_DIR}: is empty; expected a table of runs")
    return found


def check_file(file: Path) -> int:
    """Is this a whole Parquet file of events, by its footer? Returns how many rows it has, or raises Malformed."""
    with _open(file, EVENT_TYPES) as opened:
        return cast("int", opened.metadata.num_rows)


def documents(file: Path, types: Mapping[str, str]) -> Iterator[dict[str, object]]:
    """The file's rows, in its order, with those of these columns that it has. May raise Malformed."""
    with _open(file, types) as opened:
        import pyarrow as pa

        have = [name for name in opened.schema_arrow.names if name in types]
        try:
            for batch in opened.iter_batches(columns=have):
                columns = [batch.column(name).to_pylist() for name in have]
                for values in zip(*columns, strict=True):
                    yield dict(zip(have, values, strict=True))
        except (OSError, pa.ArrowException) as error:
            raise Malformed(f"{file}: is not a whole Parquet file ({_first_line(error)})") from None


def _open(file: Path, types: Mapping[str, str]) -> Any:
    """A pyarrow.parquet.ParquetFile with columns of these types, at least those that every row has."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise Unavailable("Parquet needs pyarrow; install it with: pip install 'reconvene[spark]'") from None
    try:
        opened = pq.ParquetFile(file)
    except OSError as error:
        raise Malformed(f"{file}: can't be read ({_first_line(error)})") from None
    except pa.ArrowException as error:
        raise Malformed(f"{file}: is not a whole Parquet file ({_first_line(error)})") from None
    for field in opened.schema_arrow:
        expected = types.get(field.name)
        if expected is not None and _told(field.type) != expected:
            raise Malformed(f"{file}: column `{field.name}` has the type {field.type}; expected {expected}")
    for name in ALWAYS if types is EVENT_TYPES else _RUN_ALWAYS:
        if name not in opened.schema_arrow.names:
            raise Malformed(f"{file}: has no column `{name}`; expected one of {types[name]}")
    return opened


def _told(kind: "pa.DataType") -> str:
    import pyarrow as pa

    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list of {_told(kind.value_type)}"
    if pa.types.is_dictionary(kind):
        return _told(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _STRING
    if pa.types.is_int64(kind) or pa.types.is_int32(kind):
        return _INT
    return _BOOL if pa.types.is_boolean(kind) else str(kind)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
