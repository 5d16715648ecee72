"""A log under load, replicas killed and partitioned, and an export that is killed too: its table equals the log.

    python -m reconvene.lab.exactly_once --kills 12 --out out/exactly-once

After every kill of the export, and before it is started again, pyarrow reads the table: each row is there once, and
all earlier rows are still there. At the end everything is mended, the export catches up, and the table as
pyarrow and as Spark read it is compared with the log as a client reads it, by position. The clients' own ledger is
compared with the log too. Exit 1 if anything differs.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pyarrow as pa
import pyarrow.dataset as ds

import reconvene.blocking as blocking
from reconvene.errors import ReconveneError
from reconvene.lab.ledger.compare import differences, repeated
from reconvene.lab.load.log_fleet import LogAudit, LogFleet, read_logs, wait_ordered
from reconvene.lab.soak.faults import RandomFaults
from reconvene.local import LocalCluster

__all__ = ["Found", "main", "run"]

_LIFE_S = (8.0, 22.0)
"""How long an export runs before it is killed: between the start of Spark and several batches later."""
_FAULT_EVERY_S = 3.0
_RATE = 2_000.0
_PATIENCE_S = 300.0


class Found(Exception):
    """The table differs from the log."""


def run(out: Path, kills: int, seed: int) -> str:
    """What was done, in one line. Raises Found."""
    table = out / "export" / "log"
    chance = random.Random(seed)
    with LocalCluster.create(out / "c", 3, trace=False) as cluster:
        cluster.start()
        addresses = list(cluster.addresses.values())
        with LogFleet.on([addresses], rate=_RATE, seed=seed, log=out / "load.log") as load:
            faults = RandomFaults(cluster, seed, kinds=("kill", "restart", "partition", "heal"))
            rows: dict[int, bytes] = {}
            for kill in range(kills):
                with _export(out) as process:
                    _break_for(chance.uniform(*_LIFE_S), faults, load)
                    os.killpg(process.pid, signal.SIGKILL)
                before, rows = rows, _read_table(table)
                if not before.items() <= rows.items():
                    raise Found("rows that were in the table have gone or changed")
                print(f"kill {kill + 1}: {len(rows):,} rows in the table", file=sys.stderr, flush=True)
            faults.mend()
            cluster.wait_for()
            load.quiet()
            wait_ordered(cluster, _PATIENCE_S)
            logs, index = read_logs(cluster)
            if wrong := LogAudit(load.reports(), logs, index).faults:
                raise Found(f"the log is not what its clients were promised: {wrong[0]}")
        with _export(out, "--once") as process:
            if process.wait(_PATIENCE_S) != 0:
                raise Found(f"the last export failed; see {out / 'export.log'}")
        with blocking.connect(addresses) as site:
            site.log.barrier(timeout=60.0)
            log = {entry.position: bytes(entry.data) for entry in site.log.read()}
        _compare(log, _read_table(table), "pyarrow")
        _compare(log, _read_by_spark(table), "Spark")
    return (
        f"{len(log):,} rows in the log and in the table, each once; the export was killed {kills} times,"
        f" replicas {faults.faults['kill']} times, with {faults.faults['partition']} partitions"
    )


def _break_for(seconds: float, faults: RandomFaults, load: LogFleet) -> None:
    """A replica is killed or the network partitioned every few seconds, and mended after a while."""
    until = monotonic() + seconds
    while (left := until - monotonic()) > 0:
        sleep(min(left, _FAULT_EVERY_S))
        load.check()
        faults.step()


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


def _read_table(table: Path) -> dict[int, bytes]:
    """The rows by position, as pyarrow reads them. Raises Found if a row is there twice."""
    if not any(table.glob("*/*.parquet")):
        return {}
    return _rows(ds.dataset(table, format="parquet", partitioning="hive").to_table(columns=["position", "payload"]))


def _read_by_spark(table: Path) -> dict[int, bytes]:
    from reconvene.pipeline.session import open_session

    with open_session("local[2,4]") as spark:
        return _rows(spark.read.parquet(str(table)).select("position", "payload").toArrow())


def _rows(table: pa.Table) -> dict[int, bytes]:
    positions = table["position"].to_pylist()
    if twice := repeated(positions):
        raise Found(f"{len(twice)} rows are in the table more than once")
    return dict(zip(positions, table["payload"].to_pylist(), strict=True))


def _compare(log: dict[int, bytes], rows: dict[int, bytes], reader: str) -> None:
    lacking, extra, changed = differences(log, rows)
    if lacking or extra or changed:
        raise Found(
            f"{reader} reads a table that differs from the log: {len(lacking)} rows are missing (from {lacking[:1]}),"
            f" {len(extra)} are not in the log (from {extra[:1]}), {len(changed)} have another payload"
            f" (from {changed[:1]})"
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
        print(f"exactly-once: {error}; its files stay in {given.out}", file=sys.stderr)
        return 1
    print(f"{line}; {monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
