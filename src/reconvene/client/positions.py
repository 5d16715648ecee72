"""Where messages of the log are, as an application has it."""

from collections.abc import Iterator, Sequence
from typing import overload

__all__ = ["Positions"]


class Positions(Sequence[int]):
    """Where messages are, in their order: kept as runs, since most follow each other."""

    __slots__ = ("_length", "runs")

    def __init__(self, runs: Sequence[tuple[int, int]]) -> None:
        self.runs = tuple(runs)
        """(position, count) …"""
        self._length = sum(count for _, count in self.runs)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            return list(self)[index]
        at = index + self._length if index < 0 else index
        if at >= 0:
            for position, count in self.runs:
                if at < count:
                    return position + at
                at -= count
        raise IndexError(f"position {index} of {self._length}")

    def __iter__(self) -> Iterator[int]:
        for position, count in self.runs:
            yield from range(position, position + count)

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.runs)

    def __repr__(self) -> str:
        shown = (str(start) if count == 1 else f"{start}–{start + count - 1}" for start, count in self.runs)
        return f"<positions {', '.join(shown)}>"
