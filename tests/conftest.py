"""Which suite a test is in, in which order tests run, and which worker runs them.

A test without a mark is in both suites: `make test` and `make test-all`. The mark `long` takes it out of `make test`;
the reason stands beside the mark. The tests in long.txt have this mark too. The mark `slow` takes a test out of both:
`make soak PART=certificates` runs it.

`make test-all` also runs the tests of the protocols on the compiled build, from out/compiled: scripts/test names
their folders. Two marks are about that. `compiled`: the test compares that build with the pure one, and runs on it
only. `pure`: the test runs on the pure build only, because it replaces a method of a core class or inherits from a
core class, as the tests of planted bugs do; compiled classes allow neither. The tests in pure.txt have this mark.
"""

import gc
import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.once import Once
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

import reconvene
from reconvene.build import Build, current_build

if TYPE_CHECKING:
    from tests.sim.core_cluster import SimCluster

LONGEST = ("pipeline", "real", "network", "examples", "lab", "test_docs.py", "mutants", "sim")
"""Folders and files that take longest. They come first, so that at the end no worker is left alone with one."""

SPARK = "spark"
"""The unit of work that has all tests that share the Spark session."""

TESTS = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long(reason): not in make test; run by make test-all")
    config.addinivalue_line("markers", "compiled: on the compiled build only; run by make test-compiled")
    config.addinivalue_line("markers", "pure: not on the compiled build")
    if current_build() is not Build.PURE and Path(reconvene.__file__).is_relative_to(TESTS.parent / "src"):
        raise pytest.UsageError("src has compiled modules, and the tests are for pure Python there: run make pure")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    long, pure = long_tests(), pure_tests()
    for item in items:
        name = item.nodeid.removeprefix("tests/")
        if name in long:
            item.add_marker(pytest.mark.long("see long.txt"))
        if not pure.isdisjoint((name, name.partition("[")[0], name.partition("::")[0])):
            item.add_marker(pytest.mark.pure)
    items.sort(key=_rank)


def long_tests() -> frozenset[str]:
    """The ids in long.txt, without the folder."""
    return _listed("long.txt")


def pure_tests() -> frozenset[str]:
    """The ids in pure.txt, without the folder. A file stands for its tests, a test for all of its parameters."""
    return _listed("pure.txt")


def _listed(name: str) -> frozenset[str]:
    lines = (TESTS / name).read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def pytest_collection_finish() -> None:
    """What is there before the first test stays: the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()


def _rank(item: pytest.Item) -> tuple[bool, int]:
    folder = item.path.relative_to(TESTS).parts[0]
    return not _uses_spark(item.path), LONGEST.index(folder) if folder in LONGEST else len(LONGEST)


@cache
def _uses_spark(file: Path) -> bool:
    """Does it have tests with the fixture `spark`?"""
    return re.search(r"\bspark: SparkSession\b", file.read_text(encoding="utf-8")) is not None


class Scheduling(LoadFileScheduling):  # type: ignore[misc]
    """A worker gets a whole file, so that what a file sets up is set up once. One worker gets all files that use
    Spark, so that one JVM is started."""

    def _split_scope(self, nodeid: str) -> str:
        name = nodeid.split("::", 1)[0]
        return SPARK if _uses_spark(TESTS.parent / name) else name


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    """For `--dist loadfile`, which scripts/test uses; otherwise xdist's own."""
    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Makes something once in this run of the tests, whichever worker needs it first."""
    own = tmp_path_factory.getbasetemp()
    directory = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "once"
    directory.mkdir(exist_ok=True)
    return Once(directory)


@pytest.fixture
def sim_cluster() -> "Iterator[Callable[..., SimCluster]]":
    """Makes clusters of the core alone, for tests of the protocols. At the end it verifies the history of each,
    except of those made with `verify=False`."""
    made: list[SimCluster] = []

    def make(*arguments: Any, verify: bool = True, **keywords: Any) -> "SimCluster":
        from tests.sim.core_cluster import SimCluster

        one = SimCluster(*arguments, **keywords)
        if verify:
            made.append(one)
        return one

    yield make
    for one in made:
        one.verify()
