"""reconvene pipeline: the log as tables, kept up to date by Structured Streaming."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from reconvene.cli._output import print_json
from reconvene.cli._spark import Conf, Master, Spark
from reconvene.cli._units import parse_ns
from reconvene.errors import Malformed
from reconvene.local import LocalCluster

if TYPE_CHECKING:
    from reconvene.pipeline.export import Export

__all__ = ["export_command", "tally_command"]

Directory = Annotated[Path | None, typer.Option("--dir", metavar="DIR", help="A local cluster's directory.")]
Nodes = Annotated[
    str | None,
    typer.Option("--node", metavar="ADDR,…", help="One or more replicas: host:port, or the path of a Unix socket."),
]
KeyFile = Annotated[Path | None, typer.Option("--key", metavar="FILE", help="A file with a client key.")]
Start = Annotated[
    str, typer.Option("--from", metavar="earliest|latest|N", help="Where a new query begins; N is a position.")
]
Once = Annotated[bool, typer.Option("--once", help="Stop at the current end of the log.")]
Every = Annotated[str, typer.Option(metavar="TIME", help="How often to read new messages: 500ms, 5s.")]
PayloadFormat = Annotated[
    str | None, typer.Option("--format", metavar="json|msgpack", help="Decode payloads into columns.")
]
PayloadSchema = Annotated[
    str | None, typer.Option("--schema", metavar="DDL", help='The columns: "voter string, choice string".')
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document at the end.")]

_LOOK_S = 0.5


def export_command(
    to: Annotated[Path, typer.Option(metavar="DIR", help="Directory for the table and the checkpoint.")],
    directory: Directory = None,
    node: Nodes = None,
    key: KeyFile = None,
    start: Start = "earliest",
    once: Once = False,
    every: Every = "5s",
    payload_format: PayloadFormat = None,
    payload_schema: PayloadSchema = None,
    master: Master = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Export the log to a Parquet table, continuously. If it is killed and started again, no row is lost or
    repeated."""
    spark = Spark.parse(master, conf)
    options = _options(directory, node, key, start, payload_format, payload_schema)
    pause = _for_spark(every, "--every")
    from reconvene.pipeline.export import export_log, hold

    console = Console(stderr=True)
    with hold(to), spark.open() as session:
        export = export_log(session, options, to, once=once, every=pause)
        _watch(export, once, lambda: _show_progress(console, export))
        told = export.progress()
    rows = 0 if told is None else told.rows
    if as_json:
        print_json({"to": str(to / "log"), "rows": rows, "position": None if told is None else told.position})
    else:
        print(f"{rows:,} rows exported to {to / 'log'}")


def tally_command(
    window: Annotated[str, typer.Option(metavar="TIME", help="The windows' length: 500ms, 10s, 1min.")] = "1min",
    by: Annotated[
        list[str] | None, typer.Option("--by", metavar="COLUMN", help="Count by this as well; may be repeated.")
    ] = None,
    directory: Directory = None,
    node: Nodes = None,
    key: KeyFile = None,
    start: Start = "earliest",
    once: Once = False,
    every: Every = "5s",
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Checkpoint from which the next run continues; default: none, every run begins at the start.",
        ),
    ] = None,
    payload_format: PayloadFormat = None,
    payload_schema: PayloadSchema = None,
    master: Master = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Count messages by time window, live. Messages of a minority that rejoins hours later are counted too."""
    spark = Spark.parse(master, conf)
    options = _options(directory, node, key, start, payload_format, payload_schema)
    pause, length = _for_spark(every, "--every"), _for_spark(window, "--window")
    counts: dict[tuple[str, str], int] = {}

    def tell(rows: list[tuple[str, str, int]]) -> None:
        for begin, what, count in rows:
            counts[begin, what] = count
            if not as_json:
                print(f"{begin}  {what + '  ' if what else ''}{count:,}", flush=True)

    from reconvene.pipeline.tally import TALLY_DEFAULTS, follow_tally

    keys = tuple(by or ())
    with TemporaryDirectory() as forgotten, spark.open(defaults=TALLY_DEFAULTS) as session:
        place = checkpoint or Path(forgotten)
        tally = follow_tally(session, options, length, keys, tell, checkpoint=place, once=once, every=pause)
        _watch(tally, once, lambda: None)
    if as_json:
        print_json([
            {"window_start": begin, "key": what, "count": count} for (begin, what), count in sorted(counts.items())
        ])  # fmt: skip


def _options(
    directory: Path | None, node: str | None, key: Path | None, start: str, payload_format: str | None,
    payload_schema: str | None,
) -> dict[str, str]:  # fmt: skip
    """Options for the Spark source, which checks them."""
    if (directory is None) == (node is None):
        raise Malformed("expected either --dir DIR or --node ADDR,…")
    addresses = str(node) if directory is None else ",".join(LocalCluster(directory).addresses.values())
    told = {
        "addresses": addresses,
        "keyFile": None if key is None else str(key),
        "startingPosition": start,
        "format": payload_format,
        "schema": payload_schema,
    }
    options = {name: value for name, value in told.items() if value is not None}
    from reconvene.pipeline.source.options import parse_options

    parse_options(options, stream=True)
    return options


def _for_spark(text: str, option: str) -> str:
    """A duration as Spark writes it."""
    milliseconds = parse_ns(text, option) // 1_000_000
    if milliseconds < 1:
        raise Malformed(f"{option} {text}: expected at least 1ms")
    return f"{milliseconds} milliseconds"


def _watch(export: "Export", once: bool, look: Callable[[], None]) -> None:
    """Waits until the query ends, or for Ctrl-C: then the finished batches stay."""
    try:
        while not export.wait(_LOOK_S):
            look()
    except KeyboardInterrupt:
        if once:
            raise
    finally:
        export.stop()


def _show_progress(console: Console, export: "Export") -> None:
    told = export.progress()
    if told is not None and console.is_terminal:
        line = f"position {told.position:,}, {told.rows:,} rows, {told.rows_per_s:,.0f} a second"
        console.print(line, end="\r", markup=False)
