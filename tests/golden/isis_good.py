"""Runs of process groups in the manner of ISIS that keep every promise."""

from collections.abc import Callable

from tests.golden.isis_dsl import Isis, trio


def bank() -> Isis:
    """A cast of each kind, replies, flush, a new rank, and a newcomer that is given the group's state."""
    s = trio("isis-bank")
    s.cb("p1", "a")
    s.get("p1 q1", "a")
    s.cb("q1", "b")
    s.get("q1", "b")
    s.get("r1", "a", "b")
    s.get("p1", "b")
    s.flush("q1", "b")
    s.ab("p1", "c", label="queue", replies=-1)
    s.ab("r1", "d", label="queue")
    s.get("p1 q1 r1", "c", "d")
    s.answer("p1", "c", "q1 p1 r1")
    s.gb("q1", "e")
    s.get("p1 q1 r1", "e")
    s.show("r1 p1 q1")
    s.begin("q2")
    s.join_group("q2")
    s.cb("p1", "f")
    s.get("q2 p1 q1 r1", "f")
    s.state("q2")
    s.cb("q2", "g")
    s.get("p1 q1 q2 r1", "g")
    s.flush("p1", "f")
    s.flush("r1", "d")
    s.flush("q1")
    return s


def topics() -> Isis:
    """Labels that can't be compared do not wait for each other; ABCASTs of two labels come in any order; a chain of
    causes leads through a process outside of the group."""
    s = trio("isis-topics")
    s.begin("q2")
    s.cb("p1", "x", label="x")
    s.cb("p1", "y", label="y")
    s.get("p1", "x", "y")
    s.get("q1", "y", "x")
    s.get("r1", "x", "y")
    s.cb("p1", "low", label={"x": 1})
    s.cb("p1", "both", label={"x": 50, "y": 50})
    s.cb("p1", "none", label={})
    s.get("p1 q1 r1", "low", "none", "both")
    s.ab("p1", "one", label="one")
    s.ab("q1", "two", label="two")
    s.get("p1 q1", "one", "two")
    s.get("r1", "two", "one")
    s.cb("p1", "question", to="q2")
    s.get("q2", "question")
    s.cb("q2", "answer", to="r1")
    s.get("r1", "answer")
    return s


def causal_abcasts() -> Isis:
    s = trio("isis-causal-abcasts")
    s.cb("p1", "a")
    s.ab("p1", "b", causal=True)
    s.get("p1 q1", "a", "b")
    s.cb("q1", "c")
    s.get("q1 p1", "c")
    s.get("r1", "a", "b", "c")
    s.cb("r1", "topic", label="t")
    s.get("p1 q1 r1", "topic")
    return s


def outsider() -> Isis:
    """Its cache is stale: all reject its cast, and get the next attempt; what follows it comes after it."""
    s = trio("isis-outsider")
    s.begin("p2 r2")
    s.cb("p2", "a")
    s.cb("p2", "b")
    s.join_group("r2")
    s.refuse("p1 q1 r1", "a")
    s.refuse("q1 p1 r1", "b")
    s.cb("p2", "a")
    s.cb("p2", "b")
    s.cb("p2", "c")
    s.get("p1 q1 r1 r2", "a", "b", "c")
    s.flush("p2", "c")
    return s


def crash() -> Isis:
    """r crashes: who asked it is told, its own cast is out of the world, and it is back as another."""
    s = trio("isis-crash")
    s.cb("r1", "last")
    s.get("r1 p1", "last")
    s.ab("p1", "ask", replies=-1)
    s.get("r1", "ask")
    s.cb("r1", "lost")
    s.get("r1", "lost")
    s.fail("r")
    s.join("20", "pq")
    s.adopt("pq")
    s.get("q1", "last")
    s.get("p1 q1", "ask")
    s.show("p1 q1")
    s.answer("p1", "ask", "p1 q1")
    s.failed("p1", "r1", "ask")
    s.failed("q1", "r1")
    s.start("r", "25")
    s.join("30", "pqr")
    s.adopt("pqr")
    s.processes["r2"] = "r:2:1"
    s.begin("r2")
    s.join_group("r2")
    s.gb("r2", "act")
    s.get("p1 q1 r2", "act")
    return s


def killed() -> Isis:
    """r is cut off, and blocked. Others order otherwise what it received last. It comes back under a new identity."""
    s = trio("isis-killed")
    s.ab("p1", "a")
    s.ab("q1", "b")
    s.cb("r1", "lost")
    s.get("r1", "b", "a", "lost")
    s.of("r1", "receive", "b").ts = [1, 2]
    s.join("20", "pq")
    s.join("21", "r")
    s.adopt("pq")
    s.get("p1 q1", "a", "b")
    s.show("p1 q1")
    s.join("30", "pqr")
    s.end("r1")
    s.adopt("pqr")
    s.begin("r2")
    s.join_group("r2")
    s.cb("r2", "back")
    s.get("p1 q1 r2", "back")
    return s


def cut_off() -> Isis:
    """As it is killed, but it stays alone: it is not over, and nothing is expected of it."""
    s = trio("isis-cut-off")
    s.ab("p1", "a")
    s.ab("q1", "b")
    s.get("r1", "b", "a")
    s.join("20", "pq")
    s.join("21", "r")
    s.adopt("pq")
    s.get("p1 q1", "a", "b")
    s.show("p1 q1")
    s.components = [["p", "q"], ["r"]]
    return s


def leaves() -> Isis:
    """Who left a group is excused from what was under way to it; it joins again, and has missed some views."""
    s = trio("isis-leaves")
    s.cb("p1", "a")
    s.leave_group("r1")
    s.get("p1 q1", "a")
    s.ab("q1", "ask", replies=-1)
    s.get("p1 q1", "ask")
    s.answer("q1", "ask", "p1 q1")
    s.flush("p1", "a")
    s.begin("p2")
    s.join_group("p2")
    s.join_group("r1")
    s.cb("r1", "b")
    s.get("p1 p2 q1 r1", "b")
    return s


def dies() -> Isis:
    """A process dies, its site does not: its casts come before the view without it."""
    s = trio("isis-dies")
    s.begin("q2")
    s.cb("r1", "a")
    s.get("r1", "a")
    s.end("r1")
    s.get("p1 q1", "a")
    s.show("p1 q1")
    s.cb("q2", "b", to="p1 r1")
    s.get("p1", "b")
    return s


def leaves_and_is_lost() -> Isis:
    """r's process leaves, and its site is lost before it hears of it. What it cast meanwhile comes after the view."""
    s = trio("isis-leaves-and-is-lost")
    s.cb("r1", "meanwhile", to="p1 q1")
    s.show("p1 q1")
    s.get("p1 q1", "meanwhile")
    s.fail("r")
    s.join("20", "pq")
    s.adopt("pq")
    s.down = ["r"]
    return s


def anew() -> Isis:
    """All sites crash: a new line, in which the views of the group begin at 1 again."""
    s = trio("isis-anew")
    s.cb("p1", "a")
    s.get("p1 q1 r1", "a")
    for site in "pqr":
        s.fail(site)
    s.born.clear()
    s.numbers.clear()
    s.views.clear()
    for node, conf in zip("pqr", ("21", "22", "23"), strict=True):
        s.start(node, conf)
    s.join("30", "pqr")
    s.adopt("pqr")
    s.processes |= {"p5": "p:2:1", "r5": "r:2:1"}
    s.begin("p5 r5")
    s.join_group("r5")
    s.join_group("p5")
    s.cb("r5", "b")
    s.get("p5 r5", "b")
    return s


def broken_off() -> Isis:
    """Recorded until someone looked: what is missing at the files' ends may yet come."""
    s = trio("isis-broken-off")
    s.cb("p1", "a")
    s.get("p1 q1", "a")
    s.ab("q1", "b", replies=-1)
    s.get("q1", "b")
    s.gb("r1", "c")
    s.flush("p1", "a")
    s.ask("q1", "h")
    s.settled = False
    return s


GROUPED: tuple[Callable[[], Isis], ...] = (
    bank, topics, causal_abcasts, outsider, crash, killed, cut_off, leaves, dies, leaves_and_is_lost,
    anew, broken_off,
)  # fmt: skip
