"""reconvene log rescue: prints messages that a stopped site accepted and that were not ordered, as far as it
knows."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from reconvene.cli._cluster import AsJson
from reconvene.cli._output import print_json
from reconvene.cli.log_read import As, Form, Null, collector, printer
from reconvene.entries import Color, Entry
from reconvene.runtime.log.files import unordered

__all__ = ["rescue_command"]


def rescue_command(
    directory: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="The directory of a stopped site, or storage that was moved aside."),
    ],
    form: As = Form.TEXT,
    null: Null = False,
    as_json: AsJson = False,
) -> None:
    """Print the messages that a site accepted and that have no position in the log, as far as it knows.

    Use it before you replace a site. Other sites may have ordered some of these messages; append the missing ones
    again.
    """
    entries: list[dict[str, object]] = []
    show = collector(entries) if as_json else printer(form, null)
    count = 0
    for one in unordered(directory):
        count += 1
        show(Entry(one.index, one.data, one.author, one.incarnation, one.counter, one.time, Color.RED))
    sys.stdout.flush()
    print(f"{directory}: {count:,} messages without a position", file=sys.stderr)
    if as_json:
        print_json({"dir": str(directory), "entries": entries})
