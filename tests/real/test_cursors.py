"""Cursors with real sites and real readers: kill -9 of whoever holds one, and of the holder's site."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from reconvene import blocking
from reconvene.local import LocalCluster

MESSAGES = 400
READER = """
import sys
from reconvene import blocking

with blocking.connect(sys.argv[2:]) as site, site.log.cursor("work", lease=1, who=sys.argv[1]) as cursor:
    for number, entry in enumerate(cursor):
        print(cursor.term, entry.position, flush=True)
        if number % 7 == 3:
            cursor.commit()
            print("committed", cursor.committed, flush=True)
"""


class Reader:
    def __init__(self, number: int, addresses: list[str], directory: Path) -> None:
        self.printed = directory / f"reader-{number}"
        with self.printed.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-c", READER, f"reader {number}", *addresses], stdout=out, stderr=subprocess.DEVNULL
            )

    def lines(self) -> list[list[str]]:
        return [line.split() for line in self.printed.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def handed(self) -> list[tuple[int, int]]:
        return [(int(term), int(position)) for term, position in self.lines() if term != "committed"]

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


def until(condition: Callable[[], object], what: str, limit_s: float = 90) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.1)


@pytest.mark.long("starts sites and readers, and waits for leases")
def test_kill_the_holder_and_its_site_and_nothing_is_skipped(tmp_path: Path) -> None:
    with LocalCluster.create(tmp_path / "c", nodes=3) as cluster:
        cluster.start()
        cluster.wait_for()
        addresses = list(cluster.addresses.values())
        readers: list[Reader] = []

        def start() -> None:
            number = len(readers)
            turned = addresses[number % 3 :] + addresses[: number % 3]
            readers.append(Reader(number, turned, tmp_path))

        try:
            with blocking.connect(addresses) as site:
                site.log.append_many(b"%d" % number for number in range(MESSAGES)).ordered()
                for kills in range(3):
                    start()
                    start()
                    running = [reader for reader in readers if reader.process.poll() is None]
                    (holder, *_) = _holder(running, site)
                    if kills == 1:
                        name = cluster.names[readers.index(holder) % 3]
                        cluster.crash(name)
                        holder.kill()
                        time.sleep(2)
                        cluster.restart(name)
                    else:
                        holder.kill()
                    site.log.append_many(b"more %d" % number for number in range(50)).ordered(timeout=60)
                start()
                due = [entry.position for entry in site.log.read()]
                until(lambda: _seen(readers) >= set(due), "everything is handed out")
        finally:
            for reader in readers:
                if reader.process.poll() is None:
                    reader.kill()
        highest = 0
        for term, positions in sorted(_by_term(readers).items()):
            assert positions == [one for one in due if one >= positions[0]][: len(positions)], f"term {term} skips"
            assert positions[0] >= highest, f"term {term} begins before what was committed"
            highest = max(highest, *_committed(readers, term), 0)


def _holder(running: list[Reader], site: blocking.Site) -> list[Reader]:
    """The reader that has printed something in the newest term."""

    def newest() -> list[Reader]:
        (cursor,) = site.log.cursors() or (None,)
        return [
            reader
            for reader in running
            if cursor is not None and cursor.holder and any(term == cursor.term for term, _ in reader.handed()[-1:])
        ]

    until(newest, "a reader holds the cursor")
    return newest()


def _seen(readers: list[Reader]) -> set[int]:
    return {position for reader in readers for _, position in reader.handed()}


def _by_term(readers: list[Reader]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for reader in readers:
        for term, position in reader.handed():
            found.setdefault(term, []).append(position)
    return found


def _committed(readers: list[Reader], term: int) -> list[int]:
    for reader in readers:
        if any(one == term for one, _ in reader.handed()):
            return [int(line[1]) for line in reader.lines() if line[0] == "committed"]
    return []
