"""Runs with dynamic voting in which a primary component does not go on from the one before it, or none orders."""

from tests.golden.broken import broken
from tests.golden.dsl import Story
from tests.golden.log_dsl import LogStory
from tests.golden.log_good import dynamic


@broken(
    "corel.dynamic.subquorum",
    "one-of-the-last-three-with-two-others",
)
def _() -> Story:
    """r was in the first primary component; with s and t it is only one of three."""
    s = LogStory("voting", "pqrst")
    s.quorum = {"kind": "dynamic", "minimum": 2}
    s.begin("pqrst", "10")
    s.join("20", "pqr")
    s.primary(1, "pqr")
    s.join("30", "pq")
    s.join("31", "rst")
    s.primary(2, "rst")
    s.components = [["p", "q"], ["r", "s", "t"]]
    s.settled = False
    return s


@broken("corel.dynamic.subquorum", "half-without-the-lowest", also=["corel.dynamic.live"])
def _() -> Story:
    s = LogStory("voting", "pqrs")
    s.quorum = {"kind": "dynamic", "minimum": 2}
    s.begin("pqrs", "10")
    s.primary(1, "pqrs")
    s.join("30", "pq")
    s.join("31", "rs")
    s.primary(2, "rs")
    s.components = [["p", "q"], ["r", "s"]]
    return s


@broken("corel.dynamic.subquorum", "below-the-minimum")
def _() -> Story:
    s = LogStory("voting", "pqr")
    s.quorum = {"kind": "dynamic", "minimum": 2}
    s.begin("pqr", "10")
    s.primary(1, "pqr")
    s.join("30", "pq")
    s.primary(2, "pq")
    s.join("40", "p")
    s.phase("p", "attempt", 3, "p")
    s.components = [["p"], ["q"], ["r"]]
    s.settled = False
    return s


@broken("corel.dynamic.subquorum", "the-greater-weight-passed-over", also=["corel.dynamic.live"])
def _() -> Story:
    """s weighs more than the others together."""
    s = LogStory("voting", "pqrs")
    s.quorum = {"kind": "dynamic", "minimum": 2, "weights": {"p": 1, "q": 1, "r": 1, "s": 4}}
    s.begin("pqrs", "10")
    s.primary(1, "pqrs")
    s.join("30", "pq")
    s.primary(2, "pq")
    s.join("31", "rs")
    s.components = [["p", "q"], ["r", "s"]]
    return s


@broken("corel.dynamic.live", "a-sub-quorum-that-stops")
def _() -> Story:
    s = dynamic()
    for name in "pq":
        for kind in ("attempt", "commit", "establish"):
            s.drop(name, kind, "30")
    for name in "pq":
        s.rows[name] = [row for row in s.rows[name] if row.msg != "q:1:1" or row.kind not in ("yellow", "green")]
    return s


@broken("corel.dynamic.live", "nobody-attempts-anything")
def _() -> Story:
    s = LogStory("voting", "pqr")
    s.quorum = {"kind": "dynamic", "minimum": 2}
    s.begin("pqr", "10")
    s.accept("p", "a")
    s.components = [["p", "q", "r"]]
    return s


@broken("corel.dynamic.live", "a-dead-session-holds-it-up")
def _() -> Story:
    """p attempted 2 with q and r, and did not commit: that is known to be dead, and p and q may go on without r."""
    s = LogStory("voting", "pqr")
    s.quorum = {"kind": "dynamic", "minimum": 2}
    s.begin("pqr", "10")
    s.primary(1, "pqr")
    s.phase("p", "attempt", 2, "pqr")
    s.join("20", "pq")
    s.join("21", "r")
    s.components = [["p", "q"], ["r"]]
    return s
