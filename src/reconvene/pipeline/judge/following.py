"""What the stream keeps of one trace between batches, and what a batch says of it.

Given: pieces of node files, of one trace, in any order; those of one node follow each other. Promised: `Told`, what
is found so far. All that is kept is one object, which goes into Spark's state store with the batch: a driver that is
killed and started again goes on where its checkpoint is.
"""

import pickle
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from reconvene.errors import Malformed
from reconvene.pipeline.judge.tail import Pass
from reconvene.trace.reader import BadLine, decode_rows, find_start
from reconvene.trace.writer import node_file
from reconvene.verify.online.run import OnlineRun, Sighting
from reconvene.verify.quorums import quorum_of

__all__ = ["Followed", "Told"]


class Told(Struct, frozen=True, kw_only=True):
    """What a batch says of a trace."""

    trace: str
    run: str
    settled: bool
    rows: int
    kept: int
    """Messages, positions and rows that are kept."""
    final: bool
    whole: bool
    """All files were read to their ends."""
    offsets: dict[str, int]
    """By node: how many bytes of its file are judged."""
    verified: dict[str, tuple[int, int]]
    """By node: the `n` and the clock `t` of its last row."""
    cases: dict[str, int]
    suspects: dict[str, int]
    lost: dict[str, str]
    sightings: list[Sighting]


class Followed:
    """One trace."""

    def __init__(self, trace: str) -> None:
        self._trace = trace
        self._run: OnlineRun | None = None
        self._offsets: dict[str, int] = {}
        self._started: set[str] = set()
        self._unended: set[str] = set()
        """Nodes whose last line had no newline yet, and was whole."""

    @classmethod
    def load(cls, data: bytes) -> "Followed":
        found = pickle.loads(data)  # what `dump` wrote, in the query's own checkpoint
        assert isinstance(found, cls)
        return found

    def dump(self) -> bytes:
        return pickle.dumps(self, protocol=5)

    def take(self, pieces: Iterable[tuple[str | None, int, bytes]]) -> Told:
        """The pieces of a batch: node, start and lines; and, without a node, its `Pass`. Raises Malformed."""
        ordered = sorted(pieces, key=lambda piece: (piece[0] or "", piece[1]))
        told = msgspec.json.decode(ordered[0][2], type=Pass)
        if self._run is None:
            self._run = OnlineRun(told.run)
        elif sorted(self._run.run.recorded) != sorted(told.run.recorded):
            raise Malformed(f"{self._trace}: run.json names other nodes than before; expected the same run")
        self._run.describe(told.run)
        for node, start, data in ordered[1:]:
            assert node is not None
            self._feed(self._run, node, start, data)
        if told.whole:
            self._run.read_all()
        if told.final and told.run.settled and self._run.needs_quorum:
            quorum_of(told.run)
        found = self._run.judge(final=told.final)
        return Told(
            trace=self._trace, run=told.run.run, settled=told.run.settled, rows=self._run.rows, kept=self._run.kept,
            final=told.final, whole=told.whole, offsets=self._offsets, verified=self._run.verified_up_to(),
            cases=found.cases, suspects={check: count for check, count in found.suspects.items() if count},
            lost=found.lost, sightings=self._run.sightings(),
        )  # fmt: skip

    def _feed(self, run: OnlineRun, node: str, start: int, data: bytes) -> None:
        expected = self._offsets.get(node, 0)
        assert start == expected, f"{node}: a piece at {start}, expected {expected}"
        self._offsets[node] = start + len(data)
        if node in self._unended:
            self._unended.discard(node)
            data = data.removeprefix(b"\n")
        if not data.endswith(b"\n"):
            self._unended.add(node)
        try:
            rows = decode_rows(data, node)
            if node not in self._started and find_start(rows) is not None:
                self._started.add(node)
        except BadLine as bad:
            path = node_file(Path(self._trace), node)
            raise Malformed(f"{path}:{run.rows_of(node) + bad.line + 1}: {bad.problem}") from None
        run.feed(node, rows)
