"""The directory in which a campaign keeps the outcome of each run: it can be interrupted, resumed and extended.

    DIR/campaign.json                   what all runs have in common
    DIR/outcomes/PROFILE/SEED.json      the outcome of one run, written after everything else of that run
    DIR/events, DIR/runs                the traces, in the Parquet form

A file gets its name once it is complete. A run without an outcome is run again.
"""

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Generic, TypeVar
from uuid import uuid4

import msgspec
from msgspec import Struct

from reconvene.errors import Malformed, Unavailable

__all__ = ["CampaignDirectory", "Seed", "Settings"]

_SETTINGS = "campaign.json"
_OUTCOMES = "outcomes"
_SCHEMA = 1

Seed = tuple[str, int]
"""What identifies a run of a campaign: a profile and a number."""

O = TypeVar("O", bound=Struct)  # noqa: E741


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all runs of a directory have in common."""

    schema: int = _SCHEMA
    nodes: int | None = None
    """None: each seed draws its own number."""

    def __str__(self) -> str:
        return "without --nodes" if self.nodes is None else f"with --nodes {self.nodes}"


class CampaignDirectory(Generic[O]):
    """Outcomes of type `O`. Raises Malformed for files that are not a campaign's, Unavailable if it can't write."""

    def __init__(self, root: Path, outcome: type[O]) -> None:
        self.root = root
        self._type = outcome

    def open(self, settings: Settings) -> None:
        """Creates the directory, or checks that it was created with the same settings."""
        path = self.root / _SETTINGS
        try:
            if not path.exists():
                if self.root.is_dir() and any(self.root.iterdir()):
                    raise Malformed(f"{self.root}: is not empty, and no campaign's; expected a new directory")
                self.root.mkdir(parents=True, exist_ok=True)
                _write(path, msgspec.json.encode(settings) + b"\n")
            found = msgspec.json.decode(path.read_bytes(), type=Settings)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Malformed(f"{path}: expected a campaign's settings ({error})") from None
        except OSError as error:
            raise Unavailable(f"{self.root}: can't be written to ({error.strerror or error})") from None
        if found.schema != _SCHEMA:
            raise Malformed(f"{path}: `schema` is {found.schema}; expected {_SCHEMA}")
        if found != settings:
            raise Malformed(f"{self.root}: was made {found}; this campaign is {settings}")

    def done(self, profile: str) -> set[int]:
        """The seeds of this profile that have an outcome."""
        directory = self.root / _OUTCOMES / profile
        try:
            names = os.listdir(directory)
        except FileNotFoundError:
            return set()
        stems = (name.removesuffix(".json") for name in names if name.endswith(".json"))
        return {int(stem) for stem in stems if stem.isdecimal()}

    def missing(self, seeds: Sequence[Seed]) -> list[Seed]:
        """Those of the seeds that have no outcome."""
        done = {profile: self.done(profile) for profile in sorted({profile for profile, _ in seeds})}
        return [seed for seed in seeds if seed[1] not in done[seed[0]]]

    def write(self, seed: Seed, outcome: O) -> None:
        """May raise OSError."""
        path = self._path(seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, msgspec.json.encode(outcome) + b"\n")

    def outcome(self, seed: Seed) -> O:
        path = self._path(seed)
        try:
            return msgspec.json.decode(path.read_bytes(), type=self._type)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Malformed(f"{path}: expected the outcome of a seed ({error})") from None

    def outcomes(self, seeds: Iterable[Seed]) -> Iterator[O]:
        return map(self.outcome, seeds)

    def forget(self, profile: str) -> None:
        """Removes the outcomes of this profile."""
        shutil.rmtree(self.root / _OUTCOMES / profile, ignore_errors=True)

    def _path(self, seed: Seed) -> Path:
        profile, number = seed
        return self.root / _OUTCOMES / profile / f"{number}.json"


def _write(path: Path, data: bytes) -> None:
    scratch = path.with_name(f".{uuid4().hex}.tmp")
    try:
        scratch.write_bytes(data)
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)
