"""Writes TOML, which the standard library can only read."""

from collections.abc import Mapping

import msgspec

__all__ = ["to_toml"]


def to_toml(document: Mapping[str, object]) -> str:
    """Supports strings, numbers, booleans, lists of these, and tables. Empty tables are left out."""
    lines: list[str] = []
    _table("", document, lines)
    return "\n".join(lines) + "\n"


def _table(name: str, table: Mapping[str, object], lines: list[str]) -> None:
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    if name and plain:
        lines += ["", f"[{name}]"]
    lines += [f"{_quoted(key)} = {_value(value)}" for key, value in plain.items()]
    for key, value in table.items():
        if isinstance(value, Mapping):
            _table(f"{name}.{_quoted(key)}" if name else _quoted(key), value, lines)


def _value(value: object) -> str:
    match value:
        case bool() | int() | float() | str():
            # JSON's strings, numbers and booleans are valid TOML too.
            return msgspec.json.encode(value).decode()
        case list() | tuple():
            return f"[{', '.join(_value(item) for item in value)}]"
    raise TypeError(f"{value!r} can't be written as TOML here")


def _quoted(key: str) -> str:
    bare = key and key.isascii() and key.replace("-", "").replace("_", "").isalnum()
    return key if bare else _value(key)
