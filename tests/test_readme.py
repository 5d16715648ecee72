"""What the README shows works as it stands there: every command, every program, and what they answer.

Addresses and directories are replaced by free ones. An answer holds if the lines that the README shows come in this
order, whatever the numbers in them, and whatever comes between them.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

import pytest
from tests.client.places import free_ports, short_dir

from reconvene.cli import main
from reconvene.local import LocalCluster
from reconvene.testing import SimCluster

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
SECTIONS: dict[str, str] = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", README, re.MULTILINE | re.DOTALL))
PLAY = "/tmp/play"
PORTS = ("7001", "7002", "7003", "7080")
GOES_ON = re.compile(r"reconvene (listen|log follow|node(?!.*--check)) ")
"""Commands that run until they are told to end: they get a terminal of their own."""


def blocks(text: str, kind: str = "") -> list[str]:
    """What stands between fences of this kind, in order."""
    fences: list[tuple[str, str]] = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for found, block in fences if found == kind]


@dataclass
class Step:
    command: str
    shown: list[str] = field(default_factory=list)


def steps(text: str) -> list[Step]:
    """The commands of a section, each with the answer that is shown."""
    found: list[Step] = []
    for block in blocks(text):
        if block.startswith("$ "):
            for line in block.splitlines():
                if line.startswith("$ "):
                    found.append(Step(line[2:]))
                else:
                    found[-1].shown.append(line)
    return found


def plain(line: str) -> str:
    """Without what differs from run to run: numbers, times, key ids, the width of columns."""
    line = re.sub(r"\b[0-9a-f]{8}\b", "#", line)
    line = re.sub(r"\d+(\.\d+)?", "#", line)
    return " ".join(re.sub(r"\bin # (ms|s)\b", "in #", line).split())


def check(step: Step, printed: str) -> None:
    lines = iter([plain(line) for line in printed.splitlines()])
    for shown in step.shown:
        expected = plain(shown)
        if expected == "…":
            continue
        if expected.endswith(" …"):
            assert any(line.startswith(expected.removesuffix("…")) for line in lines), f"{shown}\nin\n{printed}"
        else:
            assert expected in lines, f"{shown}\nin\n{printed}"


@pytest.mark.parametrize("shown", [["c 1"], ["a 1", "a 1"], ["b", "a 1"], ["d …"]])
def test_a_wrong_answer_is_caught(shown: list[str]) -> None:
    printed = "a  5\nb\nc 30 d\n"
    check(Step("", ["a 1", "…", "c 7 …"]), printed)
    with pytest.raises(AssertionError):
        check(Step("", shown), printed)


@contextmanager
def going_on(arguments: list[str], directory: Path, until: str) -> Iterator[Callable[[], str]]:
    """Runs beside, from when it has printed `until`; gives what ends it as Ctrl-C does, and tells what it printed."""
    output = directory / f"printed-{arguments[0]}"
    with output.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "reconvene", *arguments], cwd=directory, stdout=out, stderr=subprocess.STDOUT
        )

    def end() -> str:
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0, output.read_text()
        return output.read_text()

    try:
        give_up_at = time.monotonic() + 20
        while until not in output.read_text():
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < give_up_at, output.read_text()
            time.sleep(0.02)
        yield end
    finally:
        process.kill()
        process.wait()


def call(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """In this process, which has imported already what each command would import anew."""
    arguments = shlex.split(command)
    capsys.readouterr()
    if arguments[0] == "curl":
        with urlopen(arguments[-1], timeout=10) as answer:
            return str(answer.read().decode())
    assert arguments[0] == "reconvene"
    with pytest.raises(SystemExit) as ended:
        main(arguments[1:])
    printed = capsys.readouterr()
    assert ended.value.code == 0, f"{command}: {printed.err}"
    return printed.out


def run_program(code: str, directory: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=directory, env=os.environ, check=False, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    # A site in the program warns where the machine has other things to do.
    assert (done.returncode, done.stderr.replace("stood still\n", "")) == (0, ""), done.stderr
    return done.stdout


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


def test_the_test_of_a_service(cluster: Callable[..., SimCluster]) -> None:
    (block,) = [code for code in blocks(README, "python") if "def test_" in code]
    names: dict[str, Callable[[Callable[..., SimCluster]], None]] = {}
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
