"""How every command ends: its exit code, one JSON document, or one line of what was wrong."""

import sys
from typing import NoReturn

import msgspec
import typer

__all__ = ["BAD_INPUT", "DONE", "VIOLATED", "print_json", "refuse"]

DONE = 0
"""It ran, and what was checked holds."""
VIOLATED = 1
"""It ran, and something that was checked does not hold."""
BAD_INPUT = 2
"""Bad usage or bad input."""


def print_json(document: object) -> None:
    """The one document that `--json` promises on stdout."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n")


def refuse(message: str, as_json: bool = False) -> NoReturn:
    """One line on stderr, the same in JSON on stdout where that was asked for, and exit 2."""
    line = " ".join(message.split())
    if as_json:
        print_json({"error": line})
    typer.echo(f"reconvene: {line}", err=True)
    raise typer.Exit(BAD_INPUT)
