"""Which build of Reconvene runs: pure Python, or with the hot modules compiled to machine code.

Both come from the same source and do the same. `scripts/compile.py` says which modules are compiled, and writes the
hashes of their sources beside them. With those, this module recognizes machine code of an older source.
"""

import hashlib
from enum import StrEnum
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

__all__ = ["Build", "current_build"]

_COMPILED_MODULE = "reconvene.core.site"
"""Compiled in every compiled build. All are compiled together, or none."""
_PACKAGE = Path(__file__).parent
HASHES = _PACKAGE / "compiled.sha256"
"""A line for each compiled module, as sha256sum prints it; paths start at the package."""


class Build(StrEnum):
    PURE = "pure"
    COMPILED = "compiled"
    STALE = "compiled from another source"
    """Files were edited after `make compiled`: the machine code runs, not what the files say."""


def current_build() -> Build:
    spec = find_spec(_COMPILED_MODULE)
    if spec is None or spec.origin is None or not spec.origin.endswith(tuple(EXTENSION_SUFFIXES)):
        return Build.PURE
    return Build.COMPILED if _hashes_match() else Build.STALE


def _hashes_match() -> bool:
    try:
        for line in HASHES.read_text().splitlines():
            digest, name = line.split("  ", 1)
            if hashlib.sha256((_PACKAGE / name).read_bytes()).hexdigest() != digest:
                return False
    except (OSError, ValueError):
        return False
    return True
