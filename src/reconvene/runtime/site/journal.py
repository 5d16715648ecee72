"""One site's trace file, written as it runs.

Given: rows, a turn at a time. Promised: they are with the operating system when `flush` returns, as whole lines in
order. A restart cuts off a torn line and continues with the next number. At its size limit the trace stops for good,
since a trace with a gap can't be verified.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from reconvene.errors import Unavailable
from reconvene.quorum import full_spec
from reconvene.trace.events import CHANGED, SCHEMA, Row, Run, is_changed
from reconvene.trace.writer import RUN_FILE, encode_row, encode_run, node_file, stopped_file

__all__ = ["Journal", "Past", "run_quorum", "tell_changed", "write_run"]

_CHUNK = 1 << 16
_MOST_ROWS = 1 << 16
"""Flushed at this size, since the rows that a restart has to add may be many."""


@dataclass(frozen=True, slots=True)
class Past:
    """What an earlier incarnation left in the file."""

    next_n: int = 0
    incarnation: int = 0
    conf: str | None = None
    """The last configuration."""
    ended: bool = True
    """Whether it ended with `fail` or `stop`, or never began."""


class Journal:
    def __init__(
        self, directory: Path, node: str, max_bytes: int, say: Callable[[str], None], layer: str = "evs"
    ) -> None:
        """Raises OSError if the file can't be opened. `say` is called once, with the reason, if the trace stops.
        `layer`: the one whose rows tell the configuration, and the end of an incarnation."""
        self.path = node_file(directory, node)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._layer = layer
        self._mark = stopped_file(directory, node)
        self._max_bytes = max_bytes
        self._say = say
        self._rows: list[bytes] = []
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self.past = self._mend()
        self.bytes = os.fstat(self._fd).st_size
        self.stopped = self._mark.exists()

    def append(self, row: Row) -> None:
        if not self.stopped:
            self._rows.append(encode_row(row))
            if len(self._rows) >= _MOST_ROWS:
                self.flush()  # flushing early does no harm

    def flush(self) -> None:
        """Passes the appended rows to the operating system, all or none."""
        if not self._rows:
            return
        data = b"".join(self._rows)
        self._rows.clear()
        if self.bytes + len(data) > self._max_bytes:
            self.stop(f"it has reached its limit of {self._max_bytes} bytes")
            return
        try:
            written = os.write(self._fd, data)
            if written < len(data):
                os.ftruncate(self._fd, self.bytes)
                self.stop("the disk is full")
                return
        except OSError as error:
            self.stop(str(error))
            return
        self.bytes += len(data)

    def stop(self, why: str) -> None:
        """Stops for good: nothing more is recorded, and readers refuse the trace."""
        self.stopped = True
        # The mark outlives this process: the next incarnation must not continue after the gap.
        try:
            self._mark.write_text(f"{why}\n")
        except OSError as error:
            why += f"; and {self._mark} can't be written ({error})"
        self._say(f"{self.path}: {why}")

    def close(self) -> None:
        self.flush()
        os.close(self._fd)

    # -- what an earlier incarnation left

    def check_newer(self, incarnation: int, directory: Path) -> None:
        """Raises Unavailable if the trace shows that the site's directory is an older one."""
        if self.past.incarnation >= incarnation:
            raise Unavailable(
                f"{directory}: would begin incarnation {incarnation}, but {self.path} already has"
                f" {self.past.incarnation}: the directory is not the one that this site last used"
            )

    def _mend(self) -> Past:
        """Cuts off a torn last line, and reads how far the trace had come."""
        size = os.fstat(self._fd).st_size
        lines = self._lines_from_the_end(size)
        last = next(lines, None)
        if last is None:
            return Past()
        at, line = last
        if not line.endswith(b"\n"):
            if _decode(line) is not None:
                os.write(self._fd, b"\n")  # only its newline was missing
            else:
                os.ftruncate(self._fd, at)
                last = next(lines, None)
                if last is None:
                    return Past()
                line = last[1]
        row = _decode(line)
        if row is None:
            raise OSError(f"{self.path}: its last line is not an event; move the file away to begin a new trace")
        found = row
        while not self._tells_configuration(found, row.inc):
            last = next(lines, None)
            earlier = None if last is None else _decode(last[1])
            if earlier is None or earlier.inc != row.inc:
                break
            found = earlier
        conf = found.conf if self._tells_configuration(found, row.inc) and isinstance(found.conf, str) else None
        ended = row.layer == self._layer and row.kind in ("fail", "stop")
        return Past(row.n + 1, row.inc, conf, ended or conf is None)

    def _tells_configuration(self, row: Row, incarnation: int) -> bool:
        if row.inc != incarnation or row.layer != self._layer or row.conf_kind == "hidden":
            return False
        return self._layer == "evs" or row.kind == "conf"  # some rows of layer `wide` tell the local one

    def _lines_from_the_end(self, size: int) -> Iterator[tuple[int, bytes]]:
        """Yields (offset, line with its newline) from the last line backwards."""
        end = size
        tail = b""
        while end > 0:
            begin = max(0, end - _CHUNK)
            tail = os.pread(self._fd, end - begin, begin) + tail
            end = begin
            while True:
                cut = tail.rfind(b"\n", 0, len(tail) - 1) + 1
                if cut == 0 and end > 0:
                    break  # the line begins in an earlier chunk
                if not tail:
                    return
                yield end + cut, tail[cut:]
                tail = tail[:cut]


def _decode(line: bytes) -> Row | None:
    try:
        return msgspec.json.decode(line, type=Row)
    except msgspec.MsgspecError:
        return None


def write_run(
    directory: Path, cluster: str, nodes: tuple[str, ...], order: str, stack: str, quorum: dict[str, object]
) -> None:
    """Writes run.json if there is none: a run that has not ended yet."""
    run = Run(
        schema=SCHEMA, run=cluster, nodes=list(nodes), stack=stack, order=order, seed=0, settled=False,
        components=[list(nodes)], down=[], quorum=quorum,
    )  # fmt: skip
    directory.mkdir(parents=True, exist_ok=True)
    draft = directory / f".{RUN_FILE}.{os.getpid()}"
    draft.write_bytes(encode_run(run))
    try:
        os.link(draft, directory / RUN_FILE)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    for node in nodes:
        node_file(directory, node).touch()


def tell_changed(directory: Path) -> None:
    """Marks in run.json that the log's replicas or its quorum have changed, so that run.json no longer tells which
    sets were quorums. Sites that share the directory may all do so. Raises OSError."""
    try:
        run = msgspec.json.decode((directory / RUN_FILE).read_bytes(), type=Run)
    except msgspec.MsgspecError as error:
        raise OSError(f"{directory / RUN_FILE}: {error}") from None
    if is_changed(run):
        return
    run.quorum = {**run.quorum, CHANGED: True}
    draft = directory / f".{RUN_FILE}.changed.{os.getpid()}"
    draft.write_bytes(encode_run(run))
    draft.replace(directory / RUN_FILE)


def run_quorum(nodes: Collection[str], replicas: Collection[str], quorum: Mapping[str, object]) -> dict[str, object]:
    """The quorum for run.json, which is over all nodes: a node that is no replica has weight 0."""
    if quorum.get("kind") == "majority" and replicas and len(replicas) < len(nodes):
        return {"kind": "weighted", "weights": dict.fromkeys(sorted(replicas), 1)}
    full = full_spec(quorum, replicas or nodes)
    if quorum.get("kind") == "dynamic" and "weights" not in quorum and replicas and len(replicas) < len(nodes):
        return {**full, "weights": dict.fromkeys(sorted(replicas), 1)}
    return full
