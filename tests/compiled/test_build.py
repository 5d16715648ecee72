"""The wheel of the compiled build, what the program says of itself, and the benchmark that compares the builds."""

import importlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import reconvene
from reconvene import __version__
from reconvene.build import Build, current_build
from reconvene.cli import main

pytestmark = pytest.mark.compiled

ROOT = Path(__file__).parent.parent.parent
PLACE = Path(reconvene.__file__).parent.parent
HASHES = PLACE / "reconvene" / "compiled.sha256"
MODULES = [line.split("  ")[1] for line in HASHES.read_text().splitlines()] if HASHES.exists() else []
SAYS_BUILD = "from reconvene.build import current_build; print(current_build())"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str]:
    with pytest.raises(SystemExit) as exit_:
        main(list(arguments))
    return exit_.value.code, capsys.readouterr().out


def test_the_wheel_has_source_and_machine_code_of_each_compiled_module() -> None:
    (wheel,) = (ROOT / "out" / "test" / "dist").glob("*.whl")
    assert not wheel.name.endswith("-py3-none-any.whl")
    there = set(zipfile.ZipFile(wheel).namelist())
    assert len(MODULES) > 50
    for module in MODULES:
        for suffix in (".py", EXTENSION_SUFFIXES[0]):
            assert f"reconvene/{module.removesuffix('.py')}{suffix}" in there


@pytest.mark.parametrize("module", ["core/site.py", "core/multicast/multicast.py", "stack/stack.py"])
def test_a_hot_module_is_machine_code(module: str) -> None:
    assert module in MODULES
    loaded = importlib.import_module(f"reconvene.{module.removesuffix('.py').replace('/', '.')}")
    assert loaded.__file__ is not None
    assert loaded.__file__.endswith(EXTENSION_SUFFIXES[0])


def test_machine_code_of_another_source_is_recognized(tmp_path: Path) -> None:
    assert current_build() is Build.COMPILED
    shutil.copytree(PLACE, tmp_path / "copy")
    edited = tmp_path / "copy" / "reconvene" / "core" / "site.py"
    edited.write_text(f"{edited.read_text()}# edited\n")
    said = subprocess.run(
        [sys.executable, "-c", SAYS_BUILD], env=os.environ | {"PYTHONPATH": str(tmp_path / "copy")},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout == f"{Build.STALE}\n"


def test_version_and_doctor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version") == (0, f"reconvene {__version__} (compiled)\n")
    code, out = run(capsys, "doctor", "--dir", str(tmp_path), "--json")
    (found,) = (check for check in json.loads(out)["checks"] if check["check"] == "build")
    assert (code, found["level"]) == (0, "ok")


def test_the_benchmark_compares_both_builds(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, "bench", "compiled", "--quick", "--json")
    assert code == 0
    document = json.loads(out)
    assert document["build"] == "compiled"
    rows = {(row["work"], row["system"]): row for row in document["rows"]}
    all_seeds = rows["seeds a core-second, all", "compiled"]
    pure = rows["seeds a core-second, all", "pure"]
    assert all_seeds["ratio"] == pytest.approx(all_seeds["value"] / pure["value"], rel=0.01)
