"""Every program of examples/ runs by itself, against real sites, and prints what its page says that happens."""

import importlib
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.client.places import cluster, short_dir

from reconvene import blocking

EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTED = Path(__file__).parent / "printed"


def run(name: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / f"{name}.py"],
        check=False, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("branches", marks=pytest.mark.long("starts six sites in three clusters")),
        pytest.param("cash_machine", marks=pytest.mark.long("seconds; one machine alone is tested below")),
        "chat",
        pytest.param("invoices", marks=pytest.mark.long("seconds; test_cursor.py has cursors in virtual time")),
        pytest.param("job_queue", marks=pytest.mark.long("seconds; test_simulated.py has it without real sites")),
        pytest.param("radar", marks=pytest.mark.long("seconds; chat uses groups in the same way")),
        pytest.param("shared_calendar", marks=pytest.mark.long("seconds; tests/real has processes in ISIS")),
        pytest.param("spark_tally", marks=pytest.mark.long("starts a JVM")),
    ],
)
def test_what_it_prints(name: str) -> None:
    assert run(name) == (PRINTED / f"{name}.txt").read_text()


@pytest.mark.long("starts a cluster; test_simulated.py runs it in virtual time")
def test_the_airline() -> None:
    """Two offices sell the last seat: which of them was first, only the order knows. All offices know the same."""
    sold, _, end = run("airline").rpartition("it mends\n")
    assert sold == (PRINTED / "airline.txt").read_text()
    found = re.findall(r"on board (.*); on the next plane: (.*)", end)
    assert len(found) == 3
    assert len(set(found)) == 1
    seated, refused = (names.split(", ") for names in found[0])
    assert seated[:6] == ["Ada", "Ben", "Dora", "Eva", "Fay", "Cem"]
    assert refused[0] == "Gus"
    assert {seated[6], refused[1]} == {"Hal", "Jon"}
    assert (len(seated), len(refused)) == (7, 2)


def test_a_cash_machine_that_does_not_know_yet_that_it_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks, gets no answer, gives no notes, and takes the withdrawal back; what it had refused it does not."""
    monkeypatch.syspath_prepend(EXAMPLES)
    example = importlib.import_module("cash_machine")
    monkeypatch.setattr(example, "PATIENCE_S", 0.2)
    with short_dir() as directory, ExitStack() as stack:
        one_of_three = cluster(directory, "abc")[0]
        machine = example.CashMachine(stack.enter_context(blocking.open(one_of_three)), stack)
        monkeypatch.setattr(machine.site, "health", lambda: "primary")
        assert machine.withdraw("Ada", 60) == "60 refused: no answer from the bank"
        assert machine.withdraw("Ada", 160) == "160 refused: no answer from the bank"
        assert len(machine.site.log.pending()) == 4
        assert machine.runner.optimistic().balances == {"Ada": 100, "Ben": 100}


def test_every_example_is_run_and_says_what_a_minority_does() -> None:
    programs = sorted(EXAMPLES.glob("*.py"))
    assert [path.stem for path in programs] == sorted(path.stem for path in PRINTED.glob("*.txt"))
    for path in programs:
        text = path.read_text()
        assert "\nService: " in text
        assert "\nIn a minority: " in text
