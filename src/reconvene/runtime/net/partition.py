"""A partition made on purpose. It is kept in a file, so that a site that starts later follows it too."""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from reconvene.errors import Malformed, Rejected

__all__ = ["Partition", "check_components"]


class Partition(Struct, frozen=True, kw_only=True):
    components: tuple[tuple[str, ...], ...] = ()
    """Only sites of the same component are connected; empty: all sites are."""
    changed_at: float = 0.0
    """When a fault, its end, a start or a stop last happened: seconds since 1970."""

    def blocked(self, name: str, names: Iterable[str]) -> tuple[str, ...]:
        """The sites that this site is disconnected from."""
        if not self.components:
            return ()
        own = next(component for component in self.components if name in component)
        return tuple(other for other in sorted(names) if other not in own)

    def connected(self, up: Iterable[str]) -> list[list[str]]:
        """The components, with only the sites that are up."""
        there = sorted(up)
        if not self.components:
            return [there] if there else []
        parts = [[name for name in component if name in there] for component in self.components]
        return [part for part in parts if part]

    def save(self, path: Path) -> None:
        """Saves it with the current time."""
        scratch = path.with_name(path.name + ".new")
        scratch.write_bytes(msgspec.json.encode(msgspec.structs.replace(self, changed_at=time.time())) + b"\n")
        scratch.replace(path)

    @classmethod
    def load(cls, path: Path) -> "Partition":
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise Malformed(f"{path}: can't be read: {error.strerror}") from None
        except msgspec.MsgspecError as error:
            raise Malformed(f"{path}: {error}; `reconvene heal` writes a new one") from None


def check_components(components: Sequence[Sequence[str]], names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The components, sorted; a site in no list is alone. Raises Rejected for an unknown name, or one that occurs
    twice."""
    named: set[str] = set()
    for component in components:
        for name in component:
            if name not in names:
                raise Rejected(f"partition: there is no site {name!r}; expected some of {', '.join(names)}")
            if name in named:
                raise Rejected(f"partition: site {name} is named twice; expected each site in one list at most")
            named.add(name)
    whole = [*components, *([name] for name in names if name not in named)]
    return tuple(sorted(tuple(sorted(component)) for component in whole if component))
