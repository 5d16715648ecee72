"""Runs of process groups in which casts are lost, doubled or wrongly addressed, or a promise to a sender fails."""

from tests.golden.broken import broken
from tests.golden.isis_dsl import Isis, trio
from tests.golden.isis_good import bank, broken_off, crash, killed, leaves


def talk() -> Isis:
    """A chain of CBCASTs under the default label: a, then b by one that received a; and c on a topic."""
    s = trio("talk")
    s.cb("p1", "a")
    s.get("p1 q1", "a")
    s.cb("q1", "b")
    s.get("q1", "b")
    s.get("r1", "a", "b")
    s.get("p1", "b")
    s.cb("r1", "c", label="t")
    s.get("p1 q1 r1", "c")
    return s


# -- once


@broken("isis.once", "never-cast")
def _() -> Isis:
    s = talk()
    s.lose("r1", "cbcast", "c")
    return s


@broken("isis.once", "said-to-be-from-another")
def _() -> Isis:
    s = talk()
    s.of("q1", "receive", "c").sender = s.id("p1")
    return s


@broken("isis.once", "no-such-attempt", also=["isis.atomic"])
def _() -> Isis:
    s = talk()
    s.of("q1", "receive", "c").attempt = 1
    s.lose("p1", "receive", "c")
    return s


@broken("isis.once", "received-in-another-view-than-it-names")
def _() -> Isis:
    s = talk()
    s.of("q1", "receive", "c").view = 2
    return s


@broken("isis.once", "no-destination")
def _() -> Isis:
    s = talk()
    s.begin("q2")
    s.cb("p1", "d", to="q1", label="t")
    s.get("q1 q2", "d")
    return s


@broken("isis.once", "a-gbcast-to-an-outsider")
def _() -> Isis:
    s = trio("gbcast")
    s.begin("q2")
    s.gb("p1", "d")
    s.get("p1 q1 r1 q2", "d")
    return s


@broken("isis.once", "received-twice")
def _() -> Isis:
    s = talk()
    s.get("r1", "c")
    return s


@broken("isis.once", "received-before-it-was-cast")
def _() -> Isis:
    s = talk()
    s.before("r", s.of("r1", "receive", "c"), s.of("r1", "cbcast", "c"))
    return s


@broken("isis.once", "received-after-its-end")
def _() -> Isis:
    s = trio("after-its-end")
    s.begin("r2")
    s.cb("p1", "d", to="r2")
    s.end("r2")
    s.get("r2", "d")
    return s


# -- atomic


@broken("isis.atomic", "one-lacks-a-cbcast")
def _() -> Isis:
    s = talk()
    s.lose("q1", "receive", "c")
    return s


@broken("isis.atomic", "one-lacks-an-abcast")
def _() -> Isis:
    s = talk()
    s.ab("p1", "d")
    s.get("p1 r1", "d")
    return s


@broken("isis.atomic", "lost-though-its-sender-stands")
def _() -> Isis:
    s = talk()
    s.cb("p1", "d", to="q1", label="u")
    return s


@broken("isis.atomic", "a-failed-sender-s-cast-reached-one-only")
def _() -> Isis:
    s = crash()
    s.lose("q1", "receive", "last")
    return s


@broken("isis.atomic", "left-only-before-the-view-that-it-names")
def _() -> Isis:
    s = leaves()
    s.lose("r1", "receive", "b")
    return s


# -- extended


@broken("isis.extended", "what-led-to-a-surviving-cast-is-lost")
def _() -> Isis:
    s = trio("extended")
    s.begin("q2")
    s.cb("r1", "a", to="q1")
    s.cb("r1", "b", to="p1")
    s.get("p1", "b")
    s.fail("r")
    s.join("20", "pq")
    s.adopt("pq")
    s.show("p1 q1")
    s.down = ["r"]
    return s


@broken("isis.extended", "through-one-that-failed", also=["isis.atomic"])
def _() -> Isis:
    s = trio("through-one")
    s.begin("p2")
    s.cb("p2", "a", to="r1 q1")
    s.get("r1", "a")
    s.cb("r1", "b", to="p1")
    s.get("p1", "b")
    s.fail("r")
    s.join("20", "pq")
    s.adopt("pq")
    s.show("p1 q1")
    s.down = ["r"]
    return s


@broken("isis.extended", "a-causal-abcast-is-lost")
def _() -> Isis:
    s = trio("extended-abcast")
    s.ab("r1", "a", to="q1", causal=True)
    s.cb("r1", "b", to="p1")
    s.get("p1", "b")
    s.fail("r")
    s.join("20", "pq")
    s.adopt("pq")
    s.show("p1 q1")
    s.down = ["r"]
    return s


# -- flush


@broken("isis.flush", "a-destination-never-received-it", also=["isis.atomic"])
def _() -> Isis:
    s = talk()
    s.cb("p1", "d", to="q1 r1", label="u")
    s.get("r1", "d")
    s.flush("p1", "d")
    return s


@broken("isis.flush", "returned-before-a-neighbour-had-it")
def _() -> Isis:
    s = talk()
    s.begin("p2")
    s.cb("p1", "d", to="p2")
    s.flush("p1", "d")
    s.get("p2", "d")
    return s


@broken("isis.flush", "what-was-sent-after-it-came-first")
def _() -> Isis:
    s = talk()
    s.cb("p1", "d", to="q1", label="u")
    s.flush("p1", "d")
    s.cb("p1", "e", to="r1", label="v")
    s.get("r1", "e")
    s.cb("r1", "f", to="q1", label="w")
    s.get("q1", "f", "d")
    return s


@broken("isis.flush", "ended-on-a-suspicion")
def _() -> Isis:
    s = killed()
    s.flush("r1", "lost")
    s.before("r", s.of("r1", "flush"), s.of("r1", "end"))
    return s


@broken("isis.flush", "not-settled-but-it-heard-of-later-things")
def _() -> Isis:
    s = broken_off()
    s.cb("p1", "d", to="q1", label="u")
    s.get("q1", "d")
    s.cb("q1", "e", to="r1", label="v")
    s.get("r1", "e")
    return s


# -- replies


@broken("isis.replies", "one-neither-answered-nor-failed")
def _() -> Isis:
    s = bank()
    s.rows["p"] = [row for row in s.rows["p"] if not (row.kind == "answer" and row.sender == s.id("r1"))]
    return s


@broken("isis.replies", "left-after-it-received-the-request")
def _() -> Isis:
    s = trio("left-after")
    s.ab("p1", "ask", replies=-1)
    s.get("p1 q1 r1", "ask")
    s.answer("p1", "ask", "p1 q1")
    s.leave_group("r1")
    return s


@broken("isis.replies", "of-the-failed-nothing-is-told")
def _() -> Isis:
    s = crash()
    s.lose("p1", "failed", "ask")
    return s


@broken("isis.replies", "answered-after-it-had-failed")
def _() -> Isis:
    s = crash()
    s.answer("p1", "ask", "r1")
    return s


# -- state


@broken("isis.state", "of-no-member")
def _() -> Isis:
    s = bank()
    s.begin("r2")
    s.state("r2")
    return s


@broken("isis.state", "cast-before-the-transfer-was-done")
def _() -> Isis:
    s = bank()
    state = s.lose("q2", "state")
    s.rows["q"].append(state)
    return s


@broken("isis.state", "of-one-that-left")
def _() -> Isis:
    s = bank()
    s.leave_group("q2")
    s.state("q2")
    return s
