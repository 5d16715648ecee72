"""Which sites are connected, and what run.json says of a trace."""

import os
import time
from pathlib import Path

import pytest

from reconvene.errors import Rejected
from reconvene.local.traces import copy_prefixes, is_quiet, sizes, write_run
from reconvene.runtime.net.partition import Partition, check_components
from reconvene.trace.reader import read_trace
from reconvene.trace.writer import node_file, stopped_file

NAMES = ("a", "b", "c", "d", "e")


def test_a_site_in_no_list_is_alone() -> None:
    assert check_components([["c", "b"], ["a"]], NAMES) == (("a",), ("b", "c"), ("d",), ("e",))
    assert check_components([], ("a", "b")) == (("a",), ("b",))
    with pytest.raises(Rejected, match="there is no site 'x'; expected some of a, b"):
        check_components([["x"]], NAMES)
    with pytest.raises(Rejected, match="site a is named twice"):
        check_components([["a", "b"], ["c", "a"]], NAMES)


def test_whom_each_drops() -> None:
    whole = Partition()
    assert whole.blocked("a", NAMES) == ()
    assert whole.connected("cab") == [["a", "b", "c"]]
    assert whole.connected("") == []
    parted = Partition(components=(("a", "b"), ("c", "d", "e")))
    assert parted.blocked("b", NAMES) == ("c", "d", "e")
    assert parted.blocked("e", NAMES) == ("a", "b")
    assert parted.connected("bdc") == [["b"], ["c", "d"]]


def test_saved_with_its_time(tmp_path: Path) -> None:
    path = tmp_path / "faults.json"
    assert Partition.load(path) == Partition()
    Partition(components=(("a",), ("b",))).save(path)
    loaded = Partition.load(path)
    assert loaded.components == (("a",), ("b",))
    assert abs(loaded.changed_at - time.time()) < 10


def _write(directory: Path) -> None:
    write_run(directory, run="r", nodes=("a", "b"), order="atop", settled=False, components=[["a", "b"]], down=["b"])


def test_a_trace_can_be_read_before_anyone_has_started(tmp_path: Path) -> None:
    _write(tmp_path)
    trace = read_trace(tmp_path)
    assert trace.run.down == ["b"]
    assert not trace.run.settled
    assert trace.run.quorum == {"kind": "majority"}
    assert trace.rows == {"a": [], "b": []}


def test_quiet(tmp_path: Path) -> None:
    _write(tmp_path)
    names = ("a", "b")
    assert not is_quiet(tmp_path, names, 0.0)
    for name in names:
        os.utime(node_file(tmp_path, name), (time.time() - 5, time.time() - 5))
    assert is_quiet(tmp_path, names, 0.0)
    assert not is_quiet(tmp_path, names, 0.0, quiet_s=8.0)
    assert not is_quiet(tmp_path, names, time.time() - 1)
    stopped_file(tmp_path, "a").touch()
    assert not is_quiet(tmp_path, names, 0.0)


def test_a_copy_is_cut_where_it_is_told(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    _write(old)
    node_file(old, "a").write_bytes(b"one\n")
    cut = sizes(old, ("a", "b"))
    node_file(old, "a").write_bytes(b"one\ntwo\n")
    copy_prefixes(old, new, cut)
    assert node_file(new, "a").read_bytes() == b"one\n"
    assert (new / "run.json").read_bytes() == (old / "run.json").read_bytes()
    with pytest.raises(Rejected, match="is not empty"):
        copy_prefixes(old, new, cut)
