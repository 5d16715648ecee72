"""reconvene log check: checks a site's storage for damage."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from reconvene.cli._cluster import AsJson, console
from reconvene.cli._output import DONE, VIOLATED, print_json
from reconvene.runtime.log.files import Checked, check_site

__all__ = ["check_command"]


def check_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory of a stopped site.")],
    as_json: AsJson = False,
) -> None:
    """Check a site's storage: every page, every value's checksum, and whether the log can be loaded."""
    found = check_site(directory, _progress if sys.stderr.isatty() else None)
    if as_json:
        print_json(
            {
                "ok": not found.problems,
                "store": found.store,
                "values": found.values,
                "bytes": found.bytes,
                "base": found.base,
                "green": found.green,
                "pending": found.pending,
                "problems": found.problems,
            }
        )
    else:
        _show(found)
    raise typer.Exit(VIOLATED if found.problems else DONE)


def _progress(values: int, size: int) -> None:
    print(f"\r{values:,} values, {size:,} bytes", end="", file=sys.stderr, flush=True)


def _show(found: Checked) -> None:
    out = console()
    out.print(f"{found.store}: {found.values:,} values, {found.bytes:,} bytes", markup=False)
    if found.green is not None:
        out.print(f"the log: positions {found.base:,} to {found.green:,}, and {found.pending:,} messages not ordered")
    for problem in found.problems:
        out.print(problem, markup=False)
    out.print("sound" if not found.problems else f"{len(found.problems)} problems")
