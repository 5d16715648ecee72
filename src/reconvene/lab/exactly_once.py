"""A log under load, its replicas killed and parted, and an export that is killed as well: the table equals the log.

    python -m reconvene.lab.exactly_once --kills 12 --out out/exactly-once

After every kill, before the export is started again, the table is looked at with pyarrow: each row is there once, and
what was there before still is. At the end the network mends, the export comes to the log's end, and what pyarrow and
Spark see of the table is compared with the log as a client reads it, by position. Exit 1 if they differ.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pyarrow.dataset as ds

import reconvene.blocking as blocking
from reconvene.errors import ReconveneError
from reconvene.local import LocalCluster

__all__ = ["Found", "main", "run"]

_LIFE_S = (8.0, 22.0)
"""How long an export lives before it is killed: from while Spark starts to several batches later."""
_FAULT_EVERY_S = 3.0
_TOGETHER = 50
_PATIENCE_S = 300.0


class Found(Exception):
    """The table is not what the log says."""


class Load(threading.Thread):
    """Appends numbered messages at any site that takes them, until it is told to stop."""

    def __init__(self, addresses: list[str]) -> None:
        super().__init__(name="load", daemon=True)
        self._addresses = addresses
        self._over = threading.Event()
        self.sent = 0

    def run(self) -> None:
        while not self._over.is_set():
            try:
                with blocking.connect(self._addresses) as site:
                    while not self._over.wait(0.02):
                        messages = [b"message %d" % (self.sent + place) for place in range(_TOGETHER)]
                        site.log.append_many(messages, timeout=5.0)
                        self.sent += _TOGETHER
            except ReconveneError:
                sleep(0.2)  # whether it was taken is the log's to say

    def stop(self) -> None:
        self._over.set()
        self.join()


class Faults(threading.Thread):
    """A replica killed, or cut off, every few seconds, and back again after a while."""

    def __init__(self, cluster: LocalCluster, seed: int) -> None:
        super().__init__(name="faults", daemon=True)
        self._cluster = cluster
        self._random = random.Random(seed)
        self._over = threading.Event()
        self.kills = 0
        self.partitions = 0
        self.trouble: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._over.wait(_FAULT_EVERY_S):
                self._one()
        except BaseException as error:
            self.trouble = error

    def _one(self) -> None:
        cluster, names = self._cluster, list(self._cluster.names)
        name = self._random.choice(names)
        if self._random.random() < 0.5:
            cluster.crash(name)
            self.kills += 1
            self._over.wait(_FAULT_EVERY_S)
            cluster.restart(name)
        else:
            cluster.partition([[name], [other for other in names if other != name]])
            self.partitions += 1
            self._over.wait(_FAULT_EVERY_S)
            cluster.heal()

    def stop(self) -> None:
        self._over.set()
        self.join()
        if self.trouble is not None:
            raise self.trouble


def run(out: Path, kills: int, seed: int) -> str:
    """What was done, in one line. Raises Found."""
    table = out / "export" / "log"
    chance = random.Random(seed)
    with LocalCluster.create(out / "c", 3, trace=False) as cluster:
        cluster.start()
        addresses = list(cluster.addresses.values())
        load, faults = Load(addresses), Faults(cluster, seed)
        load.start()
        faults.start()
        rows: dict[int, bytes] = {}
        for kill in range(kills):
            with _export(out) as process:
                sleep(chance.uniform(*_LIFE_S))
                os.killpg(process.pid, signal.SIGKILL)
            before, rows = rows, _look(table)
            if not before.items() <= rows.items():
                raise Found("rows that were in the table have gone or changed")
            print(f"kill {kill + 1}: {len(rows):,} rows in the table", file=sys.stderr, flush=True)
        faults.stop()
        load.stop()
        cluster.wait_for()
        with _export(out, "--once") as process:
            if process.wait(_PATIENCE_S) != 0:
                raise Found(f"the last export failed; see {out / 'export.log'}")
        with blocking.connect(addresses) as site:
            site.log.barrier(timeout=60.0)
            log = {entry.position: bytes(entry.data) for entry in site.log.read()}
        _compare(log, _look(table), "pyarrow")
        _compare(log, _by_spark(table), "Spark")
    return (
        f"{len(log):,} rows in the log and in the table, each once; the export was killed {kills} times,"
        f" replicas {faults.kills} times, and parted {faults.partitions} times"
    )


@contextmanager
def _export(out: Path, *more: str) -> Iterator["subprocess.Popen[bytes]"]:
    """In a group of its own, so that Java and the workers are killed with it."""
    command = [sys.executable, "-m", "reconvene", "pipeline", "export", "--to", str(out / "export")]
    command += ["--dir", str(out / "c"), "--every", "500ms", *more]
    with (out / "export.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _look(table: Path) -> dict[int, bytes]:
    """The rows by position, as pyarrow sees them. Raises Found where one is there twice."""
    if not any(table.glob("*/*.parquet")):
        return {}
    told = ds.dataset(table, format="parquet", partitioning="hive").to_table(columns=["position", "payload"])
    return _rows(told["position"].to_pylist(), told["payload"].to_pylist())


def _by_spark(table: Path) -> dict[int, bytes]:
    from reconvene.pipeline.session import open_session

    with open_session("local[2,4]") as spark:
        told = spark.read.parquet(str(table)).select("position", "payload").toArrow()
    return _rows(told["position"].to_pylist(), told["payload"].to_pylist())


def _rows(positions: list[int], payloads: list[bytes]) -> dict[int, bytes]:
    rows = dict(zip(positions, payloads, strict=True))
    if len(rows) != len(positions):
        raise Found(f"{len(positions) - len(rows)} rows are in the table more than once")
    return rows


def _compare(log: dict[int, bytes], rows: dict[int, bytes], who: str) -> None:
    lacking, strange = sorted(log.keys() - rows.keys()), sorted(rows.keys() - log.keys())
    other = [position for position in log.keys() & rows.keys() if log[position] != rows[position]]
    if lacking or strange or other:
        raise Found(
            f"{who} sees another table than the log: {len(lacking)} rows are lacking (from {lacking[:1]}),"
            f" {len(strange)} strange (from {strange[:1]}), {len(other)} with another payload (from {other[:1]})"
        )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="An export killed again and again equals its log.")
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("out/exactly-once"))
    given = parser.parse_args(arguments)
    shutil.rmtree(given.out, ignore_errors=True)
    given.out.mkdir(parents=True)
    begun = monotonic()
    try:
        line = run(given.out, given.kills, given.seed)
    except (Found, ReconveneError) as error:
        print(f"exactly-once: {error}; what there is stays in {given.out}", file=sys.stderr)
        return 1
    print(f"{line}; {monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
