"""Spark sessions: embedded in this process by default, any other Spark by its URL.

Nothing here, nor anywhere in the pipeline, uses `sparkContext` or RDDs, so that all of it runs through Spark Connect.
"""

import os
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from reconvene.doctor.java import HOW_TO_GET_JAVA, OLDEST_JAVA, find_java
from reconvene.errors import Malformed, Unavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DEFAULT_MASTER", "SHUFFLE_PARTITIONS", "need_spark", "open_session", "parse_conf"]

DEFAULT_MASTER = "local[*,4]"
"""All cores of this machine; a task that fails is tried four times, which a plain `local[*]` does not do."""

_PORTS = {"sc://": 15002, "spark://": 7077}
"""Of masters that are looked for before Spark does, by scheme: the port where none is told."""
_ANSWER_S = 10.0

_CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # The log's source then reads only the positions that a query asks for.
    "spark.sql.python.filterPushdown.enabled": "true",
    # Listing the directories of a thousand runs is no work for a thousand tasks.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
}
"""Of every session, also one that is connected to."""

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"

_LOCAL_DEFAULTS = {SHUFFLE_PARTITIONS: "8"}
"""Of a session on this machine, where nobody has set anything else: Spark's two hundred are for clusters."""

_ELSEWHERE = {"spark.master": "--master", "spark.remote": "--master", "spark.app.name": "the command's own name"}
"""Settings that the session has from elsewhere."""

_LOCAL_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    # What nobody looks at without Spark's own pages, and what fills the driver's memory in a long life.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "40",
    "spark.ui.retainedTasks": "2000",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.sql.maxPlanStringLength": "8192",
    "spark.sql.warehouse.dir": "spark-warehouse",
}
"""Of sessions whose driver is this process."""


@contextmanager
def open_session(
    master: str | None = None,
    *,
    app: str = "reconvene",
    conf: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
) -> Iterator["SparkSession"]:
    """A session, stopped at the end. `master`: a Spark master's URL, or `sc://HOST:PORT` for Spark Connect. `conf`:
    settings, which come before those in Spark's own files; `defaults`: some that come after these.

    Raises Unavailable, in one line that says what to do, where Spark or Java is missing or the cluster does not
    answer; and Malformed over a setting that Spark refuses.
    """
    given = dict(conf or {})
    session = _make(master or DEFAULT_MASTER, app, {**_CONF, **given})
    try:
        _check_conf(session, given)
        local = _LOCAL_DEFAULTS if (master or DEFAULT_MASTER).startswith("local") else {}
        there = session.conf.getAll
        for key, value in {**local, **(defaults or {})}.items():
            if key not in there:
                session.conf.set(key, value)
        yield session
    finally:
        session.stop()


def parse_conf(given: Iterable[str]) -> dict[str, str]:
    """Settings from KEY=VALUE, as `--conf` takes them. May raise Malformed."""
    found: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("spark.") or key.strip() != key or not value.strip():
            raise Malformed(
                f"--conf {text}: expected KEY=VALUE, with a key of Spark's, such as {SHUFFLE_PARTITIONS}=64"
            )
        if key in _ELSEWHERE:
            raise Malformed(f"--conf {text}: expected {_ELSEWHERE[key]} instead")
        if key in found:
            raise Malformed(f"--conf {text}: {key} is set twice; expected each key once")
        found[key] = value
    return found


def need_spark() -> None:
    """Raises Unavailable where Spark is not installed."""
    if find_spec("pyspark") is None:
        raise Unavailable("Spark is not installed; install it with: pip install 'reconvene[spark]'")


def _check_conf(session: "SparkSession", conf: Mapping[str, str]) -> None:
    """Spark itself looks at a setting only when it is used."""
    for key, value in conf.items():
        if session.conf.isModifiable(key):
            try:
                session.conf.set(key, value)
            except Exception as error:
                raise Malformed(f"--conf {key}={value}: {_first_line(error)}") from None


def _make(master: str, app: str, conf: Mapping[str, str]) -> "SparkSession":
    need_spark()
    from pyspark.sql import SparkSession

    # Executors have to find this package and its dependencies: the same interpreter, wherever the command was found.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName(app)
    remote = master.startswith("sc://")
    _need_answer(master)
    if remote:
        builder = builder.remote(master)
    else:
        if "://" not in master and not master.startswith(("local", "yarn")):
            raise Malformed(
                f"--master {master}: expected local[N], a URL such as spark://HOST:7077, or sc://HOST:15002"
            )
        _need_java()
        builder = builder.master(master)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        _quiet()
        for key, value in _LOCAL_CONF.items():
            builder = builder.config(key, value)
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise Unavailable(f"no Spark session at {master}: {_first_line(error)}") from None


def _need_answer(master: str) -> None:
    """Spark itself tries for minutes before it reports that nothing listens there."""
    for scheme, port in _PORTS.items():
        if master.startswith(scheme):
            places = [place.partition("/")[0] for place in master.removeprefix(scheme).split(",")]
            if not any(_listens(*_host_port(place, port, master)) for place in places):
                raise Unavailable(f"--master {master}: nobody listens there; is Spark running, and the port right?")


def _host_port(place: str, port: int, master: str) -> tuple[str, int]:
    host, colon, told = place.rpartition(":")
    if not colon or told.endswith("]"):
        return place.strip("[]"), port
    if not told.isdecimal() or not 0 < int(told) < 65536:
        raise Malformed(f"--master {master}: {told or 'nothing'} is no port; expected 1 to 65535")
    return host.strip("[]"), int(told)


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=_ANSWER_S).close()
    except OSError:
        return False
    return True


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def _need_java() -> None:
    java = find_java()
    advice = f"Spark needs Java {OLDEST_JAVA} or later: {HOW_TO_GET_JAVA}"
    if java is None:
        home = os.environ.get("JAVA_HOME")
        raise Unavailable(f"no Java found{f' in JAVA_HOME={home}' if home else ''}; {advice}")
    if not java.is_recent:
        raise Unavailable(f"{java.path} is not Java {OLDEST_JAVA} or later; {advice}")


def _quiet() -> None:
    """Spark's chatter would drown the one line that matters. Its logging is set up before any session is."""
    told = os.environ.get("RECONVENE_SPARK_LOG") or str(Path(__file__).with_name("log4j2.properties"))
    option = f"-Dlog4j2.configurationFile=file:{told}"
    options = os.environ.get("SPARK_SUBMIT_OPTS", "")
    if "log4j2.configurationFile" not in options:
        os.environ["SPARK_SUBMIT_OPTS"] = f"{options} {option}".strip()
