"""Which suite a test is in, in which order tests run, and which worker runs them.

A test without a mark is in both suites: `make test` and `make test-all`. The mark `long` takes it out of `make test`;
the reason stands beside the mark. The tests in long.txt have this mark too. The mark `slow` takes a test out of both:
`make soak PART=certificates` runs it.
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

if TYPE_CHECKING:
    from tests.sim.core_cluster import SimCluster

LONGEST = ("pipeline", "real", "network", "examples", "lab", "test_docs.py", "mutants", "sim")
"""Folders and files that take longest. They come first, so that at the end no worker is left alone with one."""

SPARK = "spark"
"""The unit of work that has all tests that share the Spark session."""

TESTS = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long(reason): not in make test; run by make test-all")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    listed = long_tests()
    for item in items:
        if item.nodeid.removeprefix("tests/") in listed:
            item.add_marker(pytest.mark.long("see long.txt"))
    items.sort(key=_rank)


def long_tests() -> frozenset[str]:
    """The ids in long.txt, without the folder."""
    lines = (TESTS / "long.txt").read_text(encoding="utf-8").splitlines()
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
