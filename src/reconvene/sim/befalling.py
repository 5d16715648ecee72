"""What befalls one process, in a single cluster and in several: it starts; a fault is recorded, then done to it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Protocol

__all__ = ["Befalling"]


class _Process(Protocol):
    @property
    def up(self) -> bool: ...

    def start(self) -> None: ...

    def doom(self, copies: int | None) -> None: ...

    def doom_sync(self, before: Callable[[], None], *, completes: bool) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def jump(self, by_ns: int) -> None: ...


class Befalling(ABC):
    everyone: tuple[str, ...]
    """The names of all processes."""

    @abstractmethod
    def member(self, name: str) -> _Process: ...

    @abstractmethod
    def record_fault(self, kind: str, befallen: Iterable[str]) -> None: ...

    def start(self, names: Iterable[str] | None = None) -> None:
        """The first start of these, or of all."""
        chosen = frozenset(self.everyone if names is None else names)
        for name in self.everyone:
            if name in chosen:
                self.member(name).start()

    def restart(self, name: str) -> None:
        self.member(name).start()

    def may_start(self, name: str) -> bool:
        """It is down, and is one of those that take part."""
        return not self.member(name).up

    def doom(self, name: str, copies: int, kind: str = "crash") -> None:
        """Crash amid the next sending, after so many copies; the fault is recorded as of now."""
        self.record_fault(kind, [name])
        self.member(name).doom(copies)

    def doom_sync(self, name: str, *, completes: bool) -> None:
        """Crash just before or just after its next write is durable; recorded when it happens."""
        self.member(name).doom_sync(lambda: self.record_fault("sync", [name]), completes=completes)

    def pause(self, name: str) -> None:
        self.record_fault("pause", [name])
        self.member(name).pause()

    def resume(self, name: str) -> None:
        self.member(name).resume()

    def jump(self, name: str, by_ns: int) -> None:
        self.record_fault("clock", [name])
        self.member(name).jump(by_ns)
