"""What the directories of one local cluster and of several joined ones have alike."""

from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from reconvene.errors import Rejected

__all__ = ["Directory", "Ending", "replace_file"]


class Directory:
    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()

    def __str__(self) -> str:
        return str(self.directory)

    @property
    def trace(self) -> Path:
        return self.directory / "trace"

    def make_empty(self, holds: str, *inside: Path) -> None:
        """Makes it, and these directories in it. Raises Rejected if it contains anything: no `holds` is in it."""
        try:
            if self.directory.exists() and (not self.directory.is_dir() or any(self.directory.iterdir())):
                what = f"is not empty and holds no {holds}" if self.directory.is_dir() else "is a file"
                raise Rejected(f"{self}: {what}; expected a new or an empty directory")
            # It contains a key, and anyone who can open a socket may do anything.
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in inside:
                path.mkdir(parents=True)
        except OSError as error:
            raise Rejected(f"{self}: can't be made: {error.strerror}") from None


class Ending(ABC):
    """The end of a `with` block kills all processes."""

    @abstractmethod
    def kill(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()


def replace_file(path: Path, data: bytes) -> None:
    """Writes all or nothing."""
    scratch = path.with_name(path.name + ".new")
    scratch.write_bytes(data)
    scratch.replace(path)
