"""The demo waits as long as there is progress, and continues without Spark if Spark never starts."""

import asyncio
import os
import subprocess
import sys
from io import StringIO
from itertools import count
from pathlib import Path

import pytest
from rich.console import Console
from tests.client.places import short_dir

from reconvene.lab.demo import Pace, Paths, Stage, play
from reconvene.lab.demo.patience import processor_s, while_it_moves
from reconvene.lab.demo.spark import SparkPatience

IDLE_S = 0.05


async def soon(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "done"


def test_what_moves_is_waited_for() -> None:
    steps = count()
    assert asyncio.run(while_it_moves(soon(4 * IDLE_S), lambda: next(steps), IDLE_S)) == "done"


def test_what_stands_still_is_given_up_and_ended() -> None:
    async def give_up() -> asyncio.Task[str]:
        task = asyncio.ensure_future(soon(3600))
        with pytest.raises(TimeoutError, match=r"nothing has moved for 0\.05 s"):
            await while_it_moves(task, lambda: 7, IDLE_S)
        return task

    assert asyncio.run(give_up()).cancelled()


def test_an_error_of_the_work_is_its_own() -> None:
    async def fail() -> None:
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        asyncio.run(while_it_moves(fail(), lambda: 7, IDLE_S))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_processor_time_is_that_of_the_group() -> None:
    busy = "import os, time; os.fork()\nwhile time.process_time() < 0.2: pass\nprint(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == [b"\n", b"\n"]
        assert 0.3 < processor_s(process.pid) < 1.0, "twice 0.2 s, in ticks of the system"
        assert processor_s(os.getpid() + (1 << 22)) == 0, "no group has such a number"
        os.killpg(process.pid, 9)


@pytest.mark.long("a whole demo")
def test_spark_that_never_starts_is_left_out_and_the_story_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Java that does nothing."""
    pytest.importorskip("pyspark")
    with short_dir() as directory:
        java = directory / "java" / "bin" / "java"
        java.parent.mkdir(parents=True)
        # It prints a version, and then sleeps.
        java.write_text(
            '#!/bin/sh\n[ "$1" = -version ] && { echo \'openjdk version "17.0.1"\' >&2; exit; }\nexec sleep 600\n'
        )
        java.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(directory / "java"))
        out = StringIO()
        pace = Pace(gap_s=0.05, votes=4, spark=SparkPatience(idle_s=3.0))
        stage = Stage(Console(file=out, highlight=False, markup=False))
        outcome = asyncio.run(play(Paths(directory / "demo"), stage, pace=pace))
    assert outcome.ok, outcome.findings
    assert outcome.no_spark is not None
    assert "no row was read in" in outcome.no_spark
    assert "Spark takes no part: no row was read in" in " ".join(out.getvalue().split())
    assert not _with_environment(b"JAVA_HOME=" + os.fsencode(directory))


def _with_environment(words: bytes) -> list[Path]:
    """Processes with this argument: they should have ended."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        if int(environ.parent.name) == os.getpid():
            continue
        try:
            if words in environ.read_bytes():
                found.append(environ)
        except OSError:
            continue
    return found
