"""Runs of groups with the filter that break virtual synchrony, or whose primary components are invalid."""

from msgspec import UNSET
from tests.golden.broken import broken
from tests.golden.processes import Processes, cut_short, groups, joins, merges, minority, stops, trio


def _talk() -> Processes:
    """Three sites that have exchanged a message of each service."""
    s = trio("talk")
    s.cast("p1", "f", "fifo")
    s.cast("p1", "g", "fifo")
    s.cast("p1", "a", "agreed")
    s.cast("p1", "c", "causal")
    s.cast("q1", "d", "causal")
    s.cast("r1", "s", "safe")
    s.give("p1 q1 r1", "f", "g", "a", "c", "d", "s")
    s.join("20", "pqr")
    s.view("p1 q1 r1")
    return s


# -- C1


@broken("vs.C1", "never-cast")
def _() -> Processes:
    s = _talk()
    s.lose("p1", "cast", "c")
    return s


@broken("vs.C1", "said-to-be-from-another")
def _() -> Processes:
    s = _talk()
    s.of("q1", "deliver", "c").sender = s.labels["r1"]
    return s


@broken("vs.C1", "as-another-service")
def _() -> Processes:
    s = _talk()
    s.of("q1", "deliver", "a").service = "safe"
    return s


@broken("vs.C1", "cast-in-another-group", also=["vs.C3", "vs.L4"])
def _() -> Processes:
    s = groups()
    row = s.of("p1", "deliver", "z")
    row.group, row.view = "g", s.in_view["p1", "g"]
    return s


@broken("vs.C1", "fifo-swapped")
def _() -> Processes:
    s = _talk()
    s.exchange("r1", "f", "g")
    return s


@broken("vs.C1", "causal-one-before-what-its-caster-had-delivered")
def _() -> Processes:
    s = trio("chain")
    s.cast("p1", "c", "causal")
    s.give("q1", "c")
    s.cast("q1", "d", "causal")
    s.give("p1", "c", "d")
    s.give("q1", "d")
    s.give("r1", "d", "c")
    return s


@broken("vs.C1", "what-precedes-was-never-delivered", also=["vs.C3"])
def _() -> Processes:
    s = trio("chain-with-a-gap")
    s.cast("p1", "c", "causal")
    s.give("q1", "c")
    s.cast("q1", "s", "safe")
    s.give("p1", "c", "s")
    s.give("q1", "s")
    s.give("r1", "s")
    return s


@broken("vs.C1", "swapped-after-a-join")
def _() -> Processes:
    s = trio("swapped-after-a-join")
    s.cast("p1", "c", "causal")
    s.cast("p1", "d", "causal")
    s.view("p1 q1 r1 r2")
    s.give("p1 q1 r2", "c", "d")
    s.give("r1", "d", "c")
    return s


@broken("vs.C1", "a-member-passes-a-view-by")
def _() -> Processes:
    s = _talk()
    s.stop("r1")
    s.view("p1 q1")
    s.view("p1 q1 q2")
    s.lose("q1", "view", 3)
    return s


@broken("vs.C1", "a-member-ends-in-the-view-before")
def _() -> Processes:
    s = _talk()
    s.lose("q1", "view", 2)
    return s


# -- C2


@broken("vs.C2", "nobody-delivered-it")
def _() -> Processes:
    s = trio("silence")
    s.cast("p1", "a", "agreed")
    s.join("20", "pqr")
    s.view("p1 q1 r1")
    return s


@broken("vs.C2", "nobody-delivered-it-until-the-end")
def _() -> Processes:
    s = _talk()
    s.cast("p1", "b", "fifo")
    return s


@broken("vs.C2", "only-others-delivered-it", also=["vs.C3"])
def _() -> Processes:
    s = _talk()
    s.lose("q1", "deliver", "d")
    return s


@broken("vs.C2", "delivered-twice")
def _() -> Processes:
    s = trio("twice")
    s.cast("p1", "c", "causal")
    s.give("p1 q1 r1", "c")
    s.give("r1", "c")
    return s


@broken("vs.C2", "cast-by-two")
def _() -> Processes:
    s = _talk()
    s.cast("q1", "again", "fifo")
    s.of("q1", "cast", "again").msg = s.ids["g"]
    return s


# -- C3


@broken("vs.C3", "one-lacks-it-and-goes-on")
def _() -> Processes:
    s = _talk()
    s.lose("r1", "deliver", "d")
    return s


@broken("vs.C3", "one-lacks-it-at-the-end")
def _() -> Processes:
    s = _talk()
    s.cast("p1", "b", "agreed")
    s.give("p1 q1", "b")
    return s


@broken("vs.C3", "safe-one-delivered-by-one-who-stopped")
def _() -> Processes:
    s = minority()
    lost = s.event("r1", "deliver", "g", msg=s.ids["lost"], sender=s.labels["r1"], service="safe", ts=s.ts["lost"])
    s.before("r", lost, s.of("r1", "stop"))
    return s


@broken("vs.C3", "safe-one-lost-though-not-settled")
def _() -> Processes:
    s = cut_short()
    s.give("q1", "s")
    return s


# -- L1


@broken("vs.L1", "fifo-circle-of-three")
def _() -> Processes:
    s = trio("circle")
    for process in ("p1", "q1", "r1"):
        s.cast(process, f"m{process}", "fifo")
    s.give("p1 q1 r1", "mp1", "mq1", "mr1")
    for process, heard in (("p1", "mr1"), ("q1", "mp1"), ("r1", "mq1")):
        s.before(process[0], s.of(process, "deliver", heard), s.of(process, "cast"))
    return s


@broken("vs.L1", "circle-through-two-groups")
def _() -> Processes:
    s = trio("circle-of-groups")
    s.view("q1", "h")
    s.view("p1 q1", "h", at="q1 p1")
    s.cast("p1", "x", "fifo")
    s.cast("q1", "y", "fifo", "h")
    s.give("p1 q1 r1", "x")
    s.give("p1 q1", "y")
    s.before("p", s.of("p1", "deliver", "y"), s.of("p1", "cast", "x"))
    s.before("q", s.of("q1", "deliver", "x"), s.of("q1", "cast", "y"))
    return s


@broken("vs.L1", "before-its-own-cast", also=["vs.C1"])
def _() -> Processes:
    s = _talk()
    s.before("p", s.of("p1", "deliver", "f"), s.of("p1", "cast", "f"))
    return s


# -- L2


@broken("vs.L2", "views-of-two-groups-crossed")
def _() -> Processes:
    s = groups()
    g, h = s.of("r1", "view", 1), s.of("r1", "view", 1, "h")
    s.before("r", h, g)
    return s


@broken("vs.L2", "order-of-one-group-against-causality-in-another")
def _() -> Processes:
    # p1 casts d in h when it has delivered a in g; r1 delivers d before a.
    s = groups()
    s.cast("p1", "b", "agreed")
    s.give("p1", "b")
    s.cast("p1", "e", "causal", "h")
    s.give("r1", "e", "b")
    s.give("p1 p2", "e")
    s.give("q1", "b")
    return s


@broken("vs.L2", "two-orders", also=["vs.L5"])
def _() -> Processes:
    s = trio("two-orders")
    s.cast("p1", "x", "agreed")
    s.cast("q1", "y", "safe")
    s.give("p1 q1 r1", "x", "y")
    s.exchange("r1", "x", "y")
    return s


# -- L3


@broken("vs.L3", "one-number-two-memberships")
def _() -> Processes:
    s = trio("two-memberships")
    s.of("p1", "view", 2).members = [s.labels["p1"], s.labels["r1"]]
    s.of("q1", "view", 1).members = [s.labels["p1"], s.labels["q1"]]
    s.of("r1", "view", 0).members = [s.labels["p1"], s.labels["r1"]]
    return s


@broken("vs.L3", "one-view-in-two-configurations", also=["evs.primary.uniqueness"])
def _() -> Processes:
    s = merges()
    s.of("q1", "view", 1).conf = "2"
    return s


@broken("vs.L3", "number-goes-back")
def _() -> Processes:
    s = trio("back")
    s.stop("q1")
    s.stop("r1")
    s.view("p1")
    s.of("p1", "view", 3).view = (10 << 20) - 1
    return s


@broken("vs.L3", "two-merged-at-once")
def _() -> Processes:
    s = merges()
    s.lose("p1", "view", 3)
    s.lose("q1", "view", 2)
    s.lose("q2", "view", 0)
    return s


@broken("vs.L3", "back-under-its-old-identity")
def _() -> Processes:
    # r1 was left out of 20, does not know it, and goes directly to 30.
    s = trio("unaware")
    s.join("20", "pq")
    s.view("p1 q1")
    s.join("30", "pqr")
    s.view("p1 q1")
    s.view("p1 q1 r1")
    return s


@broken("vs.L3", "not-a-member-of-its-own-view")
def _() -> Processes:
    s = trio("stranger")
    s.view("p1 r1", at="p1 q1 r1")
    return s


@broken("vs.L3", "goes-on-after-its-stop")
def _() -> Processes:
    s = _talk()
    s.stop("q1")
    s.before("q", s.rows["q"][-1], s.of("q1", "view", 2))
    return s


# -- L4


@broken("vs.L4", "all-deliver-it-in-the-next-view")
def _() -> Processes:
    s = _talk()
    s.cast("p1", "b", "agreed")
    s.join("30", "pqr")
    s.view("p1 q1 r1")
    s.give("p1 q1 r1", "b")
    return s


@broken("vs.L4", "one-delivers-it-in-the-next-view", also=["vs.C3"])
def _() -> Processes:
    s = trio("late")
    s.cast("p1", "d", "causal")
    s.give("p1 q1", "d")
    s.join("20", "pqr")
    s.view("p1 q1 r1")
    s.give("r1", "d")
    return s


@broken("vs.L4", "before-a-join-at-one-after-it-at-another", also=["vs.C1", "vs.C3", "vs.L2"])
def _() -> Processes:
    s = joins()
    s.before("p", s.of("p1", "view", 3), s.of("p1", "deliver", "a"))
    s.of("p1", "deliver", "a").view = s.of("p1", "view", 3).view
    return s


@broken("vs.L4", "names-a-view-that-it-has-left")
def _() -> Processes:
    s = _talk()
    late = s.lose("q1", "deliver", "d")
    s.rows["q"].append(late)
    return s


@broken("vs.L4", "delivers-after-its-stop")
def _() -> Processes:
    s = minority()
    s.before("r", s.of("r1", "stop"), s.of("r1", "deliver", "a"))
    return s


@broken("vs.L4", "delivers-after-its-site-failed", also=["evs.2.2"])
def _() -> Processes:
    s = stops()
    s.before("r", s.find("r", "fail", "10"), s.of("r1", "deliver", "f"))
    return s


@broken("vs.L4", "in-no-view-yet")
def _() -> Processes:
    s = trio("early")
    s.cast("p1", "f", "fifo")
    s.give("p1 q1 r1", "f")
    s.before("r", s.of("r1", "deliver", "f"), s.of("r1", "view"))
    return s


# -- L5


@broken("vs.L5", "no-timestamp")
def _() -> Processes:
    s = _talk()
    s.of("q1", "deliver", "a").ts = UNSET
    return s


@broken("vs.L5", "another-timestamp-elsewhere")
def _() -> Processes:
    s = _talk()
    s.of("r1", "deliver", "a").ts = [10, 0, 0, 1]
    return s


@broken("vs.L5", "not-in-order")
def _() -> Processes:
    s = _talk()
    for process in ("p1", "q1", "r1"):
        s.of(process, "deliver", "s").ts = [9, 0, 0, 0]
    return s


@broken("vs.L5", "two-messages-one-timestamp")
def _() -> Processes:
    # In two groups, so that no process has both.
    s = trio("two-groups")
    s.view("p2", "h")
    s.cast("q1", "a", "agreed")
    s.give("p1 q1 r1", "a")
    s.cast("p2", "b", "agreed", "h")
    s.ts["b"] = s.ts["a"]
    s.give("p2", "b")
    return s


# -- primary components


@broken("evs.primary.uniqueness", "views-of-two-components")
def _() -> Processes:
    # r was cut off, and continued as a primary component with the same number as the others'.
    s = trio("two-primaries")
    s.join("20", "pq")
    s.join("21", "r")
    s.stop("r1")
    s.view("p1 q1")
    s.view("r2", "h")
    s.of("r2", "view", 0, "h").primary = 20
    s.components = [["p", "q"], ["r"]]
    return s


@broken("evs.primary.uniqueness", "views-with-two-numbers", also=["vs.L3"])
def _() -> Processes:
    s = merges()
    s.of("q1", "view", 1).primary = 21
    return s


@broken("evs.primary.uniqueness", "views-whose-primary-goes-back")
def _() -> Processes:
    s = merges()
    for process, places in (("p1", (2, 3, 4)), ("q1", (1, 2, 3)), ("q2", (0, 1)), ("r1", (0,))):
        for place in places:
            s.of(process, "view", place).primary = 9
    return s


@broken("evs.primary.continuity", "views-without-a-site-in-common")
def _() -> Processes:
    s = Processes("apart", "pqr")
    for node, conf in zip("pqr", ("1", "2", "3"), strict=True):
        s.start(node, conf)
    s.join("10", "p")
    s.view("p1")
    s.join("11", "p")
    s.stop("p1")
    s.join("20", "qr")
    s.view("q1")
    s.view("q1 r1")
    s.components = [["p"], ["q", "r"]]
    return s


@broken("evs.primary.continuity", "views-of-both-sides-of-a-cut")
def _() -> Processes:
    s = trio("both-sides")
    s.join("20", "pq")
    s.join("21", "r")
    s.stop("r1")
    s.view("p1 q1")
    s.view("r2")
    s.components = [["p", "q"], ["r"]]
    return s
