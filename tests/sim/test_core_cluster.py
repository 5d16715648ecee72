"""The core of a cluster, as tests of the protocols have it."""

import doctest
from collections.abc import Callable
from random import Random

import pytest
from tests.sim import core_cluster
from tests.sim.core_cluster import SimCluster
from tests.sim.core_service import Configuration, Handle, Message

from reconvene.testing import TimedOut, Violated


class Tally:
    """A replicated counter: every node adds up the same numbers in the same order."""

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        self.total = 0
        self.seen: list[str] = []
        self.members: tuple[str, ...] = ()

    def add(self, number: int) -> None:
        self.handle.send(str(number).encode(), service="safe")

    def on_message(self, message: Message) -> None:
        self.total += int(message.payload)
        self.seen.append(message.id)

    def on_configuration(self, configuration: Configuration) -> None:
        if configuration.kind == "regular":
            self.members = configuration.members


def test_the_example_in_the_docstring() -> None:
    assert doctest.testmod(core_cluster).failed == 0


def test_a_service(sim_cluster: Callable[..., SimCluster]) -> None:
    tallies = sim_cluster(3, seed=4, service=Tally)
    tallies.wait_together()
    for node in tallies.nodes:
        tallies.service(node).add(5)
    tallies.run_until(lambda: all(tallies.service(node).total == 15 for node in tallies.nodes))
    assert len({tuple(tallies.service(node).seen) for node in tallies.nodes}) == 1
    assert tallies.service("b").members == ("a", "b", "c")


def test_a_service_begins_anew_after_a_crash(sim_cluster: Callable[..., SimCluster]) -> None:
    tallies = sim_cluster(["x", "y"], service=Tally)
    tallies.wait_together()
    first = tallies.service("x")
    first.add(1)
    tallies.run_until(lambda: first.total == 1)
    tallies.crash("x")
    first.add(1)
    tallies.run_for("1s")
    tallies.restart("x")
    tallies.wait_together()
    assert tallies.service("x") is not first
    assert tallies.service("x").total == 0
    assert tallies.service("y").total == 1, "a handle of an earlier life says nothing"


def test_a_service_that_answers_itself_does_not_stop_time(sim_cluster: Callable[..., SimCluster]) -> None:
    class Chatter:
        def __init__(self, handle: Handle) -> None:
            self.handle = handle
            self.heard = 0

        def on_message(self, message: Message) -> None:
            self.heard += 1
            self.handle.send(message.payload)

    alone = sim_cluster(1, service=Chatter)
    alone.send("a", b"again")
    alone.run_for("10ms")
    assert 10 < alone.service("a").heard <= 1001


def test_faults(sim_cluster: Callable[..., SimCluster]) -> None:
    four = sim_cluster(4, seed=2)
    four.wait_together()
    four.partition(["a", "b"], ["c", "d"])
    four.wait_together("a", "b")
    four.wait_together("c", "d")
    four.send("a", b"left", service="safe")
    four.run_until(lambda: len(four.deliveries("b")) == 1)
    assert four.deliveries("c") == []
    four.heal()
    four.wait_together()
    four.pause("d")
    four.wait_together("a", "b", "c")
    four.resume("d")
    four.cut("a", "b")
    four.run_until(lambda: not four.together())
    four.mend("a", "b")
    four.network(loss=0.1, latency="5ms")
    four.crash("c")
    four.settle("5s")
    assert four.together()
    assert four.verify().check("live.membership").cases > 0
    kinds = {item.kind for item in four.configurations("a")}
    assert {"regular", "transitional"} <= kinds


def test_large_messages_come_whole(sim_cluster: Callable[..., SimCluster]) -> None:
    payloads = [Random(size).randbytes(size) for size in (0, 1, 9_000, 70_000, 200_000)]
    three = sim_cluster(3, seed=8, loss=0.05)
    three.wait_together()
    for place, payload in enumerate(payloads):
        three.send(three.nodes[place % 3], payload, service=["fifo", "safe", "agreed"][place % 3])
    three.run_for("20ms")
    three.partition(["a", "b"], ["c"])
    three.run_for("2s")
    three.settle()
    for node in three.nodes:
        delivered = [message.payload for message in three.deliveries(node)]
        assert sorted(delivered) == sorted(set(delivered) & set(payloads)), "whole, and once"


def test_waiting_has_an_end(sim_cluster: Callable[..., SimCluster]) -> None:
    two = sim_cluster(2, seed=9)
    with pytest.raises(TimedOut, match=r"not within 2s; seed 9.*a: a b"):
        two.run_until(lambda: False, timeout=2)


def test_what_cannot_be_done_is_said(sim_cluster: Callable[..., SimCluster]) -> None:
    two = sim_cluster(2)
    with pytest.raises(ValueError, match="a is up"):
        two.restart("a")
    with pytest.raises(ValueError, match="not paused"):
        two.resume("a")
    two.crash("a")
    with pytest.raises(ValueError, match="a is down"):
        two.send("a", b"")
    assert not two.together()


def test_the_same_seed_gives_the_same_history() -> None:
    def play(seed: int) -> list[object]:
        three = SimCluster(3, seed=seed, loss=0.2)
        for node in three.nodes:
            three.send(node, node.encode())
        three.run_for("3s")
        return [list(rows) for rows in three.sim.rows.values()]

    assert play(1) == play(1)
    assert play(1) != play(2)


def test_a_broken_history_is_found_out(sim_cluster: Callable[..., SimCluster]) -> None:
    two = sim_cluster(2, verify=False)
    two.wait_together()
    two.send("a", b"x")
    two.send("a", b"y")
    two.settle("1s")
    rows = two.sim.rows["b"]
    rows[-1].msg, rows[-2].msg = rows[-2].msg, rows[-1].msg
    with pytest.raises(Violated, match=r"test-0: .*evs"):
        two.verify()
