"""reconvene verify: its exit codes, and what it prints."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from reconvene.cli.verify import verify_command
from reconvene.lab.ideal.evs import busy_run, random_run
from reconvene.trace.writer import write_trace
from reconvene.verify.engine import IDS, verify
from reconvene.verify.history import History

GOLDEN = Path(__file__).parent.parent / "golden"
app = typer.Typer()
app.command()(verify_command)


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def test_a_good_trace_exits_0_and_says_what_looked_at_nothing() -> None:
    code, out, err = run(GOLDEN / "good" / "pair")
    assert (code, err) == (0, "")
    assert next(line for line in out.splitlines() if line.startswith("evs.primary.uniqueness")).endswith(
        "looked at nothing"
    )


def test_a_bad_trace_exits_1_with_its_witness() -> None:
    code, out, _ = run(GOLDEN / "bad" / "evs.6.1--two-orders")
    assert code == 1
    assert "to.order: run evs.6.1--two-orders, node q, n " in out


def test_json_is_one_document() -> None:
    code, out, err = run(GOLDEN / "bad" / "evs.6.1--two-orders", GOLDEN / "good" / "pair", "--json")
    document = json.loads(out)
    assert (code, err) == (1, "")
    assert (document["ok"], document["schema"], document["engine"], document["runs"]) == (False, 2, "local", 2)
    assert [check["id"] for check in document["checks"]] == list(IDS)
    order = next(check for check in document["checks"] if check["id"] == "to.order")
    assert order["violations"] == 1
    assert set(order["witnesses"][0]) == {"run", "node", "n", "detail"}


@pytest.mark.parametrize("first", ["good/pair", "bad/evs.6.1--two-orders"])
def test_what_cannot_be_judged_exits_2_even_beside_violations(first: str) -> None:
    code, out, err = run(GOLDEN / first, GOLDEN / "refused" / "torn-in-the-middle", "--json")
    assert code == 2
    assert "q.jsonl:3" in json.loads(out)["error"]
    assert err.count("\n") == 1


def test_a_refusal_is_one_line() -> None:
    code, out, err = run(GOLDEN / "refused" / "other-schema")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "`schema` is 3; expected 2" in err


@pytest.mark.parametrize(
    "options",
    [
        ["--engine", "abacus"],
        ["--engine", "local", "--master", "local[2]"],
        ["--engine", "local", "--conf", "spark.driver.memory=1g"],
        ["--conf", "spark.driver.memory"],
        ["--conf", "spark.master=local[2]"],
    ],
)
def test_an_engine_has_to_be_one_that_there_is(options: list[str]) -> None:
    code, out, err = run(GOLDEN / "good" / "pair", *options)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


def test_a_directory_of_traces_stands_for_all_of_them() -> None:
    code, out, err = run(GOLDEN / "good", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["runs"] == len(list((GOLDEN / "good").iterdir()))


def test_a_report_in_html_names_the_violation(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    code, _, err = run(GOLDEN / "bad" / "evs.6.1--two-orders", "--html", page)
    assert (code, err) == (1, "")
    assert "to.order" in page.read_text()
    code, _, err = run(GOLDEN / "good" / "pair", "--html", tmp_path / "nowhere" / "report.html")
    assert code == 2
    assert err.count("\n") == 1


def test_witnesses_are_the_ten_lowest_by_run_node_and_n() -> None:
    meta, rows = random_run(3, steps=60)
    for mine in rows.values():
        for row in mine:
            row.n = 0
    check = verify([History.of(meta, rows)]).check("evs.1.2")
    assert check.violations == sum(map(len, rows.values())) - len(rows)
    assert [witness.node for witness in check.witnesses] == ["a"] * 10


def test_no_check_looks_at_the_clock(tmp_path: Path) -> None:
    meta, rows = random_run(4)
    before = verify([History.of(meta, rows)])
    for mine in rows.values():
        for row in mine:
            row.t = -row.t
    assert verify([History.of(meta, rows)]) == before


def test_a_small_run_is_judged_at_once(tmp_path: Path) -> None:
    write_trace(tmp_path, *busy_run(5_000, 5))
    started = time.perf_counter()
    report = verify([History.load(tmp_path)])
    # About 0.05 s alone; the machine may be doing other things.
    assert time.perf_counter() - started < 1.5
    assert report.ok
    assert report.events > 5_000


def test_the_local_engine_needs_no_spark() -> None:
    """Every check with its proof is imported, and none of it imports Spark."""
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from reconvene.cli import main\n"
        f"sys.argv = ['reconvene', 'verify', {str(GOLDEN / 'good' / 'pair')!r}, '--engine', 'local']\n"
        "main()\n"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (finished.returncode, finished.stderr) == (0, "")
    assert "evs.1.1" in finished.stdout
