"""Runs that break the phases of the log's primary components or its timestamps, or record rows late or elsewhere."""

from tests.golden.broken import broken
from tests.golden.dsl import Story
from tests.golden.log_dsl import LogStory
from tests.golden.log_good import (
    figures,
    number_given_again,
    recorded_late,
    restarts,
    stable,
    weighted,
    yellow_goes_back,
)

PHASES = ("attempt", "commit", "establish")


# -- The phases of a primary component


@broken("corel.phases", "commit-without-an-attempt")
def _() -> Story:
    s = stable()
    s.drop("p", "attempt", "10")
    return s


@broken("corel.phases", "attempted-only-after-the-commit", also=["corel.yellow"])
def _() -> Story:
    s = stable()
    s.before("q", s.find("q", "commit", "10"), s.find("q", "attempt", "10"))
    return s


@broken("corel.phases", "establish-without-a-commit", also=["corel.yellow"])
def _() -> Story:
    s = stable()
    s.drop("r", "commit", "10")
    return s


@broken("corel.phases", "attempt-with-other-members")
def _() -> Story:
    s = restarts()
    s.find("r", "attempt", "20").members = ["p", "q", "r"]
    return s


@broken("corel.phases", "commit-with-other-members")
def _() -> Story:
    s = restarts()
    s.find("r", "commit", "20").members = ["p", "q", "r"]
    return s


@broken("corel.phases", "attempted-in-another-configuration-than-committed")
def _() -> Story:
    s = stable()
    s.find("q", "attempt", "10").conf = "9"
    return s


@broken("corel.phases", "attempted-before-and-yet-a-member", also=["corel.yellow"])
def _() -> Story:
    """p attempted this number, so a primary component with p in it has a higher one."""
    s = number_given_again()
    for node in "qr":
        for kind in PHASES:
            s.find(node, kind, "20").members = ["p", "q", "r"]
    s.down = []
    s.rows["p"] = s.rows["p"][: s.rows["p"].index(s.find("p", "fail", "10")) + 1]
    s.settled = False
    s.rows = {node: [row for row in rows if row.primary != 2] for node, rows in s.rows.items()}
    return s


@broken("corel.phases", "a-number-attempted-twice")
def _() -> Story:
    s = number_given_again()
    row = s.tell("q", "attempt", primary=1, members=["q", "r"])
    row.conf = "20"
    s.before("q", row, s.find("q", "commit", "20"))
    return s


@broken("corel.phases", "established-twice")
def _() -> Story:
    s = stable()
    s.phase("p", "establish", 1, "pqr")
    return s


@broken("corel.phases", "a-primary-without-a-quorum")
def _() -> Story:
    s = LogStory("minority", "pqr")
    s.begin("pqr", "10")
    s.leave("p", "20", "p")
    s.enter("p", "20", "p")
    s.join("21", "qr")
    s.primary(1, "p")
    s.append("p", "p", "a")
    s.components = [["p"], ["q", "r"]]
    return s


@broken("corel.phases", "weights-that-are-no-quorum")
def _() -> Story:
    s = weighted()
    s.quorum = {"kind": "weighted", "weights": {"p": 3, "q": 1, "r": 2}}
    return s


@broken("corel.phases", "an-attempt-without-a-quorum")
def _() -> Story:
    s = yellow_goes_back()
    row = s.tell("p", "attempt", primary=2, members=["p"])
    row.conf = "20"
    s.before("p", row, s.find("p", "conf", "20+30"))
    s.rows = {node: [row for row in rows if row.primary != 3] for node, rows in s.rows.items()}
    s.settled = False
    for node in "pqr":
        s.drop(node, "green", "y")
        s.rows[node] = [r for r in s.rows[node] if not (r.kind == "yellow" and r.msg == s.ids["y"])]
    s.drop("p", "red", "y")
    return s


@broken("corel.phases", "green-and-no-phase-anywhere")
def _() -> Story:
    s = stable()
    s.rows = {node: [row for row in rows if row.kind not in PHASES] for node, rows in s.rows.items()}
    return s


@broken("corel.phases", "green-in-a-later-configuration-without-a-phase")
def _() -> Story:
    s = stable()
    s.join("20", "pqr")
    s.join("30", "pqr")
    s.append("p", "pqr", "f")
    return s


@broken("corel.phases", "learned-by-all-and-made-green-by-nobody", also=["corel.yellow"])
def _() -> Story:
    """p and q have 3 and 4 green only after they tried another primary component."""
    s = figures()
    for label in ("3", "4"):
        s.before("p", s.find("p", "green", label), s.find("p", "conf", "21+30"))
    s.rows["p"].remove(s.find("p", "establish", "21"))
    for label in ("3", "4", "x"):
        for node in "qr":
            s.drop(node, "green", label)
    s.rows = {node: [row for row in rows if row.primary != 3] for node, rows in s.rows.items()}
    s.settled = False
    return s


# -- Timestamps


@broken("corel.ts", "another-timestamp-elsewhere")
def _() -> Story:
    s = stable()
    s.find("q", "log", "c").ts = [10, 0, 77, 0]
    return s


@broken("corel.ts", "sent-again-though-its-author-did-not-crash")
def _() -> Story:
    s = LogStory("no-crash", "pqr")
    s.begin("pqr", "10")
    s.accept("p", "a")
    s.log("r", "a")
    s.leave("r", "20", "r")
    s.enter("r", "20", "r")
    s.join("30", "pq")
    s.primary(1, "pq")
    s.log("pq", "a", again=True)
    s.yellow("pq", "a")
    s.green("pq", "a")
    s.settled = False
    return s


@broken("corel.ts", "its-author-crashed-only-after-it-had-logged-it")
def _() -> Story:
    s = restarts()
    for node in "pq":
        s.find(node, "log", "c").ts = [20, 0, 78, 0]
    return s


@broken("corel.ts", "its-author-crashed-before-it-accepted-it")
def _() -> Story:
    s = restarts()
    s.find("p", "log", "d").ts = [30, 0, 79, 0]
    return s


# -- Yellow, where the green was recorded late


@broken("corel.yellow", "missing-where-the-green-was-recorded-late")
def _() -> Story:
    s = recorded_late()
    s.drop("r", "yellow", "a")
    return s


@broken("corel.yellow", "its-own-is-missing-where-its-green-was-recorded-late")
def _() -> Story:
    s = recorded_late()
    s.drop("p", "yellow", "a")
    return s


@broken("corel.yellow", "missing-where-the-establish-was-recorded-late", also=["corel.green"])
def _() -> Story:
    s = recorded_late()
    s.drop("q", "yellow", "b")
    s.drop("q", "log", "b")
    return s


# -- Rows of the log outside of their incarnation


@broken("evs.2.2", "logged-as-an-earlier-incarnation", also=["corel.yellow"])
def _() -> Story:
    s = restarts()
    s.find("q", "log", "d").inc = 1
    return s


@broken("evs.2.2", "logged-as-the-next-incarnation", also=["corel.yellow"])
def _() -> Story:
    s = restarts()
    s.find("q", "log", "a").inc = 2
    return s


@broken("evs.2.2", "green-after-failing")
def _() -> Story:
    s = restarts()
    green = s.tell("q", "green", msg=s.ids["b"], pos=1)
    green.inc = 1
    s.drop("q", "green", "b")
    s.before("q", green, s.find("q", "conf", "25"))
    return s
