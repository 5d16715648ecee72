"""Typed reading of a TOML document, where every message of failure says which file and field it is about."""

import math
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from reconvene.errors import Malformed
from reconvene.sim.durations import parse_bandwidth, parse_duration

__all__ = ["Nodes", "Table", "one_line", "show"]


class Table:
    """A TOML table with its place in the file. Each getter takes a key, and fails with that key's place."""

    def __init__(self, file: str, place: str, content: Any) -> None:
        self.file = file
        self.place = place
        if not isinstance(content, dict):
            self.fail("", f"expected a table, not {show(content)}")
        self.content: dict[str, Any] = content

    def fail(self, key: str, problem: str) -> NoReturn:
        place = f"{self.place}.{key}" if self.place and key else self.place or key
        where = f"{self.file}: {place}" if place else self.file
        raise Malformed(one_line(f"{where}: {problem}"))

    def only(self, known: Sequence[str]) -> None:
        for key in self.content:
            if key not in known:
                self.fail(key, f"unknown key; {_meant(key, known)}expected one of {', '.join(known)}")

    def has(self, key: str) -> bool:
        return key in self.content

    def _get(self, key: str, kinds: tuple[type, ...], expected: str) -> Any:
        if key not in self.content:
            self.fail(key, f"missing; expected {expected}")
        value = self.content[key]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            self.fail(key, f"expected {expected}, not {show(value)}")
        return value

    def text(self, key: str, expected: str = "a string") -> str:
        value: str = self._get(key, (str,), expected)
        return value

    def choice(self, key: str, choices: Sequence[str]) -> str:
        expected = f"one of {', '.join(choices)}"
        value = self.text(key, expected)
        if value not in choices:
            self.fail(key, f"expected {expected}, not {show(value)}")
        return value

    def whole(self, key: str, least: int, most: int) -> int:
        expected = f"a whole number from {least} to {most}"
        value: int = self._get(key, (int,), expected)
        if not least <= value <= most:
            self.fail(key, f"expected {expected}, not {show(value)}")
        return value

    def number(self, key: str, least: float, most: float) -> float:
        expected = f"a number from {least:g} to {most:g}"
        value: int | float = self._get(key, (int, float), expected)
        if not (math.isfinite(value) if isinstance(value, float) else True) or not least <= value <= most:
            self.fail(key, f"expected {expected}, not {show(value)}")
        return float(value)

    def flag(self, key: str) -> bool:
        """False where it is left out."""
        return self.has(key) and bool(self._get(key, (bool,), "true or false"))

    def duration(self, key: str) -> int:
        return self._parsed(key, parse_duration, "a duration such as 500ms")

    def bandwidth(self, key: str) -> int:
        return self._parsed(key, parse_bandwidth, "a bandwidth such as 100Mbit")

    def _parsed(self, key: str, parse: Callable[[str], int], expected: str) -> int:
        text = self.text(key, expected)
        try:
            return parse(text)
        except ValueError as error:
            self.fail(key, f"expected {error}, not {show(text)}")

    def list_of(self, key: str, expected: str) -> list[Any]:
        value: list[Any] = self._get(key, (list,), expected)
        return value

    def table(self, key: str) -> "Table":
        return Table(self.file, self._place(key), self._get(key, (dict,), "a table"))

    def tables(self, key: str) -> list["Table"]:
        if key not in self.content:
            return []
        entries = self.list_of(key, f"[[{key}]] entries")
        return [Table(self.file, f"{self._place(key)}[{i}]", entry) for i, entry in enumerate(entries)]

    def _place(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key


def _meant(typed: str, known: Sequence[str]) -> str:
    close = get_close_matches(typed, known, 1)
    return f"did you mean {close[0]}? " if close else ""


class Nodes:
    """Reads names of nodes, or of other things that the file declares: it has to know them."""

    def __init__(
        self, known: Sequence[str], what: str = "node", several: str = "nodes", declared: str = "nodes"
    ) -> None:
        self.known = frozenset(known)
        self._what = what
        self._several = several
        self._declared = declared

    def one(self, table: Table, key: str, value: Any) -> str:
        if not isinstance(value, str):
            table.fail(key, f"expected a {self._what}, not {show(value)}")
        if value not in self.known:
            meant = _meant(value, sorted(self.known))
            table.fail(key, f"unknown {self._what} {show(value)}; {meant}expected one of {self._declared}")
        return value

    def several(self, table: Table, key: str) -> tuple[str, ...]:
        example = sorted(self.known)[:2] if self._what != "node" else ["p", "q"]
        values = table.list_of(key, f"a list of {self._several} such as {example}".replace("'", '"'))
        return tuple(self.one(table, key, value) for value in values)

    def distinct(self, table: Table, key: str) -> tuple[str, ...]:
        names = self.several(table, key)
        for place, name in enumerate(names):
            if name in names[:place]:
                table.fail(key, f"{self._what} {show(name)} stands there twice; expected it once")
        return names

    def pairs(self, table: Table, key: str) -> tuple[tuple[str, str], ...]:
        expected = 'a list of pairs such as [["p", "q"]]'
        return tuple(self._pair(table, key, value, expected) for value in table.list_of(key, expected))

    def _pair(self, table: Table, key: str, value: Any, expected: str) -> tuple[str, str]:
        if not isinstance(value, list) or len(value) != 2:
            table.fail(key, f"expected {expected}, not {show(value)}")
        one, other = (self.one(table, key, name) for name in value)
        if one == other:
            table.fail(key, f"expected two different nodes, not {show(one)} twice")
        return one, other

    def between(self, table: Table, key: str) -> tuple[str, str]:
        return self._pair(table, key, table.list_of(key, "two nodes"), 'two nodes such as ["p", "q"]')

    def components(self, table: Table, key: str) -> tuple[tuple[str, ...], ...]:
        expected = 'a list of components such as [["p"], ["q", "r"]]'
        seen: set[str] = set()
        components: list[tuple[str, ...]] = []
        for component in table.list_of(key, expected):
            if not isinstance(component, list):
                table.fail(key, f"expected {expected}, not {show(component)} in it")
            names = tuple(self.one(table, key, name) for name in component)
            for name in names:
                if name in seen:
                    table.fail(key, f"node {show(name)} stands in it twice; expected it in one component")
                seen.add(name)
            components.append(names)
        return tuple(components)


def show(value: Any) -> str:
    """A value as a message shows it: short, and on one line."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value.bit_length() > 128:
        return "a number of more than 128 bits"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def one_line(text: str) -> str:
    return " ".join(text.split())
