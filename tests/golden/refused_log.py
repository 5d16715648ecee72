"""Rows of the durable log, and quorums, that cannot be judged."""

import json
from pathlib import Path

from tests.golden.log_dsl import LogStory
from tests.golden.log_good import stable, yellow_goes_back
from tests.golden.refused import edit_row, refused


def _story() -> LogStory:
    """A trace with every kind of event at q."""
    s = yellow_goes_back()
    s.red("q", "y")
    s.adopt("q", 3)
    s.snapshot("q", 3)
    return s


def _line(kind: str) -> int:
    return next(line for line, row in enumerate(_story().rows["q"], 1) if row.kind == kind)


def _spoil(name: str, of: str, *says: str, **fields: object) -> None:
    """Registers a directory in which q's first event of this kind has these fields instead, or, where they are None,
    lacks them."""

    @refused(name, f"q.jsonl:{_line(of)}", *says)
    def _(directory: Path) -> None:
        _story().write(directory)
        edit_row(directory, _line(of), **fields)


_spoil("log-unknown-kind", "accept", "`kind` is 'append'", "accept, log, yellow", kind="append")
_spoil("log-accept-lacks-its-message", "accept", "`msg` is missing", msg=None)
_spoil("log-log-lacks-its-message", "log", "`msg` is missing", msg=None)
_spoil("log-log-lacks-its-timestamp", "log", "`ts` is missing", ts=None)
_spoil("log-timestamp-is-no-list", "log", "ts", ts=7)
_spoil("log-yellow-lacks-its-message", "yellow", "`msg` is missing", msg=None)
_spoil("log-red-lacks-its-message", "red", "`msg` is missing", msg=None)
_spoil("log-green-lacks-its-message", "green", "`msg` is missing", msg=None)
_spoil("log-green-lacks-its-position", "green", "`pos` is missing", pos=None)
_spoil("log-position-is-no-number", "green", "pos", pos="first")
_spoil("log-position-below-zero", "green", "`pos` is -1", "0 or more", pos=-1)
_spoil("log-attempt-lacks-its-number", "attempt", "`primary` is missing", primary=None)
_spoil("log-commit-lacks-its-members", "commit", "`members` is missing", members=None)
_spoil("log-establish-lacks-its-configuration", "establish", "`conf` is missing", conf=None)
_spoil("log-adopt-lacks-its-number", "adopt", "`primary` is missing", primary=None)
_spoil("log-snapshot-lacks-its-position", "snapshot", "`pos` is missing", pos=None)
_spoil("log-incarnation-zero", "accept", "inc", inc=0)


def _quorum(name: str, quorum: dict[str, object], *says: str) -> None:
    @refused(name, "run.json", "`quorum`", *says)
    def _(directory: Path) -> None:
        stable().write(directory)
        path = directory / "run.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "quorum": quorum}, indent=2) + "\n")


_quorum("log-quorum-of-unknown-kind", {"kind": "unanimous"}, "'unanimous'", "majority, weighted, grid or dynamic")
_quorum("log-quorum-has-too-high-a-minimum", {"kind": "dynamic", "minimum": 4}, "`minimum` from 1 to 3")
_quorum("log-quorum-has-a-minimum-that-is-no-number", {"kind": "dynamic", "minimum": "two"}, "`minimum`")
_quorum("log-quorum-of-no-kind", {}, "kind")
_quorum("log-quorum-lacks-its-weights", {"kind": "weighted"}, "`weights`")
_quorum("log-quorum-has-a-negative-weight", {"kind": "weighted", "weights": {"p": -1}}, "`weights`")
_quorum("log-quorum-lacks-its-rows", {"kind": "grid", "rows": []}, "`rows`")
