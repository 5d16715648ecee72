"""The examples of `reconvene log --help` work as printed, in that order, on the cluster that `reconvene up`
starts."""

import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.client.places import short_dir

from reconvene.cli._catalogue import COMMANDS, family
from reconvene.local import LocalCluster

ENDLESS = ("log follow",)
"""Ended by Ctrl-C, which is not a failure."""


@pytest.fixture
def place() -> Iterator[Path]:
    with short_dir() as directory:
        yield directory
        if (directory / "town").exists():
            LocalCluster(directory / "town").kill()


def typed(example: str, place: Path, ended_after_s: float | None = None) -> tuple[int, str]:
    words = shlex.split(example)
    assert words[0] == "reconvene"
    with subprocess.Popen(
        [sys.executable, "-m", *words], cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            said, _ = process.communicate(timeout=ended_after_s or 120)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=60)
    return process.returncode, said


@pytest.mark.long("starts a cluster; the commands are tested one by one in test_log.py")
def test_each_example_works_in_its_turn(place: Path) -> None:
    assert typed(COMMANDS["up"].example, place)[0] == 0
    for command in family("log").values():
        if command.name in ENDLESS:
            code, said = typed(command.example, place, ended_after_s=3.0)
            assert (code, said) == (0, ""), f"{command.example}: {said}"
        else:
            code, said = typed(command.example, place)
            assert code == 0, f"{command.example}: {said}"
            assert said
