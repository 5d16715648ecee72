"""The options and arguments of a command, read from its function.

A parameter's metavar says what is expected: `local|spark` is a choice; in `earliest|latest|N` any number is allowed
too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

from typer.models import ArgumentInfo, OptionInfo, ParameterInfo
from typer.utils import get_params_from_function

__all__ = ["Expects", "Option", "Signature", "signature_of"]

_PATHS = ("ADDR", "TRACE")
"""Metavars of strings that may be paths."""


class Expects(Enum):
    NOTHING = "nothing"
    WORD = "word"
    PATH = "path"


@dataclass(frozen=True, slots=True)
class Value:
    expects: Expects
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    flags: tuple[str, ...]
    value: Value
    help: str


@dataclass(frozen=True, slots=True)
class Signature:
    options: tuple[Option, ...]
    argument: Value
    """The positional arguments; NOTHING where there are none."""


def signature_of(function: Callable[..., Any]) -> Signature:
    options = []
    argument = Value(Expects.NOTHING)
    for name, parameter in get_params_from_function(function).items():
        told, kind = parameter.default, _kind(parameter.annotation)
        if isinstance(told, ArgumentInfo):
            argument = _value(kind, told)
        elif isinstance(told, OptionInfo):
            options.append(_option(name, kind, told))
    options.append(Option(("--help", "-h"), Value(Expects.NOTHING), "Show this message and exit."))
    return Signature(tuple(options), argument)


def _option(name: str, kind: Any, told: OptionInfo) -> Option:
    flags = tuple(told.param_decls or ())
    if kind is bool:
        return Option(flags or (f"--{name}", f"--no-{name}"), Value(Expects.NOTHING), told.help or "")
    return Option(flags or (f"--{name.replace('_', '-')}",), _value(kind, told), told.help or "")


def _value(kind: Any, told: ParameterInfo) -> Value:
    metavar = told.metavar or ""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return Value(Expects.WORD, tuple(str(member.value) for member in kind))
    if "|" in metavar:
        return Value(Expects.WORD, tuple(word for word in metavar.split("|") if word.islower()))
    return Value(Expects.PATH if kind is Path or metavar in _PATHS else Expects.WORD)


def _kind(annotation: Any) -> Any:
    """The type without `| None`; of a list, the type of its items."""
    if get_origin(annotation) in (Union, UnionType):
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    return get_args(annotation)[0] if get_origin(annotation) is list else annotation
