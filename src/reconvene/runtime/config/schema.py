"""The configuration's schema as data: each key's name in the file, its kind, range and default.

Reading a file, checking an object and writing docs/configuration.md all use it, so that they can't disagree.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import fields

from reconvene.runtime.config.settings import Address, OneOf

__all__ = ["Key", "Kind", "keys"]


class Kind(Enum):
    """The value is the wording in error messages."""

    TEXT = "a string"
    TEXTS = "a list of strings"
    CHOICE = "a string"
    FLAG = "true or false"
    WHOLE = "a whole number"
    SIZE = 'a size such as 65536 or "4MiB"'
    DURATION = 'a duration such as "500ms"'
    PATH = "a path"
    PATHS = "a list of paths"
    ADDRESS = 'an address such as "10.0.0.1:7000"'
    ADDRESSES = 'a table of name = "host:port"'
    QUORUM = 'a quorum such as { kind = "majority" }'
    TABLE = "a table"


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    """The key in the file."""
    field: str
    """The field of the struct."""
    kind: Kind
    required: bool
    optional: bool
    """Whether it may be None in the struct and missing in the file."""
    default: Any
    least: int | None = None
    most: int | None = None
    choices: tuple[str, ...] = ()
    struct: type[Struct] | None = None
    """Of a table."""


_KINDS: Mapping[Any, Kind] = {
    str: Kind.TEXT,
    bool: Kind.FLAG,
    int: Kind.WHOLE,
    Path: Kind.PATH,
    Address: Kind.ADDRESS,
    tuple[Path, ...]: Kind.PATHS,
    tuple[str, ...]: Kind.TEXTS,
    dict[str, Address]: Kind.ADDRESSES,
    dict[str, object]: Kind.QUORUM,
}


@cache
def keys(struct: type[Struct]) -> tuple[Key, ...]:
    hints = get_type_hints(struct, include_extras=True)
    return tuple(_key(info.name, hints[info.name], info) for info in fields(struct))


def _key(name: str, hint: Any, info: Any) -> Key:
    optional = get_origin(hint) in (Union, UnionType)
    if optional:
        hint = next(part for part in get_args(hint) if part is not type(None))
    least = most = None
    choices: tuple[str, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *marks = get_args(hint)
        for mark in marks:
            if isinstance(mark, Meta):
                least, most = int(mark.ge or 0), int(mark.le or 0)
            elif isinstance(mark, OneOf):
                choices = mark.choices
    table = hint if isinstance(hint, type) and issubclass(hint, Struct) else None
    default = info.default_factory() if info.default_factory is not NODEFAULT else info.default
    return Key(
        name=name.removesuffix("_ns").removesuffix("_"),  # `pass` and `in` are words of Python
        field=name,
        kind=_kind(name, hint, choices, table is not None),
        required=info.required,
        optional=optional,
        default=None if default is NODEFAULT else default,
        least=least,
        most=most,
        choices=choices,
        struct=table,
    )


def _kind(name: str, hint: Any, choices: tuple[str, ...], is_table: bool) -> Kind:
    if is_table:
        return Kind.TABLE
    if choices:
        return Kind.CHOICE
    if hint is int and name.endswith("_ns"):
        return Kind.DURATION
    if hint is int and name.endswith("_bytes"):
        return Kind.SIZE
    return _KINDS[hint]
