"""Runs seeds of the simulator with one build, and prints one line of JSON. `bench.compiled` starts it:

    python -P compiled_child.py pure|compiled PROFILE FIRST COUNT

It imports nothing of Reconvene at its top: with `pure`, the finder that passes over machine code comes first.
"""

import json
import sys
from collections.abc import Sequence
from hashlib import sha256
from importlib.abc import MetaPathFinder
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType

__all__ = ["SourceOnly", "main"]


class SourceOnly(MetaPathFinder):
    """Finds the modules of Reconvene as source, also where compiled ones stand beside it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is None or not fullname.startswith("reconvene."):
            return None
        for entry in path:
            if (spec := FileFinder(entry, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(fullname)) is not None:
                return spec
        return None


def main(arguments: list[str]) -> None:
    build, profile, first, count = arguments
    if build == "pure":
        sys.meta_path.insert(0, SourceOnly())

    import msgspec

    from reconvene.build import current_build
    from reconvene.lab.campaign.seeds import run_seed

    outcomes = [run_seed(profile, seed) for seed in range(int(first), int(first) + int(count))]
    found = {
        "build": current_build(),
        "cpu_s": sum(outcome.cpu_s for outcome in outcomes),
        "failed": [outcome.seed for outcome in outcomes if not outcome.ok],
        # What came of the seeds, but for the time that they took.
        "digest": sha256(msgspec.json.encode([msgspec.structs.replace(o, cpu_s=0.0) for o in outcomes])).hexdigest(),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
