"""Every test is in a suite, and `make test` has every kind of test."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression
from tests.conftest import long_tests, pure_tests

ROOT = Path(__file__).parent.parent
TESTS = ROOT / "tests"
SUITES = dict(re.findall(r'^(\w+)\) mark="([^"]+)"', (ROOT / "scripts" / "test").read_text(), re.MULTILINE))
"""The expression of marks by which each suite chooses its tests."""
SOAK = re.findall(r"pytest -m (\w+) tests ", (ROOT / "Makefile").read_text())

KINDS = (
    "test_golden.py",  # golden traces
    "test_transcripts.py",
    "test_mutants.py",
    "test_corel_mutants.py",
    "test_isis_mutants.py",
    "test_scenarios.py",
    "test_log_faults.py",  # real processes
    "test_verify_engine.py",  # both engines, on Spark
)


def chosen(expression: str, marks: set[str]) -> bool:
    def has(name: str, /, **_: object) -> bool:
        return name in marks

    return Expression.compile(expression).evaluate(has)


@pytest.mark.parametrize(
    "marks", [set(), {"long"}, {"slow"}, {"long", "slow"}, {"pure"}, {"pure", "long"}, {"compiled"}], ids=sorted
)
def test_every_test_is_in_a_suite(marks: set[str]) -> None:
    short, everything, compiled = (chosen(SUITES[suite], marks) for suite in ("short", "all", "compiled"))
    assert everything or not short, "make test-all runs all that make test runs"
    everything |= compiled  # make test-all runs that suite too
    assert everything != any(chosen(expression, marks) for expression in SOAK), "the soak has the others"


def names_of_tests(file: Path) -> Iterator[str]:
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name


def test_every_file_with_tests_is_collected() -> None:
    others = (file for file in TESTS.rglob("*.py") if not file.name.startswith("test_"))
    assert [(file.name, name) for file in others for name in names_of_tests(file)] == []


@pytest.mark.parametrize("kind", KINDS)
def test_make_test_has_every_kind_of_test(kind: str) -> None:
    files = list(TESTS.rglob(kind))
    assert files, "moved? then this list follows"
    assert any(name not in marked(file) for file in files for name in names_of_tests(file))


def marked(file: Path) -> set[str]:
    """The tests of a file that are marked `long` or `slow`, themselves or with all of the file."""
    text = file.read_text(encoding="utf-8")
    if re.search(r"^pytestmark = .*\b(long|slow)\b", text, re.MULTILINE):
        return set(names_of_tests(file))
    return set(re.findall(r"^@pytest\.mark\.(?:long|slow)\b.*\n(?:@.*\n)*(?:async )?def (\w+)", text, re.MULTILINE))


@pytest.mark.parametrize("test", sorted(long_tests() | pure_tests()))
def test_what_the_lists_of_tests_name_exists(test: str) -> None:
    file, _, name = test.partition("::")
    function = name.split("[")[0]
    assert not name or re.search(rf"\bdef {function}\(", (TESTS / file).read_text(encoding="utf-8"))
    assert (TESTS / file).is_file()
