"""Where a campaign keeps what came of its seeds, so that it can be cut off, go on, and grow.

    DIR/campaign.json                   what all its runs have in common
    DIR/outcomes/PROFILE/SEED.json      what came of a seed; its file is there when all else of it is
    DIR/events, DIR/runs                the traces, in the Parquet form

Files get their names when they are whole. A seed without an outcome is run again.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from uuid import uuid4

import msgspec
from msgspec import Struct

from reconvene.errors import Malformed, Unavailable
from reconvene.lab.campaign.seeds import Outcome

__all__ = ["CampaignDirectory", "Seed", "Settings"]

_SETTINGS = "campaign.json"
_OUTCOMES = "outcomes"
_SCHEMA = 1

Seed = tuple[str, int]
"""A profile and a number."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all runs of a directory have in common."""

    schema: int = _SCHEMA
    nodes: int | None = None
    """None: each seed draws its own number."""

    def told(self) -> str:
        return "without --nodes" if self.nodes is None else f"with --nodes {self.nodes}"


class CampaignDirectory:
    """Raises Malformed over files that are not a campaign's, Unavailable where it can't write."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def open(self, settings: Settings) -> None:
        """Makes it, or goes on with it where it was made with the same settings."""
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
            raise Malformed(f"{self.root}: was made {found.told()}; this campaign is {settings.told()}")

    def done(self, profile: str) -> set[int]:
        """Seeds of this profile that have an outcome."""
        directory = self.root / _OUTCOMES / profile
        try:
            names = os.listdir(directory)
        except FileNotFoundError:
            return set()
        stems = (name.removesuffix(".json") for name in names if name.endswith(".json"))
        return {int(stem) for stem in stems if stem.isdecimal()}

    def write(self, outcome: Outcome) -> None:
        """May raise OSError."""
        path = self._path((outcome.profile, outcome.seed))
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, msgspec.json.encode(outcome) + b"\n")

    def outcome(self, seed: Seed) -> Outcome:
        path = self._path(seed)
        try:
            return msgspec.json.decode(path.read_bytes(), type=Outcome)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Malformed(f"{path}: expected the outcome of a seed ({error})") from None

    def outcomes(self, seeds: Iterable[Seed]) -> Iterator[Outcome]:
        return map(self.outcome, seeds)

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
