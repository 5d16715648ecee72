"""Runs in which a follower has something else than the nodes, or what an outpost accepted is not green once."""

from tests.golden.broken import broken
from tests.golden.dsl import Story
from tests.golden.log_dsl import LogStory
from tests.golden.log_good import followed, followed_after_a_blackout, followed_by_the_cut_off


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
