"""One replica of a PySyncObj log, with its writer inside it: python -m ...pysyncobj_server JOURNAL OWN OTHER...

The library is part of its application's process, so replica and load generator are one program. It has the orders of
store_load.go, and "sync 0|1": whether the journal is synced in every turn of the loop that wrote to it, answered
{"sync": ...}. Writes go to the leader; the others only answer "leader".
"""

import json
import logging
import os
import select
import sys
from collections.abc import Callable
from time import monotonic, monotonic_ns, sleep
from typing import Any

from pysyncobj import FAIL_REASON, SyncObj, SyncObjConf, replicated

__all__ = ["main"]

TURN_S = 0.001
"""How long a turn waits for input."""
QUEUE = 200_000
APPEND_PERIOD_S = 0.02
"""Between two sends of collected entries, if it collects them; the library's default is 100 ms. On a busy machine no
value from 10 to 100 ms was clearly best."""
REQUEST_S = 20.0
AFTER_FAILURE_S = 0.01
REASONS = {number: name for name, number in vars(FAIL_REASON).items() if isinstance(number, int)}


class Log(SyncObj):  # type: ignore[misc]
    """Only counts its entries: the application's work is not measured."""

    def __init__(self, own: str, others: list[str], conf: SyncObjConf) -> None:
        super().__init__(own, others, conf)
        self.count = 0

    @replicated  # type: ignore[untyped-decorator]
    def append(self, data: bytes) -> int:
        self.count += 1
        return self.count


class PySyncObjServer:
    def __init__(self, journal: str, own: str, others: list[str]) -> None:
        self.conf = SyncObjConf(
            autoTick=False, journalFile=journal, commandsQueueSize=QUEUE, appendEntriesPeriod=APPEND_PERIOD_S,
            appendEntriesUseBatch=False,
        )  # fmt: skip
        # The library reads this setting while it runs, but has to start with False to support it.
        self.log = Log(own, others, self.conf)
        self.own = own
        self.others = others
        self.journal = os.open(journal, os.O_RDWR)
        self.sync = False
        self.waiting = 0
        self.done = 0
        self.failed = 0
        self.error = ""

    def turn(self, wait_s: float = TURN_S) -> None:
        before = self.log._getRaftLogSize()
        self.log.doTick(wait_s)
        if self.sync and self.log._getRaftLogSize() != before:
            os.fdatasync(self.journal)  # what was written through the library's mapping is in the file's pages

    def send(self, data: bytes) -> None:
        self.waiting += 1
        self.log.append(data, callback=self._answered)

    def _answered(self, result: object, reason: int) -> None:
        self.waiting -= 1
        if reason == FAIL_REASON.SUCCESS:
            self.done += 1
        else:
            self.failed += 1
            self.error = REASONS.get(reason, str(reason))

    def throughput(self, size: int, outstanding: int, batch: int, warm_ms: int, run_ms: int) -> dict[str, Any]:
        assert batch == 1, "it has no batches that a user makes"
        self.conf.appendEntriesUseBatch = True
        data, failed = os.urandom(size), self.failed
        start = monotonic() + warm_ms / 1000
        before, began = self.done, 0.0
        while not began or monotonic() < began + run_ms / 1000:
            if not began and monotonic() >= start:
                before, began = self.done, monotonic()
            if self.waiting < outstanding:
                for _ in range(outstanding - self.waiting):
                    self.send(data)
            self.turn(0.0 if self.waiting < outstanding else TURN_S)
        writes, seconds = self.done - before, monotonic() - began
        self.drain(monotonic() + REQUEST_S)
        failed = self.failed - failed
        return {"writes": writes, "seconds": seconds, "failed": failed, "error": self.error if failed else ""}

    def latency(self, size: int, count: int) -> dict[str, Any]:
        self.conf.appendEntriesUseBatch = False  # else each waits for the next send of collected entries
        data, took = os.urandom(size), []
        for _ in range(count):
            began, failed = monotonic_ns(), self.failed
            self.send(data)
            if not self.drain(monotonic() + REQUEST_S) or self.failed > failed:
                raise SystemExit(f"load: latency: {self.error or 'no answer'}")
            took.append(monotonic_ns() - began)
        return {"took": took}

    def attempt(self, size: int, count: int, seconds: int) -> dict[str, Any]:
        data, until = os.urandom(size), monotonic() + seconds
        before, failed, error, after = self.done, self.failed, "", 0.0
        while monotonic() < until and self.done - before < count:
            began = monotonic()
            self.send(data)
            if not self.drain(until):
                break
            if self.failed > failed:
                if not error:
                    error, after = self.error, monotonic() - began
                sleep(AFTER_FAILURE_S)
        self.waiting = 0  # requests without an answer by now are ignored
        return {"accepted": self.done - before, "refused": self.failed - failed, "error": error, "after": after}

    def drain(self, until: float) -> bool:
        """Whether every answer came in time."""
        while self.waiting:
            if monotonic() > until:
                return False
            self.turn()
        return True

    def leader(self) -> dict[str, Any]:
        """Whether this replica leads; every replica is asked."""
        leads = self.log._getLeader()
        return {"leader": leads is not None and leads.address == self.own}

    def set_sync(self, on: int) -> dict[str, Any]:
        self.sync = bool(on)
        return {"sync": on}


def main() -> None:
    logging.disable(logging.CRITICAL)
    journal, own, *others = sys.argv[1:]
    replica = PySyncObjServer(journal, own, others)
    orders: dict[str, Callable[..., dict[str, Any]]] = {
        "throughput": replica.throughput,
        "latency": replica.latency,
        "attempt": replica.attempt,
        "leader": replica.leader,
        "sync": replica.set_sync,
    }
    print(json.dumps({"ready": True}), flush=True)
    while True:
        replica.turn()
        if select.select([sys.stdin], [], [], 0)[0]:
            line = sys.stdin.readline()
            if not line:
                return  # the parent has ended
            order, *numbers = line.split()
            print(json.dumps(orders[order](*map(int, numbers))), flush=True)


if __name__ == "__main__":
    main()
