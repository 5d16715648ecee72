"""Runs that break the log's invariants: Causal, No Changes in Green, Yellow."""

from tests.golden.broken import broken
from tests.golden.dsl import Story
from tests.golden.log_dsl import LogStory
from tests.golden.log_good import broken_off, figures, restarts, snapshots, stable, travels, yellow_goes_back

# -- Causal


@broken("corel.causal", "its-author-s-later-one-first", also=["corel.yellow"])
def _() -> Story:
    s = stable()
    s.swap("q", "log", "c", "d")
    return s


@broken("corel.causal", "the-answer-before-the-question")
def _() -> Story:
    s = travels()
    s.swap("q", "log", "a", "b")
    return s


@broken("corel.causal", "the-answer-without-the-question")
def _() -> Story:
    s = travels()
    s.drop("t", "log", "a")
    s.rows["t"] = [row for row in s.rows["t"] if row.msg != s.ids["alone"]]
    return s


@broken("corel.causal", "its-own-first-one-not-logged-by-its-author")
def _() -> Story:
    s = LogStory("own", "pqr")
    s.begin("pqr", "10")
    s.accept("p", "a", "b")
    s.log("p", "b")
    s.settled = False
    return s


@broken("corel.causal", "a-snapshot-that-does-not-cover-it", also=["corel.green", "corel.yellow"])
def _() -> Story:
    """r's e follows c, which r has from its snapshot; a site that never had c logs e."""
    s = snapshots()
    s.drop("p", "log", "d")
    return s


@broken("corel.causal", "the-message-of-an-earlier-incarnation-is-passed-over")
def _() -> Story:
    s = LogStory("passed-over", "pqr")
    s.begin("pqr", "10")
    s.accept("p", "a")
    s.fail("p")
    s.start("p", "15")
    s.accept("p", "b")
    s.join("20", "pqr")
    s.log("pqr", "b")
    s.settled = False
    return s


# -- No Changes in Green


@broken("corel.green", "a-gap")
def _() -> Story:
    s = stable()
    for node in "pqr":
        s.find(node, "green", "e").pos = 7
    return s


@broken("corel.green", "a-position-again-after-a-restart", also=["corel.agreed"])
def _() -> Story:
    s = restarts()
    for label, pos in (("b", 0), ("c", 1), ("d", 2)):
        s.find("q", "green", label).pos = pos
    return s


@broken("corel.green", "inserted-before-the-last", also=["corel.3.6", "corel.3.7"])
def _() -> Story:
    s = stable()
    s.swap("q", "green", "d", "e")
    return s


@broken("corel.green", "green-without-having-it", also=["corel.yellow"])
def _() -> Story:
    s = figures()
    s.drop("r", "log", "4")
    return s


@broken("corel.green", "green-goes-back-to-red", also=["corel.yellow"])
def _() -> Story:
    s = stable()
    s.red("q", "e")
    return s


@broken("corel.green", "green-goes-back-to-yellow")
def _() -> Story:
    s = restarts()
    s.tell("p", "yellow", msg=s.ids["a"])
    return s


@broken("corel.green", "a-snapshot-that-takes-back")
def _() -> Story:
    s = stable()
    s.snapshot("q", 3)
    return s


@broken("corel.green", "what-a-snapshot-covers-turns-yellow")
def _() -> Story:
    s = snapshots()
    s.tell("r", "yellow", msg=s.ids["a"])
    return s


# -- Yellow


@broken("corel.yellow", "green-on-one-acknowledgement-too-few")
def _() -> Story:
    s = LogStory("too-few", "pqr")
    s.begin("pqr", "10")
    s.primary(1, "pqr")
    s.accept("p", "a")
    s.log("pq", "a")
    s.yellow("pq", "a")
    s.green("pq", "a")
    s.settled = False
    return s


@broken("corel.yellow", "a-member-has-it-red")
def _() -> Story:
    s = restarts()
    s.drop("q", "yellow", "b")
    return s


@broken("corel.yellow", "yellow-goes-back-though-it-is-green-elsewhere")
def _() -> Story:
    s = figures()
    red = s.tell("q", "red", msg=s.ids["4"])
    s.before("q", red, s.find("q", "log", "x"))
    s.drop("q", "green", "4")
    s.drop("q", "green", "x")
    s.settled = False
    return s


@broken("corel.yellow", "adopted-without-its-messages")
def _() -> Story:
    s = figures()
    for kind in ("log", "yellow", "green"):
        s.drop("r", kind, "4")
        s.drop("r", kind, "x") if kind != "log" else None
    for kind in ("attempt", "commit", "establish"):
        s.rows["r"] = [row for row in s.rows["r"] if not (row.kind == kind and row.primary == 3)]
        s.rows["q"] = [row for row in s.rows["q"] if not (row.kind == kind and row.primary == 3)]
    s.settled = False
    return s


@broken("corel.yellow", "adopted-and-left-red")
def _() -> Story:
    s = figures()
    for label in ("3", "4", "x"):
        for node in "qr":
            s.drop(node, "green", label)
        s.drop("r", "yellow", label)
    s.settled = False
    return s


@broken("corel.yellow", "committed-in-another-order")
def _() -> Story:
    s = stable()
    s.swap("r", "yellow", "a", "b")
    return s


@broken("corel.yellow", "yellow-in-another-order-than-green")
def _() -> Story:
    s = restarts()
    s.accept("q", "e", "f")
    s.log("pq", "e", "f")
    s.yellow("p", "e", "f")
    s.yellow("q", "f", "e")
    s.green("pq", "e", "f")
    return s


@broken("corel.yellow", "yellow-before-the-commit")
def _() -> Story:
    s = broken_off()
    s.before("p", s.find("p", "yellow", "a"), s.find("p", "commit", "20"))
    return s


@broken("corel.yellow", "green-before-the-establish")
def _() -> Story:
    s = stable()
    s.before("p", s.find("p", "green", "a"), s.find("p", "establish", "10"))
    return s


@broken("corel.yellow", "green-without-establishing")
def _() -> Story:
    s = stable()
    s.drop("p", "establish", "10")
    return s


@broken("corel.yellow", "established-without-a-member-s-commit")
def _() -> Story:
    s = LogStory("no-commit", "pqr")
    s.begin("pqr", "10")
    s.accept("p", "a")
    s.log("pqr", "a")
    s.primary(1, "pqr", "a")
    for kind in ("commit", "establish"):
        s.drop("r", kind, "10")
    for kind in ("yellow", "green"):
        s.drop("r", kind, "a")
    s.settled = False
    return s


@broken("corel.yellow", "red-that-was-not-yellow")
def _() -> Story:
    s = yellow_goes_back()
    s.drop("p", "yellow", "y")
    return s


@broken("corel.yellow", "yellow-without-having-it")
def _() -> Story:
    s = yellow_goes_back()
    s.before("p", s.find("p", "yellow", "y"), s.find("p", "log", "y"))
    return s
