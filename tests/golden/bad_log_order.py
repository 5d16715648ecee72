"""Runs that break the log's service guarantees (3.1, 3.2, 3.6, 3.7, 3.8), and Agreed Green."""

from tests.golden.broken import broken
from tests.golden.dsl import Story
from tests.golden.log_dsl import LogStory
from tests.golden.log_good import (
    dynamic,
    figures,
    grid,
    restarts,
    sent_again,
    snapshots,
    stable,
    travels,
    weighted,
    yellow_goes_back,
)

from reconvene.trace.events import Row


def _without(s: LogStory, label: str, *kinds: str, nodes: str = "") -> LogStory:
    """The story without these events of a message."""
    for node in nodes or s.rows:
        s.rows[node] = [row for row in s.rows[node] if row.msg != s.ids[label] or row.kind not in kinds]
    return s


def _taken(s: LogStory, node: str) -> Row:
    """The node's snapshot."""
    return next(row for row in s.rows[node] if row.kind == "snapshot")


# -- 3.1


@broken("corel.3.1", "nobody-accepted-it")
def _() -> Story:
    return _without(stable(), "c", "accept")


@broken("corel.3.1", "logged-before-it-was-accepted", also=["corel.3.7", "corel.causal"])
def _() -> Story:
    s = stable()
    s.before("r", s.find("r", "log", "c"), s.find("r", "accept", "c"))
    return s


@broken("corel.3.1", "green-is-made-up")
def _() -> Story:
    s = stable()
    s.ids["ghost"] = "q:1:99"
    s.log("pqr", "ghost")
    s.yellow("pqr", "ghost")
    s.green("pqr", "ghost")
    return s


@broken("corel.3.1", "red-and-never-accepted")
def _() -> Story:
    s = travels()
    return _without(s, "alone", "accept")


@broken("corel.3.1", "a-snapshot-of-what-nobody-ordered")
def _() -> Story:
    s = _without(snapshots(), "f", "accept", "log", "yellow", "green")
    taken = _taken(s, "r")
    s.rows["r"] = s.rows["r"][: s.rows["r"].index(taken) + 1]
    taken.pos = 40
    s.settled = False
    return s


# -- 3.2


@broken("corel.3.2", "logged-twice")
def _() -> Story:
    s = stable()
    s.log("q", "c")
    return s


@broken("corel.3.2", "logged-again-after-a-restart")
def _() -> Story:
    s = restarts()
    rows = s.rows["q"]
    again = s.find("q", "log", "a")
    place = next(i for i, row in enumerate(rows) if row.inc == 2 and row.kind == "accept")
    s.inc["q"] = 2
    rows.insert(place, s.tell("q", "log", msg=again.msg, ts=again.ts))
    del rows[-1]
    return s


@broken("corel.3.2", "logged-again-under-another-timestamp")
def _() -> Story:
    s = sent_again()
    s.log("r", "a", again=True)
    return s


@broken("corel.3.2", "green-twice", also=["corel.3.6", "corel.agreed"])
def _() -> Story:
    s = stable()
    for node in "pqr":
        s.tell(node, "green", msg=s.ids["a"], pos=5)
    return s


@broken("corel.3.2", "green-again-after-a-snapshot", also=["corel.3.6", "corel.agreed"])
def _() -> Story:
    s = snapshots()
    s.log("r", "c")
    s.tell("r", "green", msg=s.ids["c"], pos=6)
    return s


@broken("corel.3.2", "accepted-twice")
def _() -> Story:
    s = stable()
    s.tell("p", "accept", msg=s.ids["a"])
    return s


@broken("corel.3.2", "accepted-by-two")
def _() -> Story:
    s = stable()
    s.tell("q", "accept", msg=s.ids["a"])
    return s


# -- 3.6, Agreed Green


def _swap_green(s: LogStory, node: str, one: str, other: str) -> LogStory:
    """The node swaps the positions of two messages; its own positions still grow."""
    first, second = s.find(node, "green", one), s.find(node, "green", other)
    first.msg, second.msg = second.msg, first.msg
    return s


@broken("corel.3.6", "two-orders", also=["corel.agreed"])
def _() -> Story:
    s = LogStory("two-orders", "pqr")
    s.begin("pqr", "10")
    s.accept("p", "a")
    s.accept("q", "b")
    s.log("pqr", "a", "b")
    s.primary(1, "pqr", "a", "b")
    return _swap_green(s, "r", "a", "b")


@broken("corel.3.6", "one-left-out", also=["corel.3.7", "corel.3.8", "corel.green"])
def _() -> Story:
    s = stable()
    s.drop("q", "green", "b")
    return s


@broken(
    "corel.3.6",
    "two-primaries-order-by-themselves",
    also=["corel.agreed", "corel.phases", "corel.yellow", "evs.primary.continuity"],
)
def _() -> Story:
    s = LogStory("two-primaries", "pqrs")
    s.begin("pqrs", "10")
    s.join("20", "pq")
    s.join("21", "rs")
    s.primary(1, "pq")
    s.primary(2, "rs")
    s.append("p", "pq", "a")
    s.append("r", "rs", "b")
    s.components = [["p", "q"], ["r", "s"]]
    return s


@broken(
    "corel.3.6", "after-a-snapshot-in-another-order", also=["corel.3.1", "corel.3.7", "corel.agreed", "corel.green"]
)
def _() -> Story:
    return _swap_green(snapshots(), "r", "e", "f")


@broken("corel.agreed", "another-message-at-one-position", also=["corel.3.6", "corel.3.8", "corel.green"])
def _() -> Story:
    s = LogStory("another", "pqr")
    s.begin("pqr", "10")
    s.accept("p", "a")
    s.accept("q", "b")
    s.log("pqr", "a", "b")
    s.primary(1, "pqr", "a")
    s.yellow("pqr", "b")
    s.green("pq", "b")
    s.find("r", "green", "a").msg = s.ids["b"]
    return s


@broken("corel.agreed", "yellow-forgotten-in-a-restart", also=["corel.3.6", "corel.3.7", "corel.3.8"])
def _() -> Story:
    """q restarts without b, which was green at p; with r it orders c in its place."""
    s = LogStory("forgotten", "pqr")
    s.begin("pqr", "10")
    s.primary(1, "pqr")
    s.append("p", "pqr", "a")
    s.accept("p", "b")
    s.log("pqr", "b")
    s.yellow("pqr", "b")
    s.green("p", "b")
    s.fail("q")
    s.fail("r")
    s.leave("p", "20", "p")
    s.enter("p", "20", "p")
    s.start("q", "25")
    s.start("r", "26")
    s.join("30", "qr")
    s.accept("q", "c")
    s.log("qr", "c")
    s.primary(2, "qr", "c")
    s.components = [["p"], ["q", "r"]]
    return s


@broken("corel.agreed", "one-message-at-two-positions", also=["corel.3.6", "corel.3.8", "corel.yellow"])
def _() -> Story:
    s = snapshots()
    _taken(s, "r").pos = 3
    s.find("r", "green", "e").pos = 3
    s.find("r", "green", "f").pos = 4
    return s


@broken("corel.agreed", "the-second-primary-began-anew", also=["corel.3.6", "corel.yellow"])
def _() -> Story:
    s = figures()
    for label in ("3", "4"):
        for node in "qr":
            s.rows[node] = [row for row in s.rows[node] if row.msg != s.ids[label]]
    s.find("q", "green", "x").pos = s.find("r", "green", "x").pos = 2
    return s


# -- 3.7


@broken("corel.3.7", "its-author-s-later-one-first", also=["corel.yellow"])
def _() -> Story:
    s = stable()
    for node in "pqr":
        _swap_green(s, node, "c", "d")
    return s


@broken("corel.3.7", "what-its-author-had-comes-after-it")
def _() -> Story:
    s = LogStory("after-it", "pqr")
    s.begin("pqr", "10")
    s.accept("p", "a")
    s.log("pqr", "a")
    s.accept("q", "b")
    s.log("pqr", "b")
    s.primary(1, "pqr", "b", "a")
    return s


@broken("corel.3.7", "the-answer-before-the-question", also=["corel.yellow"])
def _() -> Story:
    s = travels()
    for node in "pqrs":
        _swap_green(s, node, "a", "b")
    return s


@broken("corel.3.7", "what-it-answers-is-never-green", also=["corel.3.8", "corel.yellow"])
def _() -> Story:
    s = travels()
    _without(s, "a", "green")
    for node in "pqrs":
        s.find(node, "green", "b").pos = 1
    return s


# -- 3.8


@broken("corel.3.8", "one-is-red-at-the-end")
def _() -> Story:
    s = stable()
    s.accept("q", "late")
    s.log("pqr", "late")
    return s


@broken("corel.3.8", "accepted-and-forgotten")
def _() -> Story:
    s = stable()
    s.accept("q", "late")
    return s


@broken("corel.3.8", "one-member-does-not-go-on")
def _() -> Story:
    s = restarts()
    return _without(s, "d", "green", nodes="q")


@broken("corel.3.8", "no-primary-though-there-is-a-majority")
def _() -> Story:
    s = LogStory("no-primary", "pqr")
    s.begin("pqr", "10")
    s.accept("p", "a")
    s.log("pqr", "a")
    s.phase("pqr", "attempt", 1, "pqr")
    return s


@broken("corel.3.8", "weights-make-a-quorum-of-one")
def _() -> Story:
    return _without(weighted(), "b", "green", "yellow")


@broken("corel.3.8", "a-row-and-one-of-the-other")
def _() -> Story:
    return _without(grid(), "b", "green", "yellow")


@broken("corel.3.8", "two-that-went-on-by-themselves", also=["corel.yellow"])
def _() -> Story:
    return _without(dynamic(), "b", "green", "yellow", nodes="q")


@broken("corel.3.8", "what-came-back-to-red-stays-red")
def _() -> Story:
    return _without(yellow_goes_back(), "y", "green")
