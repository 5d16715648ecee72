"""How every command ends: an exit code, one JSON document, or one line that says what was wrong."""

import sys
from typing import NoReturn

import msgspec
import typer

__all__ = ["BAD_INPUT", "DONE", "VIOLATED", "print_json", "refuse"]

DONE = 0
"""The command ran, and every check holds."""
VIOLATED = 1
"""The command ran, and a check does not hold."""
BAD_INPUT = 2
"""Bad usage or bad input."""


def print_json(document: object) -> None:
    """Prints the one document that `--json` promises on stdout."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n")


def refuse(message: str, as_json: bool = False, code: int = BAD_INPUT) -> NoReturn:
    """Prints one line on stderr, with `as_json` the same as JSON on stdout, and exits with this code."""
    line = " ".join(message.split())
    if as_json:
        print_json({"error": line})
    typer.echo(f"reconvene: {line}", err=True)
    raise typer.Exit(code)
