"""Reads a configuration file. Every mistake is one line: the file, the key, and what was expected."""

import tomllib
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from msgspec import Struct

from reconvene.errors import Malformed
from reconvene.runtime.config.check import check, expected, show
from reconvene.runtime.config.schema import Key, Kind, keys
from reconvene.runtime.config.settings import Config, Logging, LogSettings
from reconvene.units import parse_address, parse_duration, parse_size

__all__ = ["load", "parse", "read_toml"]

MOST_BYTES = 1 << 20
"""Size limit of a configuration file."""

T = TypeVar("T")
S = TypeVar("S", bound=Struct)


def load(path: str | Path) -> Config:
    """The configuration in this file, checked. Raises Malformed."""
    path = Path(path)
    return parse(read_toml(path, "a configuration file"), path)


def parse(content: dict[str, Any], source: Path) -> Config:
    """The same from the text of a file. Errors name `source`, and relative paths start there."""
    config = _Reader(source).struct(Config, content, "")
    check(config, str(source))
    return config


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Raises Malformed if the file does not exist or is not TOML."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise Malformed(f"{path}: expected {what}: {error.strerror or error}") from None
    if len(data) > MOST_BYTES:
        raise Malformed(f"{path}: expected {what} of at most {MOST_BYTES} bytes")
    try:
        return tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise Malformed(f"{path}: expected {what} in TOML: {' '.join(str(error).split())}") from None


class _Reader:
    """Converts TOML values to those of the schema."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._readers: dict[Kind, Callable[[Key, Any, str], Any]] = {
            Kind.SIZE: self._size,
            Kind.DURATION: self._duration,
            Kind.PATH: self._path,
            Kind.PATHS: self._paths,
            Kind.ADDRESS: self._address,
            Kind.ADDRESSES: self._addresses,
            Kind.TEXTS: self._texts,
            Kind.TABLE: self._table,
        }

    def fail(self, place: str, problem: str) -> NoReturn:
        raise Malformed(" ".join(f"{self.path}: {place}: {problem}".split()))

    def struct(self, struct: type[S], content: Any, place: str) -> S:
        if not isinstance(content, dict):
            self.fail(place, f"expected a table, not {show(content)}")
        known = {key.name: key for key in keys(struct)}
        prefix = f"{place}." if place else ""
        for name in content:
            if name not in known:
                self.fail(f"{prefix}{_shown(name)}", f"unknown key; {_suggestion(struct, name, list(known))}")
        values: dict[str, Any] = {}
        for key in known.values():
            if key.name in content:
                values[key.field] = self._value(key, content[key.name], f"{prefix}{key.name}")
            elif key.required:
                self.fail(f"{prefix}{key.name}", f"missing; expected {expected(key)}")
        return struct(**values)

    def _value(self, key: Key, value: Any, place: str) -> Any:
        """Converts values that have another form in the file. `check` looks at the rest."""
        reader = self._readers.get(key.kind)
        return value if reader is None else reader(key, value, place)

    def _parsed(self, what: str, value: Any, place: str, parse: Callable[[str], T]) -> T:
        if not isinstance(value, str):
            self.fail(place, f"expected {what}, not {show(value)}")
        try:
            return parse(value)
        except ValueError as error:
            self.fail(place, f"expected {error}, not {show(value)}")

    def _size(self, key: Key, value: Any, place: str) -> Any:
        return self._parsed(expected(key), value, place, parse_size) if isinstance(value, str) else value

    def _duration(self, key: Key, value: Any, place: str) -> int:
        return self._parsed(expected(key), value, place, partial(parse_duration, days=True))

    def _path(self, key: Key, value: Any, place: str) -> Path:
        if not isinstance(value, str) or not value or "\0" in value:
            self.fail(place, f"expected {Kind.PATH.value}, not {show(value)}")
        try:
            return self.path.absolute().parent / Path(value).expanduser()
        except RuntimeError as error:  # no home directory
            self.fail(place, f"expected a path, not {show(value)}: {error}")

    def _paths(self, key: Key, value: Any, place: str) -> tuple[Path, ...]:
        if not isinstance(value, list):
            self.fail(place, f"expected {expected(key)}, not {show(value)}")
        return tuple(self._path(key, item, f"{place}[{index}]") for index, item in enumerate(value))

    def _texts(self, key: Key, value: Any, place: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            self.fail(place, f"expected {expected(key)}, not {show(value)}")
        return tuple(value)

    def _address(self, key: Key, value: Any, place: str) -> tuple[str, int]:
        return self._parsed(Kind.ADDRESS.value, value, place, parse_address)

    def _addresses(self, key: Key, value: Any, place: str) -> dict[str, tuple[str, int]]:
        if not isinstance(value, dict):
            self.fail(place, f"expected {expected(key)}, not {show(value)}")
        return {name: self._address(key, item, f"{place}.{_shown(name)}") for name, item in value.items()}

    def _table(self, key: Key, value: Any, place: str) -> Struct:
        assert key.struct is not None
        return self.struct(key.struct, value, place)


def _suggestion(struct: type[Struct], name: str, known: list[str]) -> str:
    if struct is LogSettings and name in {key.name for key in keys(Logging)}:
        return f"{name} belongs under [logging]; [log] is the durable log"
    # A duration's key written with its unit, as in the program, means the same key.
    close = get_close_matches(name.removesuffix("_ns").removesuffix("_ms"), known, 1)
    return f"did you mean {close[0]}?" if close else f"expected one of {', '.join(known)}"


def _shown(name: str) -> str:
    return name if name.isprintable() and len(name) <= 60 else show(name)
