"""Runs that break Specifications 1.1-4. Each names what else it must break; it may break nothing more."""

from tests.golden.broken import broken
from tests.golden.dsl import Story
from tests.golden.good import chain, crash, hidden, pair, split


def _trio(name: str) -> Story:
    s = Story(name, "pqr")
    for node, conf in zip("pqr", ("1", "2", "3"), strict=True):
        s.start(node, conf)
    s.join("10", "pqr")
    return s


@broken("evs.1.1", "each-delivered-before-the-other-was-sent", also=["evs.6.1"])
def _() -> Story:
    s = pair()
    for node in "pq":
        s.rows[node] = s.rows[node][:3]
    s.send("p", "c", "causal")
    s.send("q", "d", "causal")
    s.deliver("pq", "c", "d")
    s.before("p", s.find("p", "deliver", "d"), s.find("p", "send", "c"))
    s.before("q", s.find("q", "deliver", "c"), s.find("q", "send", "d"))
    return s


@broken("evs.1.1", "fifo-circle-of-three")
def _() -> Story:
    s = _trio("circle")
    for node in "pqr":
        s.send(node, f"m{node}", "fifo")
    s.deliver("pqr", "mp", "mq", "mr")
    for node, heard in (("p", "mr"), ("q", "mp"), ("r", "mq")):
        s.before(node, s.find(node, "deliver", heard), s.find(node, "send", f"m{node}"))
    return s


@broken("evs.1.2", "number-repeats")
def _() -> Story:
    s = pair()
    s.number()
    s.find("q", "deliver", "x").n -= 1
    return s


@broken("evs.1.2", "number-goes-back-in-a-new-incarnation")
def _() -> Story:
    s = crash()
    s.number()
    for n, row in enumerate(row for row in s.rows["q"] if row.inc == 2):
        row.n = n
    return s


@broken("evs.1.2", "number-repeats-in-another-layer")
def _() -> Story:
    s = pair()
    s.establish("p", 1, "pq")
    s.number()
    s.rows["p"][-1].n -= 1
    return s


@broken("evs.1.3", "never-sent")
def _() -> Story:
    s = pair()
    s.drop("p", "send", "x")
    return s


@broken("evs.1.3", "sent-in-the-configuration-before", also=["evs.3"])
def _() -> Story:
    s = pair()
    s.send("p", "w", "fifo")
    s.join("20", "pq")
    s.deliver("pq", "w")
    return s


@broken("evs.1.3", "said-to-be-from-another")
def _() -> Story:
    s = pair()
    s.find("q", "deliver", "x").sender = "q"
    return s


@broken("evs.1.3", "as-another-service")
def _() -> Story:
    s = pair()
    s.find("q", "deliver", "x").service = "safe"
    return s


@broken("evs.1.3", "before-its-own-sending", also=["evs.1.1", "evs.5", "evs.6.1", "evs.6.2", "to.causal"])
def _() -> Story:
    s = pair()
    s.before("p", s.find("p", "deliver", "x"), s.find("p", "send", "x"))
    return s


@broken("evs.1.4", "sent-in-a-transitional-configuration", also=["evs.1.3"])
def _() -> Story:
    s = pair()
    s.leave("p", "20", "pq")
    s.leave("q", "20", "pq")
    s.send("p", "w", "causal")
    s.deliver("pq", "w")
    s.enter("p", "20", "pq")
    s.enter("q", "20", "pq")
    return s


@broken("evs.1.4", "sent-again-in-the-next-configuration", also=["live.delivery"])
def _() -> Story:
    s = pair()
    s.join("20", "pq")
    again = s.row("p", "send", "20", msg=s.ids["x"], service="agreed")
    assert again.conf == "20"
    return s


@broken("evs.1.4", "sent-by-two-nodes")
def _() -> Story:
    s = pair()
    s.row("q", "send", "10", msg=s.ids["x"], service="agreed")
    return s


@broken("evs.1.4", "delivered-twice", also=["evs.6.1", "evs.6.2", "to.order"])
def _() -> Story:
    s = pair()
    s.deliver("q", "y")
    return s


@broken("evs.1.4", "causal-one-delivered-in-both-configurations")
def _() -> Story:
    s = pair()
    s.send("p", "w", "causal")
    s.deliver("pq", "w")
    s.leave("p", "20", "pq")
    s.leave("q", "20", "pq")
    s.deliver("pq", "w")
    s.enter("p", "20", "pq")
    s.enter("q", "20", "pq")
    return s


@broken("evs.2.1", "a-member-went-on-alone", also=["live.membership"])
def _() -> Story:
    s = pair()
    s.join("20", "q")
    return s


@broken("evs.2.1", "a-failed-member-is-kept", also=["live.membership"])
def _() -> Story:
    s = pair()
    s.fail("q")
    s.down = ["q"]
    return s


@broken("evs.2.1", "a-member-ends-in-the-transitional-configuration", also=["live.membership", "transis.uniformity"])
def _() -> Story:
    s = pair()
    s.join("20", "pq")
    s.drop("q", "conf", "20")
    return s


@broken("evs.2.1", "a-member-that-is-down-without-a-fail", also=["live.membership"])
def _() -> Story:
    s = pair()
    s.down = ["q"]
    return s


@broken("evs.2.2", "delivered-after-leaving")
def _() -> Story:
    s = pair()
    s.send("p", "w", "fifo")
    s.deliver("pq", "w")
    s.join("20", "pq")
    late = s.drop("q", "deliver", "w")
    s.rows["q"].append(late)
    return s


@broken("evs.2.2", "delivered-after-failing")
def _() -> Story:
    s = crash()
    s.before("q", s.find("q", "fail", "10"), s.find("q", "deliver", "x"))
    return s


@broken("evs.2.2", "fails-in-another-configuration")
def _() -> Story:
    s = crash()
    s.find("q", "fail", "10").conf = "2"
    return s


@broken("evs.2.2", "fail-told-of-the-next-incarnation")
def _() -> Story:
    s = crash()
    s.find("q", "fail", "10").inc = 2
    return s


@broken("evs.2.2", "restarts-without-having-failed")
def _() -> Story:
    s = crash()
    s.drop("q", "fail", "10")
    return s


@broken("evs.2.2", "sends-before-its-first-configuration")
def _() -> Story:
    s = crash()
    early = s.row("q", "send", "25", msg="q:2:9", service="fifo")
    s.before("q", early, s.find("q", "conf", "25"))
    s.before("q", s.row("q", "deliver", "25", msg="q:2:9", sender="q", service="fifo"), s.find("q", "conf", "25+30"))
    return s


@broken("evs.2.2", "first-configuration-holds-another", also=["transis.uniformity"])
def _() -> Story:
    s = crash()
    s.find("q", "conf", "25").members = ["p", "q"]
    return s


@broken("evs.2.2", "regular-directly-after-regular")
def _() -> Story:
    s = split()
    s.drop("r", "conf", "3+10")
    return s


@broken("evs.2.2", "transitional-after-transitional")
def _() -> Story:
    s = split()
    twice = s.row("r", "conf", "10+22", conf_kind="transitional", members=["r"], reg="10")
    s.before("r", twice, s.find("r", "conf", "21"))
    return s


@broken("evs.2.2", "transitional-names-another-regular-one", also=["evs.2.4"])
def _() -> Story:
    s = split()
    s.find("r", "conf", "3+10").reg = "2"
    return s


@broken("evs.2.2", "entered-twice", also=["evs.2.3", "evs.2.4", "evs.6.1", "evs.6.2", "transis.same-order"])
def _() -> Story:
    s = split()
    s.leave("r", "10", "r")
    s.enter("r", "21", "r")
    return s


@broken("evs.2.2", "delivers-in-a-hidden-configuration")
def _() -> Story:
    s = hidden()
    s.send("p", "w", "fifo")
    s.deliver("pq", "w")
    for row in (s.find("p", "send", "w"), s.find("p", "deliver", "w")):
        s.before("p", row, s.find("p", "conf", "20+30"))
        row.conf = "20"
    moved = s.find("q", "deliver", "w")
    moved.conf = "20"
    s.before("q", moved, s.find("q", "conf", "10+21"))
    return s


@broken("evs.2.3", "delivered-before-the-configuration-it-was-sent-in", also=["evs.1.3", "evs.2.4", "live.delivery"])
def _() -> Story:
    s = Story("early", "pq")
    s.start("p", "1")
    s.start("q", "2")
    s.join("10", "pq")
    s.send("p", "w", "fifo")
    s.deliver("pq", "w")
    early = s.find("q", "deliver", "w")
    early.conf = "2"
    s.before("q", early, s.find("q", "conf", "2+10"))
    return s


@broken("evs.2.4", "crossed-in-two-steps", also=["evs.2.2", "evs.2.3"])
def _() -> Story:
    # q delivers p's message of 20 while still in 10, then sends in 10 a message that r delivers before it enters 20.
    s = Story("third", "pqr")
    for node, conf in zip("pqr", ("1", "2", "3"), strict=True):
        s.start(node, conf)
    s.join("10", "qr")
    s.send("q", "v", "fifo")
    s.deliver("qr", "v")
    s.join("20", "pqr")
    s.send("p", "w", "fifo")
    s.deliver("pqr", "w")
    s.before("q", s.find("q", "deliver", "w"), s.find("q", "send", "v"))
    return s


@broken("evs.2.3", "one-id-two-memberships", also=["live.membership", "transis.uniformity"])
def _() -> Story:
    s = pair()
    s.find("q", "conf", "10").members = ["q"]
    return s


@broken("evs.2.3", "one-id-two-kinds", also=["evs.2.2", "evs.2.4", "live.membership"])
def _() -> Story:
    s = pair()
    s.find("q", "conf", "10").conf_kind = "transitional"
    s.find("q", "conf", "10").reg = "2"
    return s


@broken("evs.2.3", "one-transitional-id-two-regular-ones-before")
def _() -> Story:
    s = pair()
    for node in "pq":
        s.find(node, "conf", "2+10" if node == "q" else "1+10").conf = "x+10"
    return s


@broken(
    "evs.2.4", "configurations-in-a-circle", also=["evs.2.2", "evs.2.3", "evs.6.1", "evs.6.2", "transis.same-order"]
)
def _() -> Story:
    s = Story("circle-of-configurations", "pqr")
    for node, conf in zip("pqr", ("1", "2", "3"), strict=True):
        s.start(node, conf)
    for node, first, second in (("p", "10", "20"), ("q", "20", "30"), ("r", "30", "10")):
        for conf in (first, second):
            s.enter(node, conf, {"10": "pr", "20": "pq", "30": "qr"}[conf])
    s.settled = False
    return s


@broken("evs.2.4", "transitional-holds-one-who-was-elsewhere")
def _() -> Story:
    s = split()
    s.find("r", "conf", "3+10").members = ["q", "r"]
    return s


@broken("evs.2.4", "transitional-holds-one-who-goes-elsewhere")
def _() -> Story:
    s = split()
    s.find("r", "conf", "10+21").members = ["q", "r"]
    return s


@broken("evs.2.4", "transitional-lacks-one-who-came-along")
def _() -> Story:
    s = split()
    for node in "pq":
        s.find(node, "conf", "10+20").members = ["p"] if node == "p" else ["q"]
        for row in s.rows[node]:
            if row.conf == "10+20":
                row.conf = f"10+20{node}"
    return s


@broken("evs.2.4", "two-transitional-ones-on-one-way")
def _() -> Story:
    s = split()
    for row in s.rows["q"]:
        if row.conf == "10+20":
            row.conf = "10+20b"
    return s


@broken("evs.3", "own-message-lost")
def _() -> Story:
    s = split()
    s.drop("r", "deliver", "z")
    return s


@broken("evs.3", "only-others-delivered-it", also=["evs.4"])
def _() -> Story:
    s = split()
    s.send("p", "w", "fifo")
    s.deliver("q", "w")
    s.join("30", "pq")
    return s


@broken("evs.4", "one-lacks-a-message")
def _() -> Story:
    s = split()
    s.send("p", "w", "fifo")
    s.deliver("p", "w")
    s.join("30", "pq")
    return s


@broken("evs.4", "regular-at-one-transitional-at-the-other", also=["evs.6.1", "evs.6.2", "evs.7.1"])
def _() -> Story:
    s = split()
    early = s.find("p", "deliver", "y")
    early.conf = "10"
    s.before("p", early, s.find("p", "conf", "10+20"))
    return s


@broken("evs.4", "one-lacks-it-in-the-transitional-configuration", also=["evs.7.1"])
def _() -> Story:
    s = split()
    s.drop("p", "deliver", "y")
    return s


@broken("evs.5", "chain-through-a-third-node", also=["evs.6.3", "live.delivery"])
def _() -> Story:
    s = chain()
    s.drop("p", "deliver", "a")
    s.drop("p", "deliver", "b")
    return s
