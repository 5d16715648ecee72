"""reconvene verify --engine spark: what it prints and refuses is what the local engine does."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.told import GOLDEN
from tests.verify.test_verify_command import run

from reconvene.pipeline import session


@pytest.fixture
def in_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command uses the tests' session, instead of one of its own."""

    @contextmanager
    def open_session(master: str | None = None, **_: object) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(session, "open_session", open_session)


@pytest.mark.usefixtures("in_session")
def test_the_document_is_the_local_engine_s() -> None:
    traces = [GOLDEN / "bad" / "evs.6.1--two-orders", GOLDEN / "good" / "pair"]
    code, out, err = run(*traces, "--json")
    assert (code, err) == (1, "")
    there, out_there, err_there = run(*traces, "--json", "--engine", "spark")
    assert (there, err_there) == (1, "")
    assert json.loads(out_there) == {**json.loads(out), "engine": "spark"}


@pytest.mark.usefixtures("in_session")
@pytest.mark.parametrize("refused", ["torn-in-the-middle", "other-schema", "log-quorum-of-no-kind"])
def test_what_cannot_be_judged_exits_2_even_beside_violations(refused: str) -> None:
    traces = [GOLDEN / "bad" / "evs.6.1--two-orders", GOLDEN / "refused" / refused]
    code, out, err = run(*traces, "--json", "--engine", "spark")
    assert code == 2
    assert err.count("\n") == 1
    for word in json.loads((traces[1] / "expected.json").read_text())["says"]:
        assert word in json.loads(out)["error"]


def test_without_java_one_line_says_what_to_do(tmp_path: Path) -> None:
    program = [str(Path(sys.executable).with_name("reconvene")), "verify", str(GOLDEN / "good" / "pair")]
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    ended = subprocess.run(
        [*program, "--engine", "spark"], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.count("\n") == 1
    assert "Java 17" in ended.stderr


def test_a_master_that_is_none_is_refused() -> None:
    code, out, err = run(GOLDEN / "good" / "pair", "--engine", "spark", "--master", "elsewhere")
    assert (code, out) == (2, "")
    assert "--master elsewhere" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("master", ["spark://127.0.0.1:1", "sc://127.0.0.1:1", "spark://127.0.0.1:1,127.0.0.1:2"])
def test_a_master_that_nobody_answers_for_is_told_at_once(master: str) -> None:
    code, out, err = run(GOLDEN / "good" / "pair", "--engine", "spark", "--master", master)
    assert (code, out) == (2, "")
    assert f"--master {master}: nobody listens there" in err
    assert err.count("\n") == 1


def test_a_master_s_port_is_a_number() -> None:
    code, out, err = run(GOLDEN / "good" / "pair", "--engine", "spark", "--master", "sc://127.0.0.1:http")
    assert (code, out) == (2, "")
    assert "http is no port" in err
