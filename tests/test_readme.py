"""The README works as it is written: every command and every program runs, and prints what the README shows.

Directories are replaced by temporary ones. `tests/pages.py` says when an answer counts as the one that is shown.
"""

import re

import pytest
from tests.client.places import short_dir
from tests.pages import ROOT, Step, blocks, call, check, fences, run_program, session, steps

from reconvene.local import LocalCluster

README = (ROOT / "README.md").read_text()
PLAY = "/tmp/play"


@pytest.mark.parametrize("shown", [["c 1"], ["a 1", "a 1"], ["b", "a 1"], ["d …"]])
def test_a_wrong_answer_is_caught(shown: list[str]) -> None:
    printed = "a  5\nb\nc 30 d\n"
    check(Step("", ["a 1", "…", "c 7 …"]), printed)
    with pytest.raises(AssertionError):
        check(Step("", shown), printed)


def test_the_first_program(capsys: pytest.CaptureFixture[str]) -> None:
    with short_dir() as directory:
        cluster = directory / "play"
        try:
            for block in fences(README.replace(PLAY, str(cluster))):
                if block.kind == "python":
                    printed = run_program(block.text, directory)
                    assert "a:1:1 is on disk at a\nits place is 0\n" in printed
                elif block.text.startswith("$ "):
                    for step in session(block.text):
                        check(step, call(step.command, capsys))
        finally:
            if (cluster / "cluster.toml").exists():
                LocalCluster(cluster).kill()


def test_every_block_is_run() -> None:
    """All but the two commands of `make`, which start this test and tests/demo."""
    assert [block.split()[0] for block in blocks(README) if not block.startswith("$ ")] == ["make"]
    assert {block.kind for block in fences(README)} == {"", "python"}
    assert len(steps(README)) == README.count("\n$ ")


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\bmake ([a-z-]+)", README))))
def test_the_targets(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`reconvene ([a-z]+)", README))))
def test_the_commands(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Usage" in call(f"reconvene {command} --help", capsys)
