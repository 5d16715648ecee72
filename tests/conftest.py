"""The order of the tests: folders that take minutes come first, so that no worker is left alone with one at the end.

Workers take whole files (`--dist loadfile`, in this order), so that what a file sets up is set up once.
"""

from pathlib import Path

import pytest

LONGEST = ("pipeline", "real", "network", "examples", "demo", "test_docs.py", "mutants", "sim")

TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    folder = item.path.relative_to(TESTS).parts[0]
    return LONGEST.index(folder) if folder in LONGEST else len(LONGEST)
