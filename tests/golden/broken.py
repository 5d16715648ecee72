"""The register of broken stories, each under the check that must catch it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.golden.dsl import Story


@dataclass(frozen=True)
class Broken:
    check: str
    what: str
    also: tuple[str, ...]
    tell: Callable[[], Story]

    @property
    def name(self) -> str:
        return f"{self.check}--{self.what}"


BROKEN: list[Broken] = []


def broken(check: str, what: str, also: Sequence[str] = ()) -> Callable[[Callable[[], Story]], None]:
    def register(tell: Callable[[], Story]) -> None:
        BROKEN.append(Broken(check, what, tuple(sorted(also)), tell))

    return register
