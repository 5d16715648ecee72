"""Runs of process groups in which casts, GBCASTs, views or failures come in the wrong order."""

from msgspec import UNSET
from tests.golden.bad_isis_delivery import talk
from tests.golden.broken import broken
from tests.golden.isis_dsl import Isis, trio
from tests.golden.isis_good import causal_abcasts, dies, killed, outsider, topics

# -- causal


@broken("isis.causal", "one-sender-s-swapped")
def _() -> Isis:
    s = trio("swapped")
    s.cb("p1", "a")
    s.cb("p1", "b")
    s.get("p1 q1", "a", "b")
    s.get("r1", "b", "a")
    return s


@broken("isis.causal", "the-answer-before-the-question")
def _() -> Isis:
    s = talk()
    s.move("r1", "b", before="a")
    return s


@broken("isis.causal", "chain-through-a-process-outside")
def _() -> Isis:
    s = topics()
    s.cb("p1", "a", to="q2 r1")
    s.get("q2", "a")
    s.cb("q2", "b", to="q1")
    s.get("q1", "b")
    s.cb("q1", "c", to="r1")
    s.get("r1", "c", "a")
    return s


@broken("isis.causal", "by-a-topic-within-a-label-of-two")
def _() -> Isis:
    s = topics()
    s.move("r1", "both", before="low")
    return s


@broken("isis.causal", "a-stale-cache")
def _() -> Isis:
    s = outsider()
    s.move("r2", "c", before="b")
    return s


@broken("isis.causal", "one-with-a-fresh-cache-does-not-wait")
def _() -> Isis:
    s = trio("fresh-cache")
    s.begin("p2 q2 r2")
    s.cb("p2", "a")
    s.cb("p2", "b", to="q2")
    s.join_group("r2")
    s.refuse("p1 q1 r1", "a")
    s.get("q2", "b")
    s.cb("q2", "c")
    s.get("r2", "c")
    s.cb("p2", "a")
    s.get("p1 q1 r1 r2", "a")
    s.get("p1 q1 r1", "c")
    return s


@broken("isis.causal", "not-settled")
def _() -> Isis:
    s = talk()
    s.move("r1", "b", before="a")
    s.settled = False
    return s


# -- causal ABCASTs


@broken("isis.causal-abcast", "not-waited-for")
def _() -> Isis:
    s = causal_abcasts()
    s.move("r1", "c", before="b")
    return s


@broken("isis.causal-abcast", "does-not-wait-for-what-precedes-it")
def _() -> Isis:
    s = causal_abcasts()
    s.move("r1", "b", before="a")
    return s


@broken("isis.causal-abcast", "two-of-one-sender-under-two-labels")
def _() -> Isis:
    s = causal_abcasts()
    s.ab("p1", "d", label="x", causal=True)
    s.ab("p1", "e", label="y", causal=True)
    s.get("p1 q1", "d", "e")
    s.get("r1", "e", "d")
    return s


# -- ABCASTs


@broken("isis.abcast", "two-orders")
def _() -> Isis:
    s = trio("two-orders")
    s.ab("p1", "a", label="queue")
    s.ab("q1", "b", label="queue")
    s.get("p1 q1", "a", "b")
    s.get("r1", "b", "a")
    return s


@broken("isis.abcast", "a-circle-of-three")
def _() -> Isis:
    s = trio("circle")
    s.ab("p1", "a", to="p1 r1")
    s.ab("q1", "b", to="p1 q1")
    s.ab("r1", "c", to="q1 r1")
    s.get("p1", "a", "b")
    s.get("q1", "b", "c")
    s.get("r1", "c", "a")
    return s


@broken("isis.abcast", "two-priorities")
def _() -> Isis:
    s = trio("two-priorities")
    s.ab("p1", "a")
    s.get("p1 q1 r1", "a")
    s.of("q1", "receive", "a").ts = [99, 1]
    return s


@broken("isis.abcast", "no-priority")
def _() -> Isis:
    s = trio("no-priority")
    s.ab("p1", "a")
    del s.ts["a"]
    s.get("p1 q1 r1", "a")
    return s


@broken("isis.abcast", "the-failed-had-another-order-and-then-a-view")
def _() -> Isis:
    s = trio("then-a-view")
    s.ab("p1", "a")
    s.ab("q1", "b")
    s.get("r1", "b", "a")
    s.get("p1 q1", "a", "b")
    s.show("q1 p1 r1")
    s.fail("r")
    s.join("20", "pq")
    s.adopt("pq")
    s.show("q1 p1")
    s.down = ["r"]
    return s


# -- GBCASTs


@broken("isis.gbcast", "a-cbcast-on-both-sides")
def _() -> Isis:
    s = talk()
    s.gb("p1", "act")
    s.get("p1 q1 r1", "act")
    s.move("q1", "act", before="c")
    return s


@broken("isis.gbcast", "an-abcast-on-both-sides-of-a-view")
def _() -> Isis:
    s = trio("abcast-and-view")
    s.ab("p1", "a")
    s.get("p1 q1", "a")
    s.show("r1 q1 p1")
    s.get("r1", "a")
    return s


@broken("isis.gbcast", "two-in-two-orders")
def _() -> Isis:
    s = trio("two-gbcasts")
    s.gb("p1", "a")
    s.gb("q1", "b")
    s.get("p1 q1", "a", "b")
    s.get("r1", "b", "a")
    return s


@broken("isis.gbcast", "views-of-overlapping-groups-crossed")
def _() -> Isis:
    s = trio("overlapping")
    for process in ("p1", "q1"):
        s.join_group(process, "h")
    s.show("q1 p1 r1")
    s.show("q1 p1", "h")
    rows = [row for row in s.rows["q"] if row.kind == "view"]
    s.before("q", rows[-1], rows[-2])
    return s


@broken("isis.gbcast", "the-sender-s-own-copy-came-first")
def _() -> Isis:
    s = trio("own-copy")
    s.gb("q1", "act")
    s.cb("p1", "a")
    s.get("p1", "a")
    s.get("p1 q1 r1", "act")
    s.get("q1 r1", "a")
    return s


# -- failures


@broken("isis.failure", "heard-after-the-view-without-it")
def _() -> Isis:
    s = trio("heard-after-the-view")
    s.cb("r1", "late", to="q1")
    s.fail("r")
    s.join("20", "pq")
    s.adopt("pq")
    s.show("p1 q1")
    s.get("q1", "late")
    s.down = ["r"]
    return s


@broken("isis.failure", "heard-after-it-was-told")
def _() -> Isis:
    s = trio("after-it-was-told")
    s.begin("p2 r2")
    s.cb("r2", "a", to="p2")
    s.failed("p2", "r2")
    s.get("p2", "a")
    s.end("r2")
    return s


@broken("isis.failure", "a-process-died-and-is-heard")
def _() -> Isis:
    s = dies()
    s.cb("r1", "late", to="q1", label="t")
    s.before("r", s.of("r1", "cbcast", "late"), s.of("r1", "end"))
    s.get("q1", "late")
    return s


@broken("isis.failure", "a-killed-one-is-heard")
def _() -> Isis:
    s = killed()
    s.of("r1", "cbcast", "lost").dests = [s.id("r1"), s.id("q1")]
    s.addresses["lost"] = {"group": "g", "view": 3}
    s.of("r1", "receive", "lost")
    for row in (s.of("r1", "cbcast", "lost"), s.of("r1", "receive", "lost")):
        row.group = row.view = UNSET
    s.addresses["lost"] = {}
    s.get("q1", "lost")
    return s
