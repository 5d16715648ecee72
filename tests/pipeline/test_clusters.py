"""The heart of the pipeline where executors are other processes, through Spark Connect, and on a standalone Spark."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pyspark
import pytest
from tests.pipeline.heart import QUICK
from tests.pipeline.log_places import running
from tests.ports import free_port

pytestmark = pytest.mark.long("starts other kinds of Spark, each with a JVM")

ROOT = Path(__file__).parents[2]
SPARK = Path(pyspark.__path__[0])
PATIENCE_S = 500
STARTED_S = 120


@pytest.fixture
def place() -> Iterator[Path]:
    """Short, for the sake of sockets' paths."""
    with tempfile.TemporaryDirectory(prefix="rc") as directory:
        yield Path(directory)


def environment(place: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(place / "work"),
        "SPARK_LOCAL_DIRS": str(place / "scratch"),
    }


def run_heart(master: str, place: Path, *more: str) -> None:
    with running(place / "c"):
        heart = [sys.executable, "-m", "tests.pipeline.heart"]
        done = subprocess.run(
            [*heart, master, str(place / "c"), str(place / "out"), *more],
            cwd=place,
            env=environment(place),
            timeout=PATIENCE_S,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "right"


@contextmanager
def serving(command: list[str], port: int, place: Path, **more: str) -> Iterator[None]:
    """A program of Spark's that listens there, ended at the end with all that it started."""
    log = (place / f"{port}.log").open("wb")
    server = subprocess.Popen(
        command, cwd=place, env={**environment(place), **more}, stdout=log, stderr=log, start_new_session=True
    )
    try:
        wait_for(server, port, place)
        yield
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        log.close()


def wait_for(server: "subprocess.Popen[bytes]", port: int, place: Path) -> None:
    end = time.monotonic() + STARTED_S
    while True:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        told = (place / f"{port}.log").read_text(errors="replace")[-2000:]
        assert server.poll() is None, told
        assert time.monotonic() < end, told
        time.sleep(0.2)


def with_conf(conf: Mapping[str, str]) -> list[str]:
    return [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]


@contextmanager
def connect_server(place: Path) -> Iterator[str]:
    port = free_port()
    conf = {
        **QUICK,
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
    }
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    submit = [str(SPARK / "bin" / "spark-submit"), "--master", "local[2,4]", "--class", server]
    with serving([*submit, *with_conf(conf), "spark-internal"], port, place):
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def standalone(place: Path) -> Iterator[str]:
    ports = [free_port() for _ in range(3)]
    run = [str(SPARK / "bin" / "spark-class"), "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"]
    url = f"spark://127.0.0.1:{ports[0]}"
    work = [str(SPARK / "bin" / "spark-class"), "org.apache.spark.deploy.worker.Worker", "--cores", "2", url]
    with (
        serving([*run, "--port", str(ports[0]), "--webui-port", str(ports[1])], ports[0], place),
        serving([*work, "--webui-port", str(ports[2])], ports[2], place),
    ):
        yield url


def test_executors_in_other_processes(place: Path) -> None:
    run_heart("local-cluster[2,1,1024]", place)


def test_through_connect(place: Path) -> None:
    with connect_server(place) as url:
        run_heart(url, place)


@pytest.mark.slow
@pytest.mark.parametrize("where", [connect_server, standalone])
def test_with_proofs(place: Path, where: Callable[[Path], AbstractContextManager[str]]) -> None:
    with where(place) as url:
        run_heart(url, place, "proofs")


@pytest.mark.slow
def test_with_proofs_where_executors_are_other_processes(place: Path) -> None:
    run_heart("local-cluster[2,1,1024]", place, "proofs")
