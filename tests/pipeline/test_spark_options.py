"""Which engine is taken, which Spark, and how it is set: what users say comes first."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.told import GOLDEN
from tests.verify.test_verify_command import run

from reconvene.cli import _engine
from reconvene.cli._engine import choose_engine
from reconvene.cli._spark import Spark
from reconvene.errors import Malformed
from reconvene.pipeline import session
from reconvene.pipeline.columns import fields_batch
from reconvene.pipeline.parquet_writer import finish_run, scratch_directory, write_events
from reconvene.pipeline.session import SHUFFLE_PARTITIONS, open_session, parse_conf
from reconvene.trace.reader import read_trace
from reconvene.trace.sizes import run_sizes

PAIR = GOLDEN / "good" / "pair"
NO_SPARK = Spark(None, {})


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (["shuffle"], "--conf shuffle: expected KEY=VALUE"),
        (["spark.sql.shuffle.partitions"], "expected KEY=VALUE"),
        (["spark.sql.shuffle.partitions="], "expected KEY=VALUE"),
        (["shuffle.partitions=4"], "with a key of Spark's"),
        (["spark.master=local[1]"], "expected --master instead"),
        (["spark.x=1", "spark.x=2"], "spark.x is set twice"),
    ],
)
def test_a_bad_setting_is_refused_before_anything_starts(given: list[str], line: str) -> None:
    with pytest.raises(Malformed, match=line.replace("[", r"\[")):
        parse_conf(given)


def test_settings_are_pairs() -> None:
    assert parse_conf(["spark.a=1", "spark.b=x=y"]) == {"spark.a": "1", "spark.b": "x=y"}


@pytest.mark.parametrize(
    "command",
    [
        ["analyze", PAIR],
        ["campaign", "--runs", "1", "--out", "nowhere"],
        ["trace", "pack", PAIR, "--to", "nowhere"],
        ["trace", "make", "--events", "1k", "--to", "nowhere"],
        ["pipeline", "export", "--node", "127.0.0.1:1", "--to", "nowhere"],
        ["pipeline", "tally", "--node", "127.0.0.1:1"],
    ],
)
def test_every_command_on_spark_takes_settings(command: list[object], capsys: pytest.CaptureFixture[str]) -> None:
    from reconvene.cli import main

    with pytest.raises(SystemExit) as ended:
        main([*map(str, command), "--conf", "speed=high"])
    assert ended.value.code == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert "--conf speed=high: expected KEY=VALUE" in told.err


def test_the_user_s_settings_win(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the command's defaults, which only fill in what nobody has set."""
    before = str(spark.conf.get(SHUFFLE_PARTITIONS))
    monkeypatch.setattr(session, "_make", lambda *_: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    try:
        with open_session("local[2]", conf={SHUFFLE_PARTITIONS: "37"}, defaults={SHUFFLE_PARTITIONS: "3"}) as same:
            assert same.conf.get(SHUFFLE_PARTITIONS) == "37"
        with open_session("local[2]") as same:  # of an earlier setting
            assert same.conf.get(SHUFFLE_PARTITIONS) == "37"
        spark.conf.unset(SHUFFLE_PARTITIONS)
        with open_session("local[2]", defaults={SHUFFLE_PARTITIONS: "3"}) as same:
            assert same.conf.get(SHUFFLE_PARTITIONS) == "3"
        with (
            pytest.raises(Malformed, match=f"--conf {SHUFFLE_PARTITIONS}=many: "),
            open_session("local[2]", conf={SHUFFLE_PARTITIONS: "many"}),
        ):
            pass
    finally:
        spark.conf.set(SHUFFLE_PARTITIONS, before)


def test_sizes_are_told_without_reading(tmp_path: Path) -> None:
    trace = read_trace(PAIR)
    rows = [row for mine in trace.rows.values() for row in mine]
    (about,) = run_sizes([PAIR])
    assert about == pytest.approx(len(rows), rel=0.05)
    write_events(scratch_directory(tmp_path, trace.run.run) / "part.parquet", [fields_batch(rows)], {})
    finish_run(tmp_path, trace.run, {})
    assert run_sizes([tmp_path]) == [len(rows)]


def test_the_engine_is_chosen_by_size(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert choose_engine([str(PAIR)], NO_SPARK) == "local"
    assert capsys.readouterr().err == ""
    assert choose_engine([str(PAIR)], Spark("local[2]", {})) == "spark"
    assert choose_engine(["hdfs://somewhere"], NO_SPARK) == "spark"
    monkeypatch.setattr(_engine, "_TOLD_FROM", 1)
    assert choose_engine([str(PAIR)], NO_SPARK) == "local"
    assert "--engine local (--engine spark chooses the other)" in capsys.readouterr().err
    for limit in ("LOCAL_RUN", "LOCAL_EVENTS"):
        with monkeypatch.context() as patch:
            patch.setattr(_engine, limit, 1)
            assert choose_engine([str(PAIR)], NO_SPARK) == "spark"
            patch.setattr(_engine, "find_java", lambda: None)
            assert choose_engine([str(PAIR)], NO_SPARK) == "local"
            assert "since Spark or Java is not installed" in capsys.readouterr().err


def test_an_engine_that_is_named_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_engine, "LOCAL_RUN", 0)
    monkeypatch.setattr(_engine, "_TOLD_FROM", 0)
    code, out, err = run(PAIR, "--engine", "local", "--json")
    assert (code, err) == (0, "")
    assert '"engine": "local"' in out
