"""Counts and verifies the trace of a local cluster."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
from msgspec import Struct

from reconvene.errors import Malformed
from reconvene.trace.events import Row
from reconvene.trace.reader import read_run
from reconvene.trace.writer import node_file

__all__ = ["Counts", "Verdict", "count", "judge"]


_CASTS = tuple(b'"layer":"isis","kind":"%s"' % kind for kind in (b"cbcast", b"abcast", b"gbcast"))


class Counts(Struct, kw_only=True):
    """What a trace contains. Only regular configurations count, each once, however many sites it has."""

    rows: int = 0
    messages: int = 0
    deliveries: int = 0
    configurations: int = 0
    failures: int = 0
    """Crashes that the next start of the site recorded."""
    leaves: int = 0
    casts: int = 0
    """Of processes in ISIS groups, each attempt …"""
    receipts: int = 0
    """… and what they received."""
    by_service: dict[str, int] = {}


class Witnessed(Struct):
    node: str
    n: int
    detail: str


class Check(Struct):
    id: str
    cases: int
    violations: int
    witnesses: list[Witnessed]


class Verdict(Struct):
    """The output of `reconvene verify --json`."""

    ok: bool
    events: int
    checks: list[Check]

    def cases(self, prefix: str) -> dict[str, int]:
        """By check: the cases of the checks whose id has this prefix."""
        return {check.id: check.cases for check in self.checks if check.id.startswith(prefix)}

    @property
    def violations(self) -> int:
        return sum(check.violations for check in self.checks)

    def witnesses(self) -> list[str]:
        return [
            f"{check.id}: {witness.node} n {witness.n}: {witness.detail}"
            for check in self.checks
            for witness in check.witnesses
        ]


def judge(trace: Path) -> Verdict:
    """Runs `reconvene verify` in a process of its own, so that its memory is freed."""
    command = [sys.executable, "-m", "reconvene", "verify", str(trace), "--json"]
    done = subprocess.run(command, capture_output=True, check=False)
    try:
        verdict = msgspec.json.decode(done.stdout, type=Verdict)
    except msgspec.MsgspecError:
        raise Malformed(f"{trace}: can't be verified: {done.stderr.decode(errors='replace').strip()}") from None
    assert done.returncode == (0 if verdict.ok else 1), "the exit code says the same"
    return verdict


def count(trace: Path) -> Counts:
    counts = Counts()
    configurations: set[str] = set()
    services: Counter[str] = Counter()
    for node in read_run(trace).nodes:
        with node_file(trace, node).open("rb") as lines:
            for line in lines:
                counts.rows += 1
                # The columns are in the schema's order, so most rows can be counted without decoding them.
                if b'"layer":"evs","kind":"deliver"' in line:
                    counts.deliveries += 1
                elif b'"layer":"isis","kind":"receive"' in line:
                    counts.receipts += 1
                elif line.find(b'"layer":"isis"') >= 0 and any(kind in line for kind in _CASTS):
                    counts.casts += 1
                elif b'"layer":"evs"' in line:
                    _count_row(msgspec.json.decode(line, type=Row), counts, configurations, services)
    counts.configurations = len(configurations)
    counts.by_service = dict(sorted(services.items()))
    return counts


def _count_row(row: Row, counts: Counts, configurations: set[str], services: Counter[str]) -> None:
    match row.kind:
        case "send":
            counts.messages += 1
            services[str(row.service)] += 1
        case "fail":
            counts.failures += 1
        case "stop":
            counts.leaves += 1
        case "conf" if row.conf_kind == "regular":
            configurations.add(str(row.conf))
