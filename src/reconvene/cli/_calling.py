"""Parses the arguments of one command and runs it."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, cast

import typer

from reconvene.cli._catalogue import Command, closest
from reconvene.errors import Malformed

__all__ = ["call", "function_of"]

_UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])
"""The parser's error class, which typer does not export."""
_WIDEST = 118


def function_of(command: Command) -> Callable[..., Any]:
    module, _, function = command.place.partition(":")
    found: Callable[..., Any] = getattr(import_module(f"reconvene.cli.{module}"), function)
    return found


def call(command: Command, arguments: list[str]) -> int:
    """Returns the exit code. Raises Malformed if the parser refuses the arguments, and whatever the command
    raises."""
    function = function_of(command)
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": _WIDEST},
    )
    app.command(epilog=f"Example: {command.example}")(function)
    try:
        code = app(arguments, prog_name=f"reconvene {command.name}", standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except _UsageError as error:
        raise Malformed(_words(error, command, function)) from None
    return code if isinstance(code, int) else 0


def _words(error: Exception, command: Command, function: Callable[..., Any]) -> str:
    """The parser's message, with the command's name and the option that was probably meant."""
    typed = getattr(error, "option_name", None)
    if type(error).__name__ == "NoSuchOption" and isinstance(typed, str):
        from reconvene.cli._signature import signature_of

        known = [flag for option in signature_of(function).options for flag in option.flags]
        meant = closest(typed, known)
        hint = f"did you mean {meant}?" if meant else f"`reconvene {command.name} --help` lists the options"
        return f"{command.name}: no such option {typed}; {hint}"
    said = str(getattr(error, "format_message", error.__str__)())
    return f"{command.name}: {said[:1].lower()}{said[1:]}"
