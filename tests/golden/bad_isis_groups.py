"""Runs of process groups whose views, addresses, site views or ends are wrong."""

from tests.golden.broken import broken
from tests.golden.isis_dsl import Isis, trio
from tests.golden.isis_good import bank, crash, dies, killed, leaves, outsider

# -- views


@broken("isis.views", "one-number-two-memberships")
def _() -> Isis:
    s = trio("two-memberships")
    row = s.of("r1", "view", 0)
    row.members = row.dests = [s.id("q1"), s.id("r1")]
    return s


@broken("isis.views", "one-number-two-ranks")
def _() -> Isis:
    s = bank()
    row = s.of("r1", "view", 1)
    assert isinstance(row.dests, list)
    row.dests = row.dests[::-1]
    return s


@broken("isis.views", "one-is-passed-over")
def _() -> Isis:
    s = trio("passed-over")
    s.show("q1 p1 r1")
    s.show("r1 p1 q1")
    s.lose("q1", "view", 2)
    return s


@broken("isis.views", "not-in-it")
def _() -> Isis:
    s = trio("not-in-it")
    s.show("p1 q1", at="p1 q1 r1")
    return s


@broken("isis.views", "number-goes-back-after-a-leave")
def _() -> Isis:
    s = trio("goes-back")
    s.begin("p2")
    s.join_group("p2", "h")
    s.tell("p2", "leave", group="h")
    s.numbers["h"] = 0
    s.join_group("p2", "i")
    row = s.of("p2", "view", 1)
    row.group = "h"
    s.of("p2", "join", 1).group = "h"
    return s


@broken("isis.views", "shown-to-one-that-is-over")
def _() -> Isis:
    s = dies()
    s.views["g"] = ["p1", "q1", "r1"]
    s.show("p1 q1 r1", at="r1")
    return s


# -- members


@broken("isis.members", "received-in-a-view-that-has-gained")
def _() -> Isis:
    s = trio("gained")
    s.begin("p2 r2")
    s.cb("p2", "a")
    s.join_group("r2")
    s.get("p1 q1 r1", "a")
    return s


@broken("isis.members", "a-member-s-own-cast-was-rejected")
def _() -> Isis:
    s = trio("own-rejected")
    s.begin("r2")
    s.cb("p1", "a")
    s.join_group("r2")
    s.refuse("p1 q1 r1", "a")
    s.cb("p1", "a")
    s.get("p1 q1 r1 r2", "a")
    return s


@broken("isis.members", "an-abcast-to-the-old-members")
def _() -> Isis:
    s = trio("old-members")
    s.begin("r2")
    s.ab("p1", "a")
    s.join_group("r2")
    s.get("p1 q1 r1", "a")
    return s


# -- reject


@broken("isis.reject", "rejected-by-one-received-by-another")
def _() -> Isis:
    s = outsider()
    s.cb("p2", "d")
    s.get("p1 q1 r2", "d")
    s.refuse("r1", "d")
    s.get("r1", "d")
    return s


@broken("isis.reject", "rejected-and-never-sent-again", also=["isis.atomic"])
def _() -> Isis:
    s = trio("never-again")
    s.begin("p2 r2")
    s.cb("p2", "a")
    s.join_group("r2")
    s.refuse("p1 q1 r1", "a")
    return s


@broken("isis.reject", "sent-again-and-lost", also=["isis.atomic"])
def _() -> Isis:
    s = trio("again-and-lost")
    s.begin("p2 r2")
    s.cb("p2", "a")
    s.join_group("r2")
    s.refuse("p1 q1 r1", "a")
    s.cb("p2", "a")
    return s


@broken("isis.reject", "by-one-that-is-over-but-went-on")
def _() -> Isis:
    s = trio("went-on")
    s.begin("p2 r2")
    s.cb("p2", "a")
    s.get("p1 q1", "a")
    s.refuse("r1", "a")
    s.show("q1 p1 r1")
    s.end("r1")
    s.show("q1 p1")
    return s


# -- sites


@broken("isis.sites", "one-number-two-memberships")
def _() -> Isis:
    s = crash()
    row = next(row for row in s.rows["q"] if row.kind == "site" and row.primary == 20)
    row.members = ["q:10", "r:10"]
    return s


@broken("isis.sites", "without-a-quorum")
def _() -> Isis:
    s = trio("no-quorum")
    for site in "qr":
        s.fail(site)
    s.join("20", "p")
    s.adopt("p")
    s.show("p1")
    s.down = ["q", "r"]
    return s


@broken("isis.sites", "back-with-the-same-born")
def _() -> Isis:
    s = killed()
    for rows in s.rows.values():
        for row in rows:
            if row.kind == "site" and row.primary == 30:
                row.members = ["p:10", "q:10", "r:10"]
    return s


@broken("isis.sites", "crashed-and-back-with-the-same-born")
def _() -> Isis:
    s = trio("same-born")
    s.fail("r")
    s.start("r", "15")
    s.join("20", "pqr")
    s.adopt("pqr")  # nobody adopted a site view without r meanwhile
    s.show("p1 q1")
    return s


@broken("isis.sites", "one-does-not-adopt-it")
def _() -> Isis:
    s = trio("does-not-adopt")
    s.join("20", "pqr")
    s.adopt("pqr", at="pq")
    s.join("30", "pqr")
    s.adopt("pqr")
    return s


@broken("isis.sites", "number-goes-back")
def _() -> Isis:
    s = trio("site-goes-back")
    s.join("20", "pqr")
    s.adopt("pqr")
    rows = [row for row in s.rows["q"] if row.kind == "site"]
    s.before("q", rows[1], rows[0])
    return s


# -- live


@broken("isis.live", "a-gbcast-gets-nowhere")
def _() -> Isis:
    s = trio("nowhere")
    s.gb("p1", "act")
    return s


@broken("isis.live", "a-join-gets-nowhere")
def _() -> Isis:
    s = trio("join-nowhere")
    s.begin("p2")
    s.ask("p2")
    return s


@broken("isis.live", "a-member-lacks-the-join")
def _() -> Isis:
    s = trio("lacks-the-join")
    s.begin("p2")
    s.join_group("p2")
    s.lose("q1", "view", 2)
    return s


@broken("isis.live", "the-dead-stay-in-the-view")
def _() -> Isis:
    s = trio("dead-stay")
    s.end("r1")
    return s


@broken("isis.live", "one-that-left-stays-in-a-view")
def _() -> Isis:
    s = leaves()
    s.leave_group("p2")
    s.lose("q1", "view", 5)
    return s
