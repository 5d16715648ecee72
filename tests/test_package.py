"""The wheel, installed into an empty environment: no repository, no Spark, no compiler.

Needs the package registry, as `make setup` does.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from reconvene import __version__

pytestmark = pytest.mark.long("builds a wheel and installs it into an environment of its own")

"""One process runs all of these tests: another would have to build and install the wheel again."""

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
PATIENCE_S = 600
SCENARIO = """
name = "elsewhere"
nodes = ["a", "b", "c"]
stack = "corel"
duration = "2s"
settle = "2s"
[[at]]
time = "500ms"
append = { node = "a", count = 5, size = 64 }
"""


def run(*command: str | Path, where: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The environment variables without the packages and paths of this test."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return subprocess.run(
        command,
        cwd=where,
        env=kept | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


def done(*command: str | Path, where: Path) -> str:
    finished = run(*command, where=where)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def build(out: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Builds the wheel, on a path without a C compiler."""
    pip = (sys.executable, "-m", "pip", "wheel", "-v", "--no-deps", "--no-build-isolation", "-w", out, ROOT)
    return run(*pip, where=out, PATH=str(out), **environment)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    finished = build(out)
    assert finished.returncode == 0, finished.stderr
    output = finished.stdout + finished.stderr
    lines = [line.strip() for line in output.splitlines() if "pure Python" in line]
    assert len(lines) == 1
    assert re.fullmatch(r"reconvene: pure Python, which is slower: no C compiler \(\S+\) was found; .*", lines[0])
    (built,) = out.glob("*-py3-none-any.whl")
    return built


def test_a_compiled_wheel_that_was_asked_for_is_not_pure(tmp_path: Path) -> None:
    finished = build(tmp_path, RECONVENE_BUILD="compiled")
    assert finished.returncode != 0
    assert "RECONVENE_BUILD=compiled: no C compiler (" in finished.stdout + finished.stderr
    assert list(tmp_path.glob("*.whl")) == []


def test_an_unknown_build_is_refused(tmp_path: Path) -> None:
    finished = build(tmp_path, RECONVENE_BUILD="fast")
    assert finished.returncode != 0
    assert "RECONVENE_BUILD=fast: expected pure, compiled or nothing" in finished.stdout + finished.stderr


@pytest.fixture(scope="module")
def place(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it; its scripts are in bin/."""
    directory = tmp_path_factory.mktemp("elsewhere")
    venv.create(directory)
    python = directory / "bin" / "python"
    uv = shutil.which("uv")
    if uv is not None:
        done(uv, "pip", "install", "--python", python, wheel, where=directory)
    else:
        pip = (sys.executable, "-m", "pip", "--python", python)
        done(*pip, "install", "--quiet", "--no-compile", wheel, where=directory)
    return directory


OF_SPARK = (
    "pipeline",
    "lab.bench",
    "lab.campaign.spark",
    "lab.demo.spark_worker",
    "lab.exactly_once",
    "lab.generate",
)
NO_MODULES = ("__main__", "lab.campaign.__main__", "lab.soak.__main__", "testing.plugin")
"""Programs, and a plugin that pytest loads."""


def test_the_wheel_has_every_file_of_the_packages(wheel: Path) -> None:
    there = set(zipfile.ZipFile(wheel).namelist())
    files = {path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {str(path.relative_to(SOURCE)) for path in files} <= there
    assert {Path(name).parts[0] for name in there} == {
        "reconvene",
        "pyspark_reconvene",
        f"reconvene-{__version__}.dist-info",
    }


def test_the_program_elsewhere(place: Path) -> None:
    reconvene = place / "bin" / "reconvene"
    assert done(reconvene, "--version", where=place) == f"reconvene {__version__} (pure)\n"
    (place / "scenario.toml").write_text(SCENARIO)
    told = json.loads(done(reconvene, "sim", "scenario.toml", "--trace", "trace", "--json", where=place))
    assert told["messages"] == 5
    verdict = json.loads(done(reconvene, "verify", "trace", "--html", "report.html", "--json", where=place))
    assert verdict["ok"] is True
    assert "<style>" in (place / "report.html").read_text()


def test_the_doctor_knows_that_there_is_no_spark(place: Path) -> None:
    told = json.loads(done(place / "bin" / "reconvene", "doctor", "--json", where=place))
    found = {check["check"]: check for check in told["checks"]}
    assert found["packages"]["level"] == "ok"
    assert found["spark"]["change"] == "pip install 'reconvene[spark]'"


def test_what_needs_spark_says_how_to_get_it(place: Path) -> None:
    for arguments in (["verify", "--engine", "spark", "trace"], ["campaign", "--runs", "1", "--out", "out"]):
        finished = run(place / "bin" / "reconvene", *arguments, where=place)
        assert finished.returncode == 2
        assert finished.stdout == ""
        assert finished.stderr == (
            "reconvene: Spark is not installed; install it with: pip install 'reconvene[spark]'\n"
        )


def test_every_module_of_the_core_loads_without_spark(place: Path) -> None:
    """All modules that a program may import, except those that are for Spark by name."""
    program = (
        "import pkgutil, importlib, reconvene, sys\n"
        f"others = tuple('reconvene.' + name for name in {OF_SPARK + NO_MODULES!r})\n"
        "for found in pkgutil.walk_packages(reconvene.__path__, 'reconvene.'):\n"
        "    if not found.name.startswith(others):\n"
        "        importlib.import_module(found.name)\n"
        "print(len(sys.modules), 'pyspark' in sys.modules)\n"
    )
    assert done(place / "bin" / "python", "-c", program, where=place).split()[1] == "False"


def test_one_place_says_the_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/reconvene/__init__.py"
