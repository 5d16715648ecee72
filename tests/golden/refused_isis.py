"""Rows of process groups that can't be judged: line 7 of q's file, after the trace `pair`."""

import json
from pathlib import Path

from tests.golden.refused import edit_row, refused

_CAST = {
    "node": "q", "inc": 1, "n": 100, "t": 100_000, "layer": "isis", "kind": "cbcast", "msg": "q:1:1",
    "service": "causal", "group": "bank", "view": 1, "process": "q:1:1", "label": '{"x":7}', "dests": ["q:1:1"],
    "attempt": 0, "replies": 0,
}  # fmt: skip


def _spoil(name: str, *says: str, **fields: object) -> None:
    """Registers a directory whose last row is a CBCAST with these fields; it lacks those that are None."""

    @refused(f"isis-{name}", "q.jsonl:7", *says)
    def _(directory: Path) -> None:
        with (directory / "q.jsonl").open("a") as file:
            file.write(json.dumps(_CAST, separators=(",", ":")) + "\n")
        edit_row(directory, 7, **fields)


_spoil("unknown-kind", "`kind` is 'cast'", "cbcast, abcast, gbcast", kind="cast")
_spoil("cast-lacks-its-destinations", "`dests` is missing", dests=None)
_spoil("cast-lacks-its-attempt", "`attempt` is missing", attempt=None)
_spoil("attempt-below-zero", "`attempt` is -1", attempt=-1)
_spoil("cast-to-a-group-without-a-view", "`view` is missing", "both", view=None)
_spoil("label-is-no-label", "`label` is 'x'", "JSON object", label="x")
_spoil("label-is-no-number", "`label`", "JSON object", label='{"x":"7"}')
_spoil("process-of-another-node", "`process` is 'p:1:1'", "q:1:NUMBER", process="p:1:1")
_spoil("view-lacks-its-rank", "`dests` is missing", kind="view", dests=None, members=["q:1:1"], primary=1, conf="1")
_spoil("site-lacks-its-members", "`members` is missing", kind="site", conf="1", primary=1)
_spoil("reject-lacks-its-view", "`view` is missing", kind="reject", sender="p:1:1", view=None)
_spoil("incarnation-zero", "`inc`", inc=0)
