"""Writes TOML: the standard library reads it only."""

from collections.abc import Mapping

import msgspec

__all__ = ["to_toml"]


def to_toml(document: Mapping[str, object]) -> str:
    """Strings, numbers, truths, lists of these, and tables of all that. Empty tables are left out."""
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
            # JSON's strings, numbers and truths are TOML's too.
            return msgspec.json.encode(value).decode()
        case list() | tuple():
            return f"[{', '.join(_value(item) for item in value)}]"
    raise TypeError(f"{value!r} has no form in TOML here")


def _quoted(key: str) -> str:
    bare = key and key.isascii() and key.replace("-", "").replace("_", "").isalnum()
    return key if bare else _value(key)
