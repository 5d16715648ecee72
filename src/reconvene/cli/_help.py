"""The list of commands, by task."""

from collections.abc import Iterable

from reconvene import __version__
from reconvene.cli._catalogue import CATALOGUE, Command, family

__all__ = ["overview", "overview_of"]

_FIRST_STEPS = (
    "reconvene demo",
    "reconvene up --dir town",
    "reconvene watch --dir town",
    "reconvene partition a b,c --dir town",
    "reconvene down --dir town",
)


def overview() -> str:
    """Every command, by section."""
    lines = [
        f"reconvene {__version__}: group communication and a durable, totally ordered log",
        "for services whose network breaks",
        "",
        "Usage: reconvene COMMAND [OPTIONS]",
    ]
    for section in CATALOGUE:
        lines += ["", f"{section.title}:", *_rows(section.commands)]
    lines += ["", "First steps:", *(f"  $ {step}" for step in _FIRST_STEPS), ""]
    lines += [
        "Options: --version, -h or --help; COMMAND --help shows its options and an example.",
        "Exit codes: 0, success; 1, a check failed;",
        "2, bad usage or bad input, with one line on what was expected.",
    ]
    return "\n".join(lines)


def overview_of(first: str) -> str:
    """The commands whose name begins with this word."""
    commands = family(first).values()
    lines = [f"Usage: reconvene {first} COMMAND [OPTIONS]", "", *_rows(commands), "", "Examples:"]
    lines += [f"  $ {command.example}" for command in commands]
    return "\n".join([*lines, "", f"reconvene {first} COMMAND --help shows a command's options."])


def _rows(commands: Iterable[Command]) -> list[str]:
    return [f"  {command.name:<16} {command.summary}" for command in commands]
