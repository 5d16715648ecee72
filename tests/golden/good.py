"""Runs that keep every promise. Each is a function, so that a broken run can start from it."""

from collections.abc import Callable

from tests.golden.dsl import Story


def pair() -> Story:
    """Two nodes find each other and exchange an agreed and a safe message."""
    s = Story("pair", "pq")
    s.start("p", "1")
    s.start("q", "2")
    s.join("10", "pq")
    s.send("p", "x", "agreed")
    s.deliver("pq", "x")
    s.send("q", "y", "safe")
    s.deliver("pq", "y")
    return s


def split() -> Story:
    """r is cut off. The others deliver in their transitional configuration the safe messages that r may lack; r
    delivers in its own what only it had sent."""
    s = Story("split", "pqr")
    for node, conf in zip("pqr", ("1", "2", "3"), strict=True):
        s.start(node, conf)
    s.join("10", "pqr")
    s.send("p", "x", "agreed")
    s.send("q", "y", "safe")
    s.send("r", "z", "agreed")
    s.deliver("pqr", "x")
    for node in "pq":
        s.leave(node, "20", "pq")
        s.deliver(node, "y")
        s.enter(node, "20", "pq")
    s.leave("r", "21", "r")
    s.deliver("r", "z")
    s.enter("r", "21", "r")
    s.send("p", "v", "agreed")
    s.deliver("pq", "v")
    s.components = [["p", "q"], ["r"]]
    return s


def crash() -> Story:
    """q fails and restarts as another incarnation, and r leaves for good."""
    s = Story("crash", "pqr")
    for node, conf in zip("pqr", ("1", "2", "3"), strict=True):
        s.start(node, conf)
    s.join("10", "pqr")
    s.send("q", "x", "safe")
    s.deliver("pqr", "x")
    s.send("q", "lost", "agreed")
    s.fail("q")
    s.join("20", "pr")
    s.send("r", "y", "safe")
    s.deliver("pr", "y")
    s.fail("r", "stop")
    s.start("q", "25")
    s.join("30", "pq")
    s.send("q", "z", "agreed")
    s.deliver("pq", "z")
    s.down = ["r"]
    s.components = [["p", "q"]]
    return s


def hidden() -> Story:
    """p installs 20 with q. q had agreed to it but was cut off: it reports 20 as hidden and continues alone."""
    s = Story("hidden", "pq")
    s.start("p", "1")
    s.start("q", "2")
    s.join("10", "pq")
    s.send("p", "x", "agreed")
    s.deliver("pq", "x")
    s.leave("p", "20", "pq")
    s.enter("p", "20", "pq")
    s.hide("q", "20", "pq")
    s.leave("q", "21", "q")
    s.enter("q", "21", "q")
    s.join("30", "pq")
    return s


def services() -> Story:
    """Each service is as weak as allowed: fifo overtakes everything, causal overtakes concurrent messages."""
    s = Story("services", "pqr")
    for node, conf in zip("pqr", ("1", "2", "3"), strict=True):
        s.start(node, conf)
    s.join("10", "pqr")
    s.send("p", "a", "agreed")
    s.send("p", "f", "fifo")
    s.send("p", "g", "fifo")
    s.send("q", "c", "causal")
    s.send("r", "k", "causal")
    s.deliver("p", "c", "a")
    s.send("p", "d", "causal")
    s.deliver("q", "f", "k", "c", "a", "d", "g")
    s.deliver("r", "f", "g", "a", "c", "d", "k")
    s.deliver("p", "d", "k", "f", "g")
    return s


def chain() -> Story:
    """A message leads to another at a third node: all deliver the first before the last."""
    s = Story("chain", "pqr")
    for node, conf in zip("pqr", ("1", "2", "3"), strict=True):
        s.start(node, conf)
    s.join("10", "pqr")
    s.send("p", "a", "causal")
    s.deliver("q", "a")
    s.send("q", "b", "agreed")
    s.deliver("pqr"[2], "a", "b")
    s.send("r", "c", "safe")
    s.deliver("p", "a", "b", "c")
    s.deliver("q", "b", "c")
    s.deliver("r", "c")
    return s


def cut_short() -> Story:
    """A trace of a run that is not over: q's file ends before it delivered y, r's before it entered 20."""
    s = Story("cut-short", "pqr")
    for node, conf in zip("pqr", ("1", "2", "3"), strict=True):
        s.start(node, conf)
    s.join("10", "pqr")
    s.send("p", "x", "safe")
    s.deliver("pqr", "x")
    s.send("p", "y", "safe")
    s.deliver("p", "y")
    s.leave("p", "20", "pr")
    s.enter("p", "20", "pr")
    s.settled = False
    return s


def primaries() -> Story:
    """Three primaries, each sharing a member with the one before."""
    s = Story("primaries", "pqr")
    for node, conf in zip("pqr", ("1", "2", "3"), strict=True):
        s.start(node, conf)
    s.join("10", "pqr")
    for node in "pqr":
        s.establish(node, 1, "pqr")
    s.join("20", "pq")
    s.join("21", "r")
    for node in "pq":
        s.establish(node, 2, "pq")
    s.join("30", "p")
    s.join("31", "qr")
    for node in "qr":
        s.establish(node, 3, "qr")
    s.components = [["p"], ["q", "r"]]
    return s


def foreign_ids() -> Story:
    """Configurations whose ids have no number. q does not enter `red`: it had failed before."""
    s = Story("foreign-ids", "pqr")
    for node, conf in zip("pqr", ("ash", "birch", "cedar"), strict=True):
        s.start(node, conf)
    s.join("fir", "pqr")
    s.send("p", "x", "causal")
    s.deliver("pqr", "x")
    s.leave("p", "red", "pqr")
    s.enter("p", "red", "pqr")
    s.hide("r", "red", "pqr")
    s.fail("q")
    s.start("q", "elm")
    s.join("oak", "pqr")
    return s


def figure_6() -> Story:
    """The paper's example: p is isolated from q and r, which merge with s and t."""
    s = Story("figure-6", "pqrst")
    for node, conf in zip("pqrst", ("1", "2", "3", "4", "5"), strict=True):
        s.start(node, conf)
    s.join("10", "pqr")
    s.join("11", "st")
    s.send("p", "l", "safe")
    s.send("p", "m", "safe")
    s.send("r", "n", "safe")
    for node in "qr":
        s.leave(node, "20", "qr")
        s.deliver(node, "n")
        s.enter(node, "20", "qrst")
    for node in "st":
        s.leave(node, "20", "st")
        s.enter(node, "20", "qrst")
    s.leave("p", "21", "p")
    s.deliver("p", "l", "m")
    s.enter("p", "21", "p")
    s.components = [["p"], ["q", "r", "s", "t"]]
    return s


GOOD: tuple[Callable[[], Story], ...] = (
    pair,
    split,
    crash,
    hidden,
    services,
    chain,
    cut_short,
    primaries,
    foreign_ids,
    figure_6,
)
