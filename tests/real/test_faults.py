"""Faults in real sites on loopback, under load. Every trace is verified, and the clients check what they read."""

import time
from itertools import islice
from pathlib import Path

import pytest
from tests.real.arena import BUSY_S, Arena, End, arena

from reconvene import Message, blocking
from reconvene.lab.ledger.group import stream_name
from reconvene.lab.load.group_clients import Written
from reconvene.lab.soak.faults import cut, leave
from reconvene.local import LocalCluster
from reconvene.trace.events import Row
from reconvene.trace.reader import read_rows

FLOOD = 20_000
"""More messages than may be in flight at once."""
SUSPECTED_S = 0.63
"""In a configuration of three, a member that is silent for so long is suspected."""


@pytest.mark.long("a real cluster for ten seconds and more")
def test_killed_and_restarted_at_random() -> None:
    with arena(11) as it:
        faults = it.campaign(6, ("kill", "restart")).faults
        end = it.finish()
        assert faults["kill"] >= 2
        assert faults["restart"] == faults["kill"]
        assert end.counts.failures == faults["kill"]
        assert end.counts.configurations > 2 * faults["kill"]
        assert sum(reading.rejoined for reading in end.clients.readings) >= faults["kill"]


@pytest.mark.long("a real cluster for ten seconds and more")
def test_stopped_for_longer_than_suspicion() -> None:
    with arena(21) as it:
        for name, others in (("b", ["a", "c"]), ("a", ["b", "c"])):
            it.cluster.pause(name)
            it.together([others])
            it.pass_by(3 * SUSPECTED_S)
            it.cluster.resume(name)
            it.together([it.cluster.names])
            it.pass_by(0.5)
        end = it.finish()
        assert end.counts.failures == 0
        assert end.counts.configurations >= 2 * 2 + 1
        blocked = {reading.reader for reading in end.clients.readings if reading.blocked}
        assert {"client 0", "client 1"} <= blocked, "who slept learns that it was not in the primary component"


@pytest.mark.long("a run of the soak, which is in make test, parts real sites too")
def test_partitions_and_heals() -> None:
    with arena(31, nodes=5) as it:
        cluster = it.cluster
        cluster.partition([["a", "b"], ["c", "d", "e"]])
        it.together()
        health = {name: status["health"] for name, status in cluster.statuses().items()}
        assert health == {"a": "minority", "b": "minority", "c": "primary", "d": "primary", "e": "primary"}
        it.pass_by(1)
        cluster.heal()
        it.together()
        it.pass_by(0.5)

        cluster.partition([["a", "e"], ["b", "d"], ["c"]])
        it.together()
        assert {status["health"] for status in cluster.statuses().values()} == {"minority"}
        it.pass_by(1)
        # From one partition directly into another: parts of both sides merge.
        cluster.partition([["a", "b", "c"], ["d", "e"]])
        it.together()
        it.pass_by(0.5)
        cluster.heal()
        end = it.finish()
        assert end.counts.failures == 0
        assert end.counts.configurations >= 1 + 2 + 1 + 3 + 2 + 1
        assert all(reading.blocked for reading in end.clients.readings if reading.group == "prime")


@pytest.mark.long("a real cluster for ten seconds and more")
def test_one_way_cuts() -> None:
    with arena(41) as it:
        cluster = it.cluster
        cut(cluster, "a", incoming=["b", "c"])  # the others hear a, and a hears nothing
        it.together([["a"], ["b", "c"]])
        it.pass_by(1)
        cluster.heal()
        it.together([cluster.names])
        cut(cluster, "b", outgoing=["a"])  # a and b are disconnected; c is connected to both
        _wait_until_apart(it, "a", "b")
        it.pass_by(1)
        cluster.heal()
        end = it.finish()
        assert end.counts.failures == 0
        assert end.counts.configurations >= 5


@pytest.mark.long("a real cluster for ten seconds and more")
def test_clean_leaves() -> None:
    with arena(51) as it:
        cluster = it.cluster
        it.pass_by(1.5)
        took_s = leave(cluster, "c")
        print(f"left in {took_s * 1e3:.0f} ms")
        it.together([["a", "b"]])
        _check_left_at_once(cluster.trace_dir)
        cluster.restart("c")
        it.together([cluster.names])
        _leave_while_a_configuration_changes(cluster)
        cluster.restart("b", "c")
        end = it.finish()
        assert (end.counts.failures, end.counts.leaves) == (1, 2)
        assert _check_accepted_was_heard(end, client=2, stream=0, readers=("client 0", "client 1")) > 0


def _leave_while_a_configuration_changes(cluster: LocalCluster) -> None:
    with (
        blocking.connect(cluster.addresses["a"]) as reading,
        blocking.connect(cluster.addresses["c"]) as writing,
    ):
        reader, writer = reading.join("flood"), writing.join("flood")
        # No site knows yet that b has left: most of these messages wait for the next configuration.
        cluster.crash("b")
        count = writer.send_many(b"%-500d" % number for number in range(FLOOD))
        leave(cluster, "c")
        came = (int(event.data) for event in reader.events(timeout=3) if isinstance(event, Message))
        assert list(islice(came, count)) == list(range(count))


@pytest.mark.long("a real cluster for ten seconds and more")
def test_everything() -> None:
    kinds = ("kill", "term", "pause", "partition", "one-way", "restart", "resume", "heal")
    with arena(61, nodes=5, rate=500.0) as it:
        faults = it.campaign(12, kinds)
        end = it.finish()
        assert faults.faults.total() >= 12
        assert end.counts.failures == faults.faults["kill"]
        assert end.counts.leaves == faults.faults["term"]
        assert end.counts.configurations >= 5


# -- checks


def _wait_until_apart(it: Arena, one: str, other: str) -> None:
    """All three sites agree on configurations that do not have both of these."""
    deadline = time.monotonic() + BUSY_S
    while True:
        statuses = it.cluster.statuses()
        members = {name: status["members"] for name, status in statuses.items() if status["health"] != "forming"}
        if len(members) == 3 and all(
            not {one, other} <= set(found) and all(members[member] == found for member in found)
            for found in members.values()
        ):
            return
        assert time.monotonic() < deadline, f"{members}"
        time.sleep(0.05)


def _check_left_at_once(trace: Path) -> None:
    """The others have a configuration without the site that left, long before they would have suspected it."""
    (stop,) = [row for row in read_rows(trace, "c") if (row.layer, row.kind) == ("evs", "stop")]
    for name in ("a", "b"):
        first = next(row for row in read_rows(trace, name) if _is_without_c(row))
        after_s = (first.t - stop.t) / 1e9
        print(f"{name} was in {first.conf} {after_s * 1e3:+.0f} ms after c had ended")
        assert after_s < SUSPECTED_S / 2


def _is_without_c(row: Row) -> bool:
    return row.kind == "conf" and row.conf_kind == "regular" and row.members == ["a", "b"]


def _check_accepted_was_heard(end: End, client: int, stream: int, readers: tuple[str, ...]) -> int:
    """The readers received everything of the stream that the client's site accepted. Returns how much that was."""
    checked = 0
    for written in end.clients.written:
        if written.client == client:
            for reader in readers:
                checked += _heard(end, written, stream, reader)
    return checked


def _heard(end: End, written: Written, number: int, reader: str) -> int:
    (reading,) = [
        reading for reading in end.clients.readings if (reading.reader, reading.group) == (reader, written.group)
    ]
    (stream,) = [stream for stream in written.streams if stream.number == number]
    for fifo in (False, True):
        heard = reading.heard.get(stream_name(written.client, number, fifo), 0)
        assert heard >= stream.accepted[fifo], f"{reader} in {written.group}: {heard} of {stream.accepted[fifo]}"
    return sum(stream.accepted)
