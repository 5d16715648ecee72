"""What compiling brings: seeds of the simulator a core-second, compiled and pure, in turns.

Each figure comes from a process of its own that simulates and judges the same seeds; the time to start it and to
import is left out. The outcomes of both builds must be the same. Needs the compiled build: the pure one is made from
it by passing over the machine code.
"""

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import msgspec

from reconvene.build import Build, current_build
from reconvene.errors import Unavailable
from reconvene.lab.bench.foreign import Foreign
from reconvene.lab.bench.rounds import OwnSitesFailed, in_turns
from reconvene.lab.bench.sheet import Settings, Sheet, Table, number, verdict

__all__ = ["LEAST_RATIO", "run"]

LEAST_RATIO = 1.5
"""Of seeds a core-second, compiled / pure, over all profiles."""
PROFILES = {"chaos": (8, 3), "log": (6, 2), "isis": (12, 4), "wide": (4, 1)}
"""Seeds of each profile; with --quick. About a quarter of the time goes to each."""
_CHILD = Path(__file__).with_name("compiled_child.py")
_PATIENCE_S = 600


class _Run(msgspec.Struct):
    """What a child prints."""

    build: Build
    cpu_s: float
    failed: list[int]
    digest: str


def run(settings: Settings) -> Sheet:
    if (build := current_build()) is not Build.COMPILED:
        raise Unavailable(
            f"bench compiled: expected the compiled build, this one is {build}: run `make compiled`,"
            " or `pip install .` where there is a C compiler"
        )
    sheet = Sheet("compiled")
    counts = {profile: count[settings.quick] for profile, count in PROFILES.items()}
    measures: dict[str, Callable[[], dict[tuple[str, Build], _Run]]] = {
        f"{profile}, {build}": partial(_measure, build, profile, settings.seed, counts[profile])
        for profile in PROFILES
        for build in (Build.PURE, Build.COMPILED)
    }
    with Foreign() as foreign:
        found = in_turns(sheet, settings, measures)
    lines = []
    seconds = dict.fromkeys((Build.PURE, Build.COMPILED), 0.0)
    for profile, count in counts.items():
        digests = {part.digest for build in seconds for part in found[profile, build]}
        if len(digests) != 1:
            raise OwnSitesFailed(f"profile {profile}: the two builds differ in what came of the same seeds")
        spent = {build: median(part.cpu_s for part in found[profile, build]) for build in seconds}
        for build in seconds:
            seconds[build] += spent[build]
        lines.append(_line(sheet, profile, count, spent))
    lines.append(_line(sheet, "all", sum(counts.values()), seconds))
    ratio = seconds[Build.PURE] / seconds[Build.COMPILED]
    sheet.tables.append(
        Table.of(
            "seeds of the simulator a core-second, simulated and judged",
            ("profile", "seeds", "pure", "compiled", "compiled / pure"),
            lines,
        )
    )
    sheet.notes.append(f"target: compiled / pure of all at least {LEAST_RATIO}: {verdict(ratio >= LEAST_RATIO)}")
    sheet.notes.append(f"the same outcomes in both builds; other programs used {foreign.cores:.2f} cores")
    return sheet


def _line(sheet: Sheet, profile: str, count: int, spent: dict[Build, float]) -> list[str]:
    rates = {build: count / spent[build] for build in spent}
    ratio = rates[Build.COMPILED] / rates[Build.PURE]
    work = f"seeds a core-second, {profile}"
    sheet.add(work, "pure", rates[Build.PURE], "1/s")
    sheet.add(work, "compiled", rates[Build.COMPILED], "1/s", "pure", ratio)
    return [profile, str(count), *(number(rates[build]) for build in (Build.PURE, Build.COMPILED)), f"{ratio:.2f}"]


def _measure(build: Build, profile: str, first: int, count: int) -> dict[tuple[str, Build], _Run]:
    finished = subprocess.run(
        [sys.executable, "-P", _CHILD, build, profile, str(first), str(count)],
        capture_output=True, text=True, check=False, timeout=_PATIENCE_S,
    )  # fmt: skip
    if finished.returncode != 0:
        lines = finished.stderr.strip().splitlines() or [f"exit code {finished.returncode}"]
        raise OwnSitesFailed(f"the simulator failed: {lines[-1]}")
    part = msgspec.json.decode(finished.stdout, type=_Run)
    if part.build is not build:
        raise OwnSitesFailed(f"expected the {build} build, ran {part.build}")
    if part.failed:
        raise OwnSitesFailed(f"seed {part.failed[0]} failed: make seeds SEEDS={part.failed[0]} PROFILES={profile}")
    return {(profile, build): part}
