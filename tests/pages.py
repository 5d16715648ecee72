"""The blocks of code in a page of the documentation, and how they are run."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

import pytest

from reconvene.cli import main

__all__ = [
    "GOES_ON",
    "ROOT",
    "Block",
    "Step",
    "blocks",
    "call",
    "check",
    "fences",
    "going_on",
    "run_program",
    "session",
    "steps",
]

ROOT = Path(__file__).parent.parent
GOES_ON = re.compile(r"reconvene (listen|isis listen|log follow|node(?!.*--check)) ")
"""Commands that run until they are stopped: they run beside the others, as in a second terminal."""

_FENCE = re.compile(r"(?:^<!-- not run: ([^\n]*) -->\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A block between two fences."""

    kind: str
    text: str
    not_run: str
    """Why it is not run, if a comment before it says so."""
    line: int


def fences(text: str) -> list[Block]:
    return [
        Block(found[2], found[3], found[1] or "", text.count("\n", 0, found.start(2)) + 1)
        for found in _FENCE.finditer(text)
    ]


def blocks(text: str, kind: str = "") -> list[str]:
    """The text of the blocks of one kind, in order."""
    return [block.text for block in fences(text) if block.kind == kind]


@dataclass
class Step:
    command: str
    shown: list[str] = field(default_factory=list)


def session(block: str) -> list[Step]:
    """The commands after each `$`, each with the output that the page shows."""
    found: list[Step] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append(Step(line[2:]))
        else:
            found[-1].shown.append(line)
    return found


def steps(text: str) -> list[Step]:
    """The commands and outputs of all sessions: the blocks without a language that have a `$`."""
    return [step for block in blocks(text) if block.startswith("$ ") for step in session(block)]


def plain(line: str) -> str:
    """The text without what differs from run to run: numbers, times, key ids, the width of columns."""
    line = re.sub(r"\b[0-9a-f]{8}\b", "#", line)
    line = re.sub(r"\d+(\.\d+)?", "#", line)
    return " ".join(re.sub(r"\bin # (ms|s)\b", "in #", line).split())


def missing(shown: list[str], printed: str) -> str | None:
    """The first line that a page shows and the output lacks. The output has the lines in the same order; numbers in
    them may differ, and other lines may come between them."""
    lines = iter([plain(line) for line in printed.splitlines()])
    for line in shown:
        expected = plain(line)
        if expected == "…":
            continue
        if expected.endswith(" …"):
            if not any(other.startswith(expected.removesuffix("…")) for other in lines):
                return line
        elif expected not in lines:
            return line
    return None


def check(step: Step, printed: str) -> None:
    lacks = missing(step.shown, printed)
    assert lacks is None, f"{lacks}\nin\n{printed}"


@contextmanager
def going_on(arguments: list[str], directory: Path, until: str) -> Iterator[Callable[[list[str]], None]]:
    """Starts a program that runs beside the test, and returns once it has printed `until`. The function that it
    returns waits until the program has printed what the page shows, and stops it as Ctrl-C does."""
    output = directory / f"printed-{arguments[0]}"
    with output.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "reconvene", *arguments], cwd=directory, stdout=out, stderr=subprocess.STDOUT
        )

    def wait(has_printed: Callable[[str], object]) -> None:
        give_up_at = time.monotonic() + 20
        while not has_printed(output.read_text()):
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < give_up_at, output.read_text()
            time.sleep(0.02)

    def end(shown: list[str]) -> None:
        wait(lambda printed: not missing(shown, printed))
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0, output.read_text()

    try:
        wait(lambda printed: until in printed)
        yield end
    finally:
        process.kill()
        process.wait()


def call(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Runs the command in this process, which has already imported what each process would have to import."""
    arguments = shlex.split(command, comments=True)
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
        cwd=directory, env=os.environ, check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    # A site inside the program logs warnings on a busy machine, and while its log has not been initialized.
    warnings = set(done.stderr.splitlines()) - {"stood still", "the log accepts nothing"}
    assert (done.returncode, warnings) == (0, set()), done.stderr
    return done.stdout
