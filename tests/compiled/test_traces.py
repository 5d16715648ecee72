"""The compiled and the pure build give the same traces, to the byte."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reconvene.build import Build, current_build
from reconvene.sim.profiles import random_scenario
from reconvene.sim.runner import run_scenario

pytestmark = pytest.mark.compiled

ROOT = Path(__file__).parent.parent.parent
CASES = [
    (profile, seed)
    for profile, seeds in {
        "chaos": 3,
        "log": 3,
        "dynamic": 1,
        "outposts": 1,
        "isis": 4,
        "wide": 2,
        "wide-isis": 1,
    }.items()
    for seed in range(seeds)
]
PURE = """
import sys
from pathlib import Path
from reconvene.build import current_build
from reconvene.sim.profiles import random_scenario
from reconvene.sim.runner import run_scenario

profile, seed, directory = sys.argv[1:]
run_scenario(random_scenario(int(seed), profile)).write(Path(directory))
print(current_build())
"""


def content(directory: Path) -> dict[str, bytes]:
    return {str(file.relative_to(directory)): file.read_bytes() for file in directory.rglob("*") if file.is_file()}


def test_these_tests_run_on_the_compiled_build() -> None:
    assert current_build() is Build.COMPILED


@pytest.mark.parametrize(("profile", "seed"), CASES)
def test_the_same_trace(profile: str, seed: int, tmp_path: Path) -> None:
    run_scenario(random_scenario(seed, profile)).write(tmp_path / "compiled")
    pure = subprocess.run(
        [sys.executable, "-c", PURE, profile, str(seed), tmp_path / "pure"],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert pure.stdout == "pure\n"
    found = content(tmp_path / "compiled")
    assert sum(map(len, found.values())) > 10_000
    assert found == content(tmp_path / "pure")
