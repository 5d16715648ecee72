"""Makes something once in a run of the tests, for all workers: runs of the simulator that several tests look at."""

import fcntl
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

__all__ = ["Once"]

Made = TypeVar("Made")


class Once:
    """The fixture `once`. The directory is the same for all workers, and new in each run of the tests."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __call__(self, name: str, make: Callable[[], Made]) -> Made:
        """What `make` returns, or returned to the first test that asked for this name. A copy for each test."""
        file = self._directory / f"{name}.pickle"
        with file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed
            if not file.exists():
                file.write_bytes(pickle.dumps(make()))
        made: Made = pickle.loads(file.read_bytes())
        return made
