"""Runs in which a follower has something else than the nodes, or what an outpost accepted is not green once."""

from msgspec import UNSET
from tests.golden.broken import broken
from tests.golden.dsl import Story
from tests.golden.log_dsl import LogStory
from tests.golden.log_good import copies, followed, followed_after_a_blackout, followed_by_the_cut_off


def _edit(name: str, kind: str, place: int, **fields: object) -> LogStory:
    """The good story, with one row of f, g or o changed."""
    s = followed()
    row = [row for row in s.rows[name] if row.kind == kind][place]
    for field, value in fields.items():
        setattr(row, field, value)
    return s


@broken("corel.follow", "another-message-at-the-position")
def _() -> Story:
    return _edit("f", "green", 1, msg="p:1:1")


@broken("corel.follow", "a-position-left-out")
def _() -> Story:
    s = followed()
    del s.rows["f"][1]
    return s


@broken("corel.follow", "a-position-twice-after-a-crash")
def _() -> Story:
    """g recorded what was not on its disk yet: after its restart it has it again."""
    s = followed()
    s.inc["g"] += 1
    s.line["g"] -= 1
    s.tell("g", "green", msg=s.ids["d"], pos=3)
    return s


@broken("corel.follow", "more-than-the-nodes-have")
def _() -> Story:
    s = followed()
    s.tell("f", "green", msg="p:1:99", pos=4)
    return s


@broken("corel.follow", "a-snapshot-beyond-the-log")
def _() -> Story:
    s = followed()
    s.snapshot("f", 9)
    return s


@broken("corel.follow", "a-snapshot-that-takes-back")
def _() -> Story:
    s = followed()
    s.snapshot("g", 2)
    return s


@broken("corel.follow", "not-complete-in-the-end")
def _() -> Story:
    s = followed()
    s.rows["f"].pop()
    return s


@broken("corel.follow", "not-complete-beside-a-minority")
def _() -> Story:
    """r has not restarted: it knows what is green, also without a quorum."""
    s = followed_by_the_cut_off()
    s.rows["f"].clear()
    return s


@broken("corel.follow", "not-complete-after-a-restart")
def _() -> Story:
    """q recorded b as green before the crash, and p after it: so p knows it now."""
    s = followed_after_a_blackout()
    s.drop("p", "green", "b")
    s.tell("p", "green", msg=s.ids["b"], pos=1)
    return s


@broken("corel.follow", "accepted-at-an-outpost-and-never-green")
def _() -> Story:
    s = followed()
    s.accept("o", "e")
    return s


@broken("corel.follow", "accepted-at-an-outpost-and-green-twice", also=["corel.3.2", "corel.3.6", "corel.agreed"])
def _() -> Story:
    """The outpost sent it again, and the nodes took it for another one."""
    s = followed()
    for node in "pqrfg":
        s.tell(node, "green", msg=s.ids["c"], pos=4)
    return s


@broken("corel.follow", "accepted-twice")
def _() -> Story:
    s = followed()
    s.tell("o", "accept", msg=s.ids["c"])
    return s


@broken("corel.follow", "accepted-under-another-name", also=["corel.3.1"])
def _() -> Story:
    return _edit("o", "accept", 0, msg="q:1:1")


@broken("corel.causal", "a-copy-of-an-outposts-message-is-overtaken")
def _() -> Story:
    """p had its copy, whatever its rows show it as, when it accepted w."""
    s = copies()
    s.swap("r", "log", "first", "w")
    return s


@broken("corel.follow", "both-copies-count", also=["corel.3.2", "corel.3.6", "corel.agreed", "corel.green"])
def _() -> Story:
    s = copies()
    s.show("pqrf", "first", "m", "green")
    return s


@broken(
    "corel.agreed",
    "another-copy-counts-at-one-node",
    also=["corel.3.1", "corel.3.6", "corel.3.7", "corel.3.8", "corel.follow", "corel.green", "corel.yellow"],
)
def _() -> Story:
    """q orders its own copy as void, and p's as what the outpost accepted."""
    s = copies()
    second, first = (s.find("q", "green", what) for what in ("m", "first"))
    second.label, first.msg, first.label = UNSET, second.msg, first.msg
    second.msg = s.ids["second"]
    return s


@broken("corel.3.8", "a-copy-never-becomes-green")
def _() -> Story:
    s = copies()
    s.copy("r", "third")
    s.log("pqr", "third")
    s.show("r", "third", "m", "log")
    return s


@broken("corel.ts", "a-copy-under-another-timestamp")
def _() -> Story:
    s = copies()
    s.find("r", "log", "m").ts = [20, 0, 99, 0]
    return s


@broken("evs.1.2", "a-followers-number-does-not-grow")
def _() -> Story:
    s = followed()
    s.number()
    s.keep_n = True
    s.rows["f"][1].n = 0
    return s


@broken("evs.2.2", "a-follower-of-an-incarnation-that-is-over")
def _() -> Story:
    s = followed()
    s.rows["g"][-1].inc = 1
    s.rows["g"][-2].inc = 2
    return s
