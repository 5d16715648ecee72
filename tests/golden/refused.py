"""Directories that cannot be judged, and the words that the error line must contain; and torn files that can be
judged."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.golden.good import pair


@dataclass(frozen=True)
class Refused:
    name: str
    says: tuple[str, ...]
    spoil: Callable[[Path], None]


REFUSED: list[Refused] = []


def refused(name: str, *says: str) -> Callable[[Callable[[Path], None]], None]:
    """Registers a way to spoil the directory of the trace `pair`."""

    def register(spoil: Callable[[Path], None]) -> None:
        REFUSED.append(Refused(name, says, spoil))

    return register


def write_pair(directory: Path) -> None:
    pair().write(directory)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines(keepends=True)


def _edit_run(directory: Path, **fields: object) -> None:
    path = directory / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}, indent=2) + "\n")


def edit_row(directory: Path, line: int, **fields: object) -> None:
    path = directory / "q.jsonl"
    lines = _lines(path)
    row = {**json.loads(lines[line - 1]), **fields}
    row = {key: value for key, value in row.items() if value is not None}
    lines[line - 1] = json.dumps(row, separators=(",", ":")) + "\n"
    path.write_text("".join(lines))


@refused("no-run-json", "run.json", "missing")
def _(directory: Path) -> None:
    (directory / "run.json").unlink()


@refused("empty-run-json", "run.json", "JSON object")
def _(directory: Path) -> None:
    (directory / "run.json").write_text("")


@refused("not-a-trace", "run.json", "schema")
def _(directory: Path) -> None:
    (directory / "run.json").write_text('{"name": "something else"}\n')


@refused("run-json-is-a-list", "run.json", "JSON object")
def _(directory: Path) -> None:
    (directory / "run.json").write_text("[1, 2]\n")


@refused("other-schema", "run.json", "`schema` is 3", "expected 2")
def _(directory: Path) -> None:
    _edit_run(directory, schema=3)


@refused("earlier-schema", "run.json", "`schema` is 1", "expected 2", "an earlier version of Reconvene wrote this")
def _(directory: Path) -> None:
    _edit_run(directory, schema=1)


@refused("wrong-type-in-run-json", "run.json", "settled")
def _(directory: Path) -> None:
    _edit_run(directory, settled="yes")


@refused("run-json-lacks-a-field", "run.json", "components")
def _(directory: Path) -> None:
    path = directory / "run.json"
    document = json.loads(path.read_text())
    del document["components"]
    path.write_text(json.dumps(document))


@refused("no-nodes", "run.json", "nodes")
def _(directory: Path) -> None:
    _edit_run(directory, nodes=[])


@refused("down-names-a-stranger", "run.json", "`down` names z")
def _(directory: Path) -> None:
    _edit_run(directory, down=["z"])


@refused("a-node-in-two-components", "run.json", "components")
def _(directory: Path) -> None:
    _edit_run(directory, components=[["p", "q"], ["q"]])


@refused("a-node-file-is-missing", "q.jsonl", "missing")
def _(directory: Path) -> None:
    (directory / "q.jsonl").unlink()


@refused("a-file-of-no-node", "z.jsonl", "no node")
def _(directory: Path) -> None:
    (directory / "z.jsonl").write_text("")


@refused("torn-in-the-middle", "q.jsonl:3")
def _(directory: Path) -> None:
    lines = _lines(directory / "q.jsonl")
    lines[2] = lines[2][:30] + "\n"
    (directory / "q.jsonl").write_text("".join(lines))


@refused("last-line-broken-but-ended", "q.jsonl:6")
def _(directory: Path) -> None:
    lines = _lines(directory / "q.jsonl")
    lines[-1] = lines[-1][:30] + "\n"
    (directory / "q.jsonl").write_text("".join(lines))


@refused("a-blank-line", "q.jsonl:3")
def _(directory: Path) -> None:
    lines = _lines(directory / "q.jsonl")
    (directory / "q.jsonl").write_text("".join([*lines[:2], "\n", *lines[2:]]))


@refused("wrong-type-in-an-event", "q.jsonl:4", "ts")
def _(directory: Path) -> None:
    edit_row(directory, 4, ts="soon")


@refused("event-lacks-its-configuration", "q.jsonl:4", "`conf`")
def _(directory: Path) -> None:
    edit_row(directory, 4, conf=None)


@refused("transitional-lacks-reg", "q.jsonl:2", "`reg`")
def _(directory: Path) -> None:
    edit_row(directory, 2, reg=None)


@refused("unknown-service", "q.jsonl:4", "service", "slow")
def _(directory: Path) -> None:
    edit_row(directory, 4, service="slow")


@refused("unknown-kind", "q.jsonl:4", "kind", "receive")
def _(directory: Path) -> None:
    edit_row(directory, 4, kind="receive")


@refused("unknown-layer", "q.jsonl:4", "layer", "tcp")
def _(directory: Path) -> None:
    edit_row(directory, 4, layer="tcp")


@refused("unknown-kind-of-configuration", "q.jsonl:3", "conf_kind", "odd")
def _(directory: Path) -> None:
    edit_row(directory, 3, conf_kind="odd")


@refused("another-node-s-event", "q.jsonl:4", "`node` is p")
def _(directory: Path) -> None:
    edit_row(directory, 4, node="p")


@refused("incarnation-zero", "q.jsonl:1", "inc")
def _(directory: Path) -> None:
    edit_row(directory, 1, inc=0)


@refused("without-its-start", "q.jsonl:1", "start")
def _(directory: Path) -> None:
    lines = _lines(directory / "q.jsonl")
    (directory / "q.jsonl").write_text("".join(lines[1:]))


@refused("without-its-first-half", "q.jsonl:1", "start")
def _(directory: Path) -> None:
    lines = _lines(directory / "q.jsonl")
    (directory / "q.jsonl").write_text("".join(lines[3:]))


def tear(directory: Path) -> None:
    """A crash in the middle of a line: the line is dropped, and everything before it counts."""
    with (directory / "q.jsonl").open("a") as file:
        file.write('{"node":"q","inc":1,"n":6,"t":60')


def end_without_newline(directory: Path) -> None:
    """The last line is whole and lacks only its newline: it counts."""
    path = directory / "q.jsonl"
    path.write_text(path.read_text().removesuffix("\n"))


TORN: tuple[tuple[str, Callable[[Path], None]], ...] = (
    ("torn-last-line", tear),
    ("no-newline-at-the-end", end_without_newline),
)
