"""What the README shows works as it stands there: every command, every program, and what they answer.

Addresses and directories are replaced by free ones. An answer holds if the lines that the README shows come in this
order, whatever the numbers in them, and whatever comes between them.
"""

import re
import shlex
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.client.places import free_ports, short_dir
from tests.pages import GOES_ON, ROOT, Step, blocks, call, check, going_on, run_program, steps

from reconvene.local import LocalCluster
from reconvene.testing import Cluster

README = (ROOT / "README.md").read_text()
SECTIONS: dict[str, str] = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", README, re.MULTILINE | re.DOTALL))
PLAY = "/tmp/play"
PORTS = ("7001", "7002", "7003", "7080")


@pytest.mark.parametrize("shown", [["c 1"], ["a 1", "a 1"], ["b", "a 1"], ["d …"]])
def test_a_wrong_answer_is_caught(shown: list[str]) -> None:
    printed = "a  5\nb\nc 30 d\n"
    check(Step("", ["a 1", "…", "c 7 …"]), printed)
    with pytest.raises(AssertionError):
        check(Step("", shown), printed)


def test_a_cluster_and_its_clients(capsys: pytest.CaptureFixture[str]) -> None:
    programs = [code for code in blocks(SECTIONS["In a program"], "python") if PLAY in code]
    assert len(programs) == 4
    first, *rest = steps(SECTIONS["Try it"])
    assert len(rest) == 14
    with short_dir() as directory:
        place = directory / "play"

        def here(text: str) -> str:
            return text.replace(PLAY, str(place))

        try:
            check(Step(first.command, list(map(here, first.shown))), call(here(first.command), capsys))
            with ExitStack() as terminals:
                ends: list[tuple[Step, Callable[[], str]]] = []
                for step in rest:
                    if GOES_ON.match(step.command):
                        arguments = shlex.split(here(step.command))[1:]
                        ends.append((step, terminals.enter_context(going_on(arguments, directory, until="\n"))))
                    else:
                        check(step, call(here(step.command), capsys))
                assert len(ends) == 2
                for step, end in ends:
                    check(step, end())
            for code in programs:
                assert run_program(here(code), directory)
            check(Step("", ["a b c: ended"]), call(f"reconvene down --dir {place}", capsys))
        finally:
            if (place / "cluster.toml").exists():
                LocalCluster(place).kill()


def test_a_server(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    section = SECTIONS["On servers"]
    (file,) = blocks(section, "toml")
    (program,) = [code for code in blocks(SECTIONS["In a program"], "python") if "site.toml" in code]
    ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))

    def here(text: str) -> str:
        return re.sub("|".join(PORTS), lambda found: ports[found[0]], text)

    before = [step for step in steps(section) if not GOES_ON.match(step.command)]
    (node,) = [step for step in steps(section) if GOES_ON.match(step.command)]
    with short_dir() as directory:
        monkeypatch.chdir(directory)
        Path("site.toml").write_text(here(file))
        for step in before[:2]:
            check(step, call(here(step.command), capsys))
        with going_on(shlex.split(node.command)[1:], directory, until="ready") as end:
            for step in before[2:]:
                check(step, call(here(step.command), capsys))
            check(node, end())
        assert "delivered" in run_program(program, directory)


def test_a_simulation(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for step in steps(SECTIONS["Simulate"]):
        check(step, call(step.command.replace("scenarios/", f"{ROOT}/scenarios/"), capsys))


def test_the_test_of_a_service(cluster: Callable[..., Cluster]) -> None:
    (block,) = [code for code in blocks(README, "python") if "def test_" in code]
    names: dict[str, Callable[[Callable[..., Cluster]], None]] = {}
    exec(block, names)
    names["test_both_sides_go_on"](cluster)


def test_nothing_is_left_out() -> None:
    """The tests above and below run every block but the picture of the layers; tests/pipeline runs those of Spark."""
    run = [steps(SECTIONS[title]) for title in ("Try it", "On servers", "Simulate")]
    assert sum(map(len, run)) == len(steps(README)) == README.count("\n$ ")
    assert len(blocks(README, "python")) == 7
    assert len(blocks(README, "toml")) == 1
    assert [block.split()[0] for block in blocks(README) if not block.startswith("$ ")] == [
        "make",
        "reconvene",
        "cli",
    ]


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\bmake ([a-z]+)", README))))
def test_the_targets(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`reconvene ([a-z]+)", README))))
def test_the_commands(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Usage" in call(f"reconvene {command} --help", capsys)
