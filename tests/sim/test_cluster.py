"""Simulated processes: pauses, crashes, clocks, backpressure. The core is a stand-in that promises nothing."""

from typing import Any

import pytest

from reconvene.core.effects import Event
from reconvene.core.options import Limits, Options
from reconvene.errors import Rejected
from reconvene.ids import Service
from reconvene.sim.cluster import Cluster
from reconvene.sim.conditions import Conditions
from reconvene.sim.core import Core
from reconvene.sim.node import Node

MS = 1_000_000


def make(core: Core, names: str = "ab", **keywords: Any) -> Cluster:
    cluster = Cluster(names, core=core, conditions=Conditions(latency_ns=MS, jitter_ns=0), **keywords)
    cluster.start()
    return cluster


def fake(cluster: Cluster, name: str) -> Any:
    return cluster.node(name).site


def kinds(cluster: Cluster, name: str) -> list[str]:
    return [row.kind for row in cluster.rows[name]]


def test_what_is_sent_arrives_and_is_recorded(fake_core: Core) -> None:
    cluster = make(fake_core)
    cluster.node("a").hand_over(Service.AGREED, [b"hello"])
    cluster.run_for(2 * MS)
    assert fake(cluster, "b").heard == [(MS, b"hello")]
    assert kinds(cluster, "a") == ["conf", "send", "deliver"]
    assert kinds(cluster, "b") == ["conf"]


def test_timers_are_never_early(fake_core: Core) -> None:
    cluster = make(fake_core)
    cluster.run_for(1000 * MS)
    assert fake(cluster, "a").ticks == [100 * MS * tick for tick in range(1, 11)]


def test_a_crash_loses_everything_but_what_was_synced(fake_core: Core) -> None:
    cluster = make(fake_core)
    node = cluster.node("a")
    node.hand_over(Service.SAFE, [b"one"])
    cluster.run_for(5 * MS)
    node.hand_over(Service.SAFE, [b"two"])
    cluster.crash("a")
    assert node.disk.get(b"last") == b"one"
    assert not node.up
    cluster.run_for(500 * MS)
    cluster.restart("a")
    cluster.run_for(5 * MS)
    assert fake(cluster, "a").incarnation == 2
    assert fake(cluster, "a").tokens == []
    rows = cluster.rows["a"]
    assert [(row.kind, row.inc) for row in rows if row.kind in ("conf", "fail")] == [
        ("conf", 1),
        ("fail", 1),
        ("conf", 2),
    ]
    assert [row.n for row in rows] == list(range(len(rows)))


def test_datagrams_to_a_node_that_is_down_are_gone(fake_core: Core) -> None:
    cluster = make(fake_core)
    cluster.crash("b")
    cluster.node("a").hand_over(Service.FIFO, [b"x"])
    cluster.run_for(2 * MS)
    cluster.restart("b")
    cluster.run_for(50 * MS)
    assert fake(cluster, "b").heard == []


def test_a_paused_node_loses_nothing(fake_core: Core) -> None:
    cluster = make(fake_core)
    cluster.node("b").hand_over(Service.FIFO, [b"mine"])
    cluster.pause("b")
    cluster.node("a").hand_over(Service.FIFO, [b"x", b"y"])
    cluster.send("b", Service.FIFO, b"later")
    cluster.run_for(350 * MS)
    site = fake(cluster, "b")
    assert (site.heard, site.ticks, site.tokens) == ([], [], [])
    cluster.resume("b")
    heard = [data for _, data in site.heard]
    assert heard == [b"x", b"y", b"beacon 0", b"beacon 0", b"beacon 0"]
    assert {at for at, _ in site.heard} == {350 * MS}
    assert site.ticks == [350 * MS], "late, and once"
    assert site.tokens == [1], "the disk went on while the process stood still"
    assert kinds(cluster, "b").count("send") == 2


def test_the_receive_buffer_of_a_paused_node_is_bounded(fake_core: Core) -> None:
    cluster = make(fake_core)
    cluster.pause("b")
    cluster.node("a").hand_over(Service.FIFO, [bytes(1400)] * 200)
    cluster.run_for(20 * MS)
    cluster.resume("b")
    assert len(fake(cluster, "b").heard) == 92, "as a kernel's buffer of 212,992 bytes would hold"
    assert cluster.node("b").overflow == 108


def test_a_paused_node_that_crashes_forgets_what_waited(fake_core: Core) -> None:
    cluster = make(fake_core)
    cluster.pause("b")
    cluster.node("a").hand_over(Service.FIFO, [b"x"])
    cluster.run_for(10 * MS)
    cluster.crash("b")
    cluster.restart("b")
    cluster.run_for(10 * MS)
    assert not cluster.node("b").paused
    assert fake(cluster, "b").heard == []


def test_what_has_no_room_waits_and_goes_in_later(fake_core: Core) -> None:
    cluster = make(fake_core, options=Options(limits=Limits(queue_messages=10)))
    cluster.node("a").hand_over(Service.FIFO, [b"%d" % number for number in range(35)])
    assert cluster.node("a").waiting == 25
    cluster.run_for(10 * MS)
    assert cluster.node("a").waiting == 0
    assert [data for _, data in fake(cluster, "b").heard] == [b"%d" % number for number in range(35)]


def test_what_has_no_room_is_lost_at_a_crash(fake_core: Core) -> None:
    cluster = make(fake_core, options=Options(limits=Limits(queue_messages=10)))
    cluster.node("a").hand_over(Service.FIFO, [b"x"] * 35)
    cluster.crash("a")
    cluster.restart("a")
    cluster.run_for(10 * MS)
    assert kinds(cluster, "a").count("send") == 10


def test_a_message_too_large_is_rejected(fake_core: Core) -> None:
    cluster = make(fake_core, options=Options(limits=Limits(message_bytes=10)))
    with pytest.raises(Rejected, match="11 bytes"):
        cluster.send("a", Service.FIFO, bytes(11))


def test_a_clock_that_jumps(fake_core: Core) -> None:
    cluster = make(fake_core)
    cluster.run_for(50 * MS)
    cluster.jump("a", 1000 * MS)
    cluster.run_for(MS)
    assert fake(cluster, "a").ticks == [1050 * MS]
    cluster.run_for(100 * MS)
    assert fake(cluster, "a").ticks == [1050 * MS, 1150 * MS]
    assert fake(cluster, "b").ticks == [100 * MS]


def test_a_doomed_node_dies_amid_its_sending(fake_core: Core) -> None:
    cluster = make(fake_core, names="abc")
    cluster.doom("a", 1)
    cluster.run_for(1 * MS)
    assert cluster.node("a").up
    cluster.node("a").hand_over(Service.FIFO, [b"x"])
    assert not cluster.node("a").up
    cluster.run_for(5 * MS)
    assert [data for _, data in fake(cluster, "b").heard] == [b"x"]
    assert fake(cluster, "c").heard == []
    assert kinds(cluster, "a") == ["conf", "send", "deliver", "fail"]


def test_an_observer_may_crash_a_node_before_its_datagrams_leave(fake_core: Core) -> None:
    cluster = make(fake_core)

    def observe(node: Node, events: list[Event]) -> None:
        cluster.crash(node.name)

    cluster.on_events(observe)
    cluster.node("a").hand_over(Service.FIFO, [b"x"])
    cluster.run_for(5 * MS)
    assert fake(cluster, "b").heard == []
    assert kinds(cluster, "a")[-1] == "fail"


def test_steps_are_told_and_faults_are_counted_by_step(fake_core: Core) -> None:
    cluster = make(fake_core)
    told: list[tuple[str, str, str]] = []
    cluster.on_step(lambda node, before, now: told.append((node.name, before, now)))
    fake(cluster, "a").step = "gathering"
    cluster.run_for(100 * MS)
    assert told == [("a", "operational", "gathering")]
    cluster.crash("a")
    cluster.cut("a", "b")
    assert cluster.coverage == {("gathering", "crash"): 1, ("operational", "cut"): 1}
    assert cluster.faults == 2


def test_invariants_are_checked(fake_core: Core) -> None:
    cluster = make(fake_core, check_every=2)
    cluster.run_for(1000 * MS)
    assert fake(cluster, "a").checked + fake(cluster, "b").checked >= 10


def test_a_site_that_never_gets_beyond_its_deadline_is_found_out(fake_core: Core) -> None:
    cluster = make(fake_core)
    site = fake(cluster, "a")
    site.deadline = lambda: 50 * MS
    with pytest.raises(AssertionError, match="again and again"):
        cluster.run_for(1000 * MS)
