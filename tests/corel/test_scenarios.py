"""Scenarios of the log that must end well, among simulated sites: figure 3.3, splits and merges, crashes of all."""

import pytest
from tests.corel.sites import MS, SECOND, Sites

from reconvene.corel.events import Green, LogEvent, Logged
from reconvene.ids import Service
from reconvene.quorum import Spec
from reconvene.sim.conditions import Conditions
from reconvene.sim.node import Node

ORDERS = ["atop", "all-ack"]
STEPS = ["log: states", "log: priority", "log: claims", "log: reds", "log: attempt", "log: commit"]


def met(names: str, **options: str) -> Sites:
    sites = Sites(names, order=options.get("order", "atop"))
    sites.run()
    assert all(sites.log(name).primary for name in names)
    return sites


# -- figure 3.3 to figure 3.4


def figure_3_3(order: str, *, reach_q: bool) -> Sites:
    """`reach_q`: 5 and 6 are at Q too, and P does not hear of it."""
    sites = met("pqr", order=order)
    cluster = sites.cluster
    sites.append("p", "1", "2")
    sites.run()
    assert [sites.queue(name) for name in "pqr"] == ["1 2 |  | "] * 3
    sites.partition("pq", "r")
    sites.append("r", "x")
    assert sites.log("p").primary == sites.log("q").primary > 0

    def cut(node: Node, events: list[LogEvent]) -> None:
        """Just before an acknowledgement leaves."""
        logged = [sites.text(node.name, event.batch) for event in events if isinstance(event, Logged)]
        if node.name == "p" and "4" in logged and not reach_q:
            cluster.cut("p", "q")
        if node.name == "q" and "5" in logged:
            cluster.cut("q", "p")

    end = cluster.on_log(cut)
    sites.append("p", "3", "4")
    sites.run(10 * MS)
    if reach_q:
        cluster.stall("q", 40 * MS)  # so that P has them in their order before Q can acknowledge any
        sites.append("p", "5", "6")
        sites.run(50 * MS)
    else:
        cluster.append("p", [b"5", b"6"])
        for _ in range(10):
            cluster.send("q", Service.AGREED, bytes(40_000))  # whole frames: P's order goes on, and Q hears nothing
            sites.run(5 * MS)
    end()
    return sites


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("reach_q", [False, True])
def test_figure_3_3_to_figure_3_4(order: str, reach_q: bool) -> None:
    """P and Q, the majority: 3 and 4 are green at P, yellow or green at Q; 5 and 6 yellow at P; x red at R. Then P is
    alone and Q meets R: they order what Q had, then x."""
    sites = figure_3_3(order, reach_q=reach_q)
    assert sites.queue("p") == "1 2 3 4 | 5 6 | "
    green, yellow, red = sites.queue("q").split(" | ")
    assert f"{green} {yellow}".split() == (["1", "2", "3", "4", "5", "6"] if reach_q else ["1", "2", "3", "4"])
    assert red == ""
    assert sites.queue("r") == "1 2 |  | x"
    sites.partition("p", "qr")
    assert sites.queue("p") == "1 2 3 4 | 5 6 | "
    rest = "5 6 x" if reach_q else "x"
    assert sites.queue("q") == sites.queue("r") == f"1 2 3 4 {rest} |  | "
    sites.judge()
    sites.heal()
    assert [sites.queue(name) for name in "pqr"] == [f"1 2 3 4 {'5 6 x' if reach_q else 'x 5 6'} |  | "] * 3
    sites.judge()


# -- travels


def test_an_author_that_is_never_in_a_majority() -> None:
    """Its messages travel with one that met it to another, and with that one to a majority; the author is dead."""
    sites = Sites("abcde")
    sites.cluster.partition(["a", "b", "c", "d", "e"])
    sites.run()
    sites.partition("de", "a", "b", "c")
    sites.append("e", "1", "2")
    sites.append("d", "3")
    sites.cluster.crash("e")
    sites.partition("cd", "a", "b", "e")
    sites.append("c", "4")
    assert sites.queue("c") == " |  | 1 2 3 4"
    sites.partition("abc", "d", "e")
    assert [sites.queue(name) for name in "abc"] == ["1 2 3 4 |  | "] * 3
    assert not any(row.kind == "establish" for row in sites.cluster.rows["e"])
    sites.judge()
    sites.cluster.restart("e")
    sites.partition("abc", "d", "e")
    assert sites.queue("e") == " |  | 1 2 3", "it knows of nothing, and keeps what it has"
    sites.partition("ae", "b", "c", "d")
    assert sites.queue("e") == "1 2 3 4 |  | ", "in a minority, too"
    sites.judge()
    sites.heal()
    sites.judge()


def test_two_sites_evenly_split() -> None:
    """Both accept, neither orders, all is ordered when they meet."""
    sites = met("ab")
    sites.append("a", "0")
    sites.partition("a", "b")
    sites.append("a", "1", "2")
    sites.append("b", "3", "4")
    assert sites.queue("a") == "0 |  | 1 2"
    assert sites.queue("b") == "0 |  | 3 4"
    assert not sites.log("a").primary
    assert not sites.log("b").primary
    sites.judge()
    sites.heal()
    assert sites.queue("a") == sites.queue("b")
    assert sites.queue("a") in ("0 1 2 3 4 |  | ", "0 3 4 1 2 |  | ")
    sites.judge()


def test_a_majority_is_lost_and_found_again_with_another_overlap() -> None:
    """Each majority shares one member with the last; every one goes on where that one left off."""
    sites = met("abcde")
    told = 0
    for majority, rest in (("abc", "de"), ("cde", "ab"), ("ade", "bc"), ("abe", "cd"), ("bcd", "ae")):
        sites.partition(*rest)
        sites.append(rest[0], f"{rest[0]}{told}")
        sites.partition(majority, rest)
        for name in (majority[0], rest[1]):
            told += 1
            sites.append(name, f"{name}{told}")
        assert all(sites.log(name).primary for name in majority)
        assert not any(sites.log(name).primary for name in rest)
        sites.judge()
    sites.heal()
    assert len(set(map(sites.queue, "abcde"))) == 1
    sites.judge()


def test_a_majority_is_lost_at_each_step_of_finding_it_again() -> None:
    """At the first sight of each step the overlap changes; nothing is undone, and nothing is lost."""
    for place, step in enumerate(STEPS):
        sites = met("abcde")
        sites.partition("abc", "de")
        sites.append("d", "x", "y")
        sites.append("a", "1")
        with sites.stop_when(step) as entered:
            sites.cluster.partition(["abd", "ce"])
            for _ in range(800):
                sites.run(MS)
                if entered:
                    break
        assert entered or step == "log: claims", step
        sites.partition("cde", "ab")
        sites.append("e", f"z{place}")
        assert sites.log("c").primary
        sites.heal()
        assert len(set(map(sites.queue, "abcde"))) == 1
        sites.judge()


# -- all crash


@pytest.mark.parametrize("step", [*STEPS, "log: primary"])
def test_all_sites_crash(step: str) -> None:
    """Also while they recover: at the first sight of each step, and again at the next recovery."""
    sites = met("abc")
    sites.append("a", "1", "2")
    sites.partition("ab", "c")
    sites.append("c", "x")
    sites.cluster.append("a", [b"3"])
    sites.run(2 * MS)
    for name in "abc":
        sites.cluster.crash(name)
    for _ in range(2):
        sites.cluster.heal()
        with sites.stop_when(step) as entered:
            for name in "abc":
                sites.cluster.restart(name)
            for _ in range(400):
                sites.run(MS)
                if entered:
                    break
        for name in "abc":
            sites.cluster.crash(name)
    for name in "abc":
        sites.cluster.restart(name)
    sites.run()
    assert len(set(map(sites.queue, "abc"))) == 1
    assert set(sites.queue("a").split()) - {"3"} == {"1", "2", "x", "|"}, "3 was perhaps not accepted yet"
    sites.judge()


# -- quorums


@pytest.mark.parametrize(
    ("quorum", "orders", "waits"),
    [
        ({"kind": "weighted", "weights": {"a": 3, "b": 1, "c": 1, "d": 1}}, "ab", "cd"),
        ({"kind": "grid", "rows": [["a", "b"], ["c", "d"]]}, "bcd", "a"),
        ({"kind": "majority"}, "abd", "c"),
    ],
    ids=lambda value: str(value["kind"]) if isinstance(value, dict) else str(value),
)
def test_only_the_right_sets_order(quorum: Spec, orders: str, waits: str) -> None:
    sites = Sites("abcd", quorum=quorum)
    sites.run()
    sites.partition(orders, waits)
    sites.append(orders[0], "1")
    sites.append(waits[0], "x")
    assert all(sites.queue(name) == "1 |  | " for name in orders)
    assert all(sites.queue(name) == " |  | x" for name in waits)
    sites.judge()
    sites.partition("ac", "bd")
    sites.append("c", "y")
    sites.append("d", "z")
    assert bool(sites.log("a").primary) is (quorum["kind"] == "weighted")
    assert not sites.log("b").primary
    sites.heal()
    assert len(set(map(sites.queue, "abcd"))) == 1
    sites.judge()


# -- rounds


@pytest.mark.parametrize(("order", "ways"), [("atop", 2), ("all-ack", 3)])
def test_two_communication_rounds(order: str, ways: int) -> None:
    """Every way is 100 ms long, and disks are quick: in a quiet component a message is logged everywhere after one
    round, and green everywhere after another one. By ATOP each is one way long; all-ack's first is two, since it
    hears from every member before it delivers."""
    way = 100 * MS
    sites = Sites("abc", order=order, conditions=Conditions(latency_ns=way))
    sites.run(8 * SECOND)
    start = [0]
    logged: list[float] = []
    green: list[float] = []

    def look(node: Node, events: list[LogEvent]) -> None:
        for event in events:
            if isinstance(event, Logged | Green):
                (green if isinstance(event, Green) else logged).append((sites.cluster.now - start[0]) / way)

    sites.cluster.on_log(look)
    for turn in range(10):
        logged.clear()
        green.clear()
        start[0] = sites.cluster.now
        sites.cluster.append("abc"[turn % 3], [str(turn).encode()])
        sites.run(SECOND)
        assert len(logged) == len(green) == 3
        print(f"{order}: logged by all after {max(logged):.2f} ways, green at all after {max(green):.2f}")
        assert ways - 1 <= max(logged) < ways - 0.9
        assert ways <= max(green) < ways + 0.1
    sites.judge()
