"""What the README shows works as it stands there."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reconvene.testing import SimCluster

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
COMMANDS = re.findall(r"^\.venv/bin/(reconvene (?:sim|verify) .*)$", README, flags=re.MULTILINE)


def test_the_test_of_a_service(cluster: Callable[..., SimCluster]) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    names: dict[str, Callable[[Callable[..., SimCluster]], None]] = {}
    exec(block, names)
    names["test_both_sides_go_on"](cluster)


def test_the_commands(tmp_path: Path) -> None:
    """In their order: a scenario leaves the trace that is verified next."""
    assert len(COMMANDS) == 2
    for command in COMMANDS:
        arguments = command.replace("scenarios/", f"{ROOT}/scenarios/").split()[1:]
        done = subprocess.run(
            [sys.executable, "-c", "from reconvene.cli import main; main()", *arguments],
            cwd=tmp_path, check=False, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("target", re.findall(r"\bmake ([a-z]+)", README))
def test_the_targets(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
