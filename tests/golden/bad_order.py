"""Runs that break Specifications 5-7, the primary component model, Transis, timestamps and liveness."""

from tests.golden.broken import broken
from tests.golden.dsl import Story
from tests.golden.good import crash, cut_short, foreign_ids, hidden, pair, primaries, services, split


@broken("evs.5", "fifo-swapped")
def _() -> Story:
    s = services()
    s.swap("r", "deliver", "f", "g")
    return s


@broken("evs.5", "fifo-with-a-gap", also=["live.delivery"])
def _() -> Story:
    s = services()
    s.drop("r", "deliver", "f")
    return s


@broken("evs.5", "causal-one-before-what-its-sender-had-delivered")
def _() -> Story:
    s = services()
    s.before("q", s.find("q", "deliver", "c"), s.find("q", "deliver", "g"))
    return s


@broken("evs.5", "causal-one-before-its-sender-s-agreed-one", also=["evs.6.1", "evs.6.2"])
def _() -> Story:
    s = services()
    s.swap("r", "deliver", "a", "d")
    return s


@broken("evs.5", "what-precedes-is-never-delivered", also=["evs.4"])
def _() -> Story:
    s = services()
    s.drop("r", "deliver", "c")
    s.join("20", "pqr")
    return s


def _two_orders() -> Story:
    s = Story("two-orders", "pqr")
    for node, conf in zip("pqr", ("1", "2", "3"), strict=True):
        s.start(node, conf)
    s.join("10", "pqr")
    s.send("p", "x", "agreed")
    s.send("q", "y", "agreed")
    s.send("r", "z", "agreed")
    s.deliver("pqr", "x", "y", "z")
    return s


@broken("evs.6.1", "two-orders", also=["evs.6.2", "to.order"])
def _() -> Story:
    s = _two_orders()
    s.swap("q", "deliver", "x", "y")
    return s


@broken("evs.6.1", "order-against-causality", also=["evs.6.2", "evs.5", "to.order"])
def _() -> Story:
    s = pair()
    s.swap("p", "deliver", "x", "y")
    return s


@broken("evs.6.2", "circle-of-three-orders", also=["evs.6.1", "evs.6.3", "to.order", "live.delivery"])
def _() -> Story:
    s = _two_orders()
    for node, skipped in (("p", "z"), ("q", "x"), ("r", "y")):
        s.drop(node, "deliver", skipped)
    s.swap("r", "deliver", "x", "z")
    return s


@broken("evs.6.2", "before-the-configuration-at-one-after-it-at-the-other", also=["evs.6.1", "evs.4"])
def _() -> Story:
    s = split()
    late = s.find("q", "deliver", "x")
    late.conf = "10+20"
    s.before("q", late, s.find("q", "deliver", "y"))
    return s


@broken("evs.6.3", "hole", also=["live.delivery"])
def _() -> Story:
    s = _two_orders()
    s.drop("q", "deliver", "y")
    return s


@broken("evs.6.3", "hole-in-the-transitional-configuration", also=["evs.3"])
def _() -> Story:
    # p and q leave r. p delivers x, then y, in its transitional configuration; q, alone in its own, only its y.
    s = Story("transitional-hole", "pqr")
    for node, conf in zip("pqr", ("1", "2", "3"), strict=True):
        s.start(node, conf)
    s.join("10", "pqr")
    s.send("q", "x", "agreed")
    s.send("r", "y", "agreed")
    s.leave("p", "20", "p")
    s.deliver("p", "x", "y")
    s.enter("p", "20", "p")
    s.leave("q", "21", "qr")
    s.leave("r", "21", "qr")
    s.deliver("qr", "y")
    s.enter("q", "21", "qr")
    s.enter("r", "21", "qr")
    s.components = [["p"], ["q", "r"]]
    return s


@broken("evs.7.1", "a-member-never-delivers", also=["live.delivery"])
def _() -> Story:
    s = pair()
    s.drop("p", "deliver", "y")
    return s


@broken("evs.7.1", "a-member-went-another-way-without-it")
def _() -> Story:
    s = split()
    early = s.find("p", "deliver", "y")
    for node in "pq":
        early = s.find(node, "deliver", "y")
        early.conf = "10"
        s.before(node, early, s.find(node, "conf", "10+20"))
    return s


@broken("evs.7.1", "not-settled-but-it-had-left")
def _() -> Story:
    s = cut_short()
    s.join("22", "q")
    return s


@broken("evs.7.1", "failed-only-later")
def _() -> Story:
    s = crash()
    s.drop("r", "deliver", "x")
    s.drop("p", "deliver", "x")
    return s


@broken("evs.7.2", "a-member-never-entered", also=["evs.7.1", "transis.uniformity"])
def _() -> Story:
    s = Story("safe-without-a-member", "pq")
    s.start("p", "1")
    s.start("q", "2")
    s.join("10", "p")
    s.find("p", "conf", "10").members = ["p", "q"]
    s.send("p", "x", "safe")
    s.deliver("p", "x")
    s.join("20", "pq")
    return s


@broken("evs.7.2", "a-member-knows-it-only-as-hidden", also=["evs.7.1"])
def _() -> Story:
    s = hidden()
    s.join("40", "pq")
    row = s.row("p", "send", "20", msg="p:1:7", service="safe")
    s.before("p", row, s.find("p", "conf", "20+30"))
    row = s.row("p", "deliver", "20", msg="p:1:7", sender="p", service="safe", ts=[20, 0, 0, 0])
    s.before("p", row, s.find("p", "conf", "20+30"))
    return s


@broken("evs.primary.uniqueness", "two-configurations-one-number", also=["corel.phases"])
def _() -> Story:
    s = primaries()
    s.establish("p", 3, "p")
    return s


@broken("evs.primary.uniqueness", "one-configuration-two-numbers", also=["corel.phases"])
def _() -> Story:
    s = primaries()
    s.find("r", "establish", "31").primary = 4
    return s


@broken("evs.primary.uniqueness", "one-number-two-memberships", also=["corel.phases"])
def _() -> Story:
    s = primaries()
    s.find("q", "establish", "20").members = ["p", "q", "r"]
    return s


@broken("evs.primary.uniqueness", "number-goes-back", also=["corel.phases", "evs.primary.continuity"])
def _() -> Story:
    s = primaries()
    for node in "pq":
        s.find(node, "establish", "20").primary = 9
    s.find("p", "establish", "20").members = ["p"]
    s.find("q", "establish", "20").members = ["p"]
    return s


@broken("evs.primary.continuity", "no-member-in-common", also=["corel.phases"])
def _() -> Story:
    s = primaries()
    s.drop("q", "establish", "31")
    s.find("r", "establish", "31").members = ["r"]
    return s


@broken(
    "transis.self-inclusion",
    "not-in-its-own-configuration",
    also=["evs.2.1", "evs.2.4", "live.membership", "transis.uniformity"],
)
def _() -> Story:
    s = split()
    s.find("r", "conf", "21").members = ["p"]
    return s


@broken("transis.self-inclusion", "not-in-its-hidden-one", also=["transis.uniformity"])
def _() -> Story:
    s = hidden()
    s.find("q", "conf", "20").members = ["p"]
    return s


@broken("transis.same-order", "swapped", also=["evs.2.2", "evs.2.3", "evs.2.4", "evs.6.1", "evs.6.2"])
def _() -> Story:
    s = pair()
    for node in "pq":
        s.rows[node] = s.rows[node][:3]
        s.at[node] = "10"
    s.join("20", "pq")
    s.join("30", "pq")
    s.swap("q", "conf", "10", "20")
    return s


@broken("transis.same-order", "a-lower-number-after-a-crash")
def _() -> Story:
    s = Story("lower-number-after-a-crash", "p")
    s.start("p", "12")
    s.fail("p")
    s.start("p", "7")
    return s


@broken("transis.uniformity", "hidden-at-a-stranger-with-other-members")
def _() -> Story:
    s = split()
    s.hide("r", "20", "qr")
    return s


@broken("transis.uniformity", "not-reported")
def _() -> Story:
    s = hidden()
    s.drop("q", "conf", "20")
    return s


@broken("transis.uniformity", "hidden-with-other-members")
def _() -> Story:
    s = hidden()
    s.find("q", "conf", "20").members = ["q"]
    return s


@broken("transis.uniformity", "both-regular-and-hidden")
def _() -> Story:
    s = hidden()
    s.hide("p", "20", "pq")
    return s


@broken("transis.uniformity", "not-settled-but-it-came-further")
def _() -> Story:
    s = cut_short()
    s.join("25", "r")
    s.drop("p", "send", "y")
    s.drop("p", "deliver", "y")
    return s


@broken("transis.uniformity", "the-incarnation-failed-after-that-number")
def _() -> Story:
    s = hidden()
    s.drop("q", "conf", "20")
    s.fail("q")
    s.start("q", "41")
    s.join("50", "pq")
    return s


@broken("transis.uniformity", "without-numbers-in-the-ids")
def _() -> Story:
    s = foreign_ids()
    s.drop("r", "conf", "red")
    return s


@broken("to.unique", "two-messages-one-timestamp", also=["to.order"])
def _() -> Story:
    s = _two_orders()
    for node in "pqr":
        s.find(node, "deliver", "y").ts = s.ts["x"]
    return s


@broken("to.unique", "in-two-components")
def _() -> Story:
    s = split()
    s.find("r", "deliver", "z").ts = s.ts["y"]
    return s


@broken("to.unique", "no-timestamp")
def _() -> Story:
    s = Story("no-timestamp", "p")
    s.start("p", "1")
    s.send("p", "x", "agreed")
    s.ts.clear()
    s.deliver("p", "x")
    return s


@broken("to.same", "another-timestamp-elsewhere")
def _() -> Story:
    s = _two_orders()
    s.find("q", "deliver", "z").ts = [10, 0, 7, 0]
    return s


@broken("to.order", "not-in-order")
def _() -> Story:
    s = _two_orders()
    for node in "pqr":
        s.find(node, "deliver", "x").ts = [10, 0, 9, 0]
    return s


@broken("to.order", "not-in-order-across-configurations", also=["to.causal"])
def _() -> Story:
    s = split()
    for node in "pq":
        s.find(node, "deliver", "v").ts = [9, 0, 0, 0]
    return s


@broken("to.order", "shorter-is-lower")
def _() -> Story:
    s = _two_orders()
    for node in "pqr":
        s.find(node, "deliver", "y").ts = [10, 0]
    return s


@broken("to.causal", "not-above-what-its-sender-s-last-incarnation-sent")
def _() -> Story:
    # p fails before it delivers x, and q never receives y: only the timestamps show their order.
    s = Story("causal-timestamps", "pq")
    s.start("p", "1")
    s.start("q", "2")
    s.join("10", "pq")
    s.send("p", "x", "agreed")
    s.fail("p")
    s.ts["x"] = [30, 0, 0, 0]
    s.deliver("q", "x")
    s.join("20", "q")
    s.start("p", "25")
    s.send("p", "y", "agreed")
    s.deliver("p", "y")
    s.components = [["p"], ["q"]]
    return s


@broken("to.causal", "not-above-what-its-sender-had-delivered", also=["to.order"])
def _() -> Story:
    s = pair()
    for node in "pq":
        s.find(node, "deliver", "y").ts = [9, 0, 0, 0]
    return s


@broken("to.causal", "through-a-causal-message", also=["to.order"])
def _() -> Story:
    s = Story("causal-through", "pq")
    s.start("p", "1")
    s.start("q", "2")
    s.join("10", "pq")
    s.send("p", "x", "agreed")
    s.send("p", "c", "causal")
    s.deliver("p", "x", "c")
    s.deliver("q", "x", "c")
    s.send("q", "y", "agreed")
    s.deliver("pq", "y")
    for node in "pq":
        s.find(node, "deliver", "y").ts = [9, 0, 0, 0]
    return s


@broken("live.membership", "two-configurations-in-one-component")
def _() -> Story:
    s = split()
    s.components = [["p", "q", "r"]]
    return s


@broken("live.membership", "ends-in-a-transitional-configuration")
def _() -> Story:
    s = split()
    s.leave("r", "30", "r")
    return s


@broken("live.membership", "never-started")
def _() -> Story:
    s = split()
    s.nodes.append("s")
    s.components = [["p", "q"], ["r"], ["s"]]
    return s


@broken("live.membership", "same-members-two-ids", also=["evs.2.1", "transis.uniformity"])
def _() -> Story:
    s = pair()
    s.join("20", "pq")
    for row in s.rows["q"]:
        row.conf = {"20": "21", "10+20": "10+21"}.get(str(row.conf), row.conf)
    return s


@broken("live.delivery", "not-delivered-by-a-member")
def _() -> Story:
    s = services()
    s.drop("r", "deliver", "k")
    return s


@broken("live.delivery", "delivered-by-nobody")
def _() -> Story:
    s = pair()
    s.send("q", "w", "fifo")
    return s
