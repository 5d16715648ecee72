"""Runs of the durable log that keep every promise."""

from collections.abc import Callable

from tests.golden.dsl import Story
from tests.golden.log_dsl import LogStory


def stable() -> LogStory:
    """One primary component of all; what was accepted before it is ordered when it is established."""
    s = LogStory("log-stable", "pqr")
    s.begin("pqr", "10")
    s.accept("p", "a")
    s.accept("q", "b")
    s.log("pqr", "a", "b")
    s.primary(1, "pqr", "a", "b")
    s.append("r", "pqr", "c", "d")
    s.append("p", "pqr", "e")
    return s


def restarts() -> LogStory:
    """q crashes with yellow messages, restarts with them, and continues at its next position; r stays down."""
    s = LogStory("log-restarts", "pqr")
    s.begin("pqr", "10")
    s.primary(1, "pqr")
    s.append("p", "pqr", "a")
    s.accept("p", "b")
    s.log("pqr", "b")
    s.yellow("pqr", "b")
    s.green("p", "b")
    s.fail("q")
    s.join("20", "pr")
    s.green("r", "b")
    s.primary(2, "pr")
    s.append("r", "pr", "c")
    s.start("q", "25")
    s.accept("q", "d")
    s.fail("r")
    s.join("30", "pq")
    s.log("q", "c")
    s.adopt("q", 2)
    s.green("q", "b", "c")
    s.primary(3, "pq")
    s.log("pq", "d")
    s.yellow("pq", "d")
    s.green("pq", "d")
    s.down = ["r"]
    s.components = [["p", "q"]]
    return s


def figures() -> LogStory:
    """Figure 3.3 and figure 3.4: p and q order 3 and 4, p has 5 and 6 that q lacks, r has x; then q meets r."""
    s = LogStory("log-figures", "pqr")
    s.begin("pqr", "10")
    s.primary(1, "pqr")
    s.append("p", "pqr", "1", "2")
    s.leave("r", "20", "r")
    s.enter("r", "20", "r")
    s.join("21", "pq")
    s.primary(2, "pq")
    s.accept("r", "x")
    s.log("r", "x")
    s.accept("p", "3", "4", "5", "6")
    s.log("pq", "3", "4")
    s.yellow("pq", "3", "4")
    s.green("p", "3", "4")
    s.log("p", "5", "6")
    s.yellow("p", "5", "6")
    s.leave("p", "30", "p")
    s.enter("p", "30", "p")
    s.join("31", "qr")
    s.log("r", "3", "4")
    s.adopt("r", 2)
    s.yellow("r", "3", "4")
    s.log("q", "x")
    s.primary(3, "qr", "3", "4", "x")
    s.components = [["p"], ["q", "r"]]
    return s


def travels() -> LogStory:
    """t is never in a majority. s merges with it and takes what t accepted to p, q and r."""
    s = LogStory("log-travels", "pqrst")
    s.begin("pqrst", "10")
    s.join("20", "pqr")
    s.join("21", "st")
    s.accept("t", "a")
    s.log("st", "a")
    s.accept("s", "b")
    s.log("st", "b")
    s.primary(1, "pqr")
    s.append("p", "pqr", "c")
    s.leave("t", "30", "t")
    s.enter("t", "30", "t")
    s.accept("t", "alone")
    s.log("t", "alone")
    s.join("31", "pqrs")
    s.log("s", "c")
    s.adopt("s", 1)
    s.green("s", "c")
    s.log("pqr", "a", "b")
    s.primary(2, "pqrs", "a", "b")
    s.components = [["p", "q", "r", "s"], ["t"]]
    return s


def sent_again() -> LogStory:
    """p's message reaches only r before p crashes. It is sent again where r is not, and gets another timestamp."""
    s = LogStory("log-sent-again", "pqr")
    s.begin("pqr", "10")
    s.accept("p", "a")
    s.log("r", "a")
    s.fail("p")
    s.leave("r", "20", "r")
    s.enter("r", "20", "r")
    s.accept("r", "b")
    s.log("r", "b")
    s.start("p", "25")
    s.join("30", "pq")
    s.primary(1, "pq")
    s.log("pq", "a", again=True)
    s.yellow("pq", "a")
    s.green("pq", "a")
    s.append("p", "pq", "c")
    s.join("40", "pqr")
    s.log("r", "c")
    s.adopt("r", 1)
    s.green("r", "a", "c")
    s.log("pq", "b")
    s.primary(2, "pqr", "b")
    return s


def snapshots() -> LogStory:
    """r was away for long. It takes a snapshot, which covers its red copy of a and its own b, and continues after
    it."""
    s = LogStory("log-snapshots", "pqr")
    s.begin("pqr", "10")
    s.accept("p", "a")
    s.accept("r", "b")
    s.log("pqr", "a")
    s.log("pq", "b")
    s.fail("r")
    s.join("20", "pq")
    s.primary(1, "pq", "a", "b")
    s.append("q", "pq", "c", "d")
    s.start("r", "25")
    s.accept("r", "e")
    s.join("30", "pqr")
    s.snapshot("r", 4)
    s.adopt("r", 1)
    s.primary(2, "pqr")
    s.log("pqr", "e")
    s.yellow("pqr", "e")
    s.green("pqr", "e")
    s.append("r", "pqr", "f")
    return s


def yellow_goes_back() -> LogStory:
    """p alone logged y in the primary component; without it the others order z first, so that y goes back to red."""
    s = LogStory("log-yellow-goes-back", "pqr")
    s.begin("pqr", "10")
    s.primary(1, "pqr")
    s.append("q", "pqr", "x")
    s.accept("p", "y")
    s.log("p", "y")
    s.yellow("p", "y")
    s.leave("p", "20", "p")
    s.enter("p", "20", "p")
    s.join("21", "qr")
    s.primary(2, "qr")
    s.append("r", "qr", "z")
    s.join("30", "pqr")
    s.log("p", "z")
    s.red("p", "y")
    s.adopt("p", 2)
    s.green("p", "z")
    s.log("qr", "y")
    s.primary(3, "pqr", "y")
    return s


def broken_off() -> LogStory:
    """An attempt that p alone made, and a commit that q did not make: the effects of both stay."""
    s = LogStory("log-broken-off", "pqr")
    s.begin("pqr", "10")
    s.accept("p", "a")
    s.log("pqr", "a")
    s.phase("p", "attempt", 1, "pqr")
    s.join("20", "pqr")
    s.phase("pqr", "attempt", 2, "pqr")
    s.phase("p", "commit", 2, "pqr")
    s.yellow("p", "a")
    s.leave("p", "30", "p")
    s.enter("p", "30", "p")
    s.join("31", "qr")
    s.primary(3, "qr", "a")
    s.append("r", "qr", "b")
    s.join("40", "pqr")
    s.log("p", "b")
    s.adopt("p", 3)
    s.green("p", "a", "b")
    s.primary(4, "pqr")
    return s


def evenly_split() -> LogStory:
    """Two of four on each side: both accept, neither orders, and nothing was promised."""
    s = LogStory("log-evenly-split", "pqrs")
    s.begin("pqrs", "10")
    s.join("20", "pq")
    s.join("21", "rs")
    s.accept("p", "a")
    s.log("pq", "a")
    s.accept("s", "b")
    s.log("rs", "b")
    s.components = [["p", "q"], ["r", "s"]]
    return s


def weighted() -> LogStory:
    """p weighs as much as the others together, and one more: it orders alone."""
    s = LogStory("log-weighted", "pqr")
    s.quorum = {"kind": "weighted", "weights": {"p": 3, "q": 1, "r": 1}}
    s.begin("pqr", "10")
    s.leave("p", "20", "p")
    s.enter("p", "20", "p")
    s.join("21", "qr")
    s.accept("q", "a")
    s.log("qr", "a")
    s.primary(1, "p")
    s.append("p", "p", "b")
    s.components = [["p"], ["q", "r"]]
    return s


def grid() -> LogStory:
    """A row and one of the other row are a quorum; two of each row are none."""
    s = LogStory("log-grid", "pqrst")
    s.quorum = {"kind": "grid", "rows": [["p", "q"], ["r", "s", "t"]]}
    s.begin("pqrst", "10")
    s.join("20", "pqr")
    s.join("21", "st")
    s.accept("s", "a")
    s.log("st", "a")
    s.primary(1, "pqr")
    s.append("q", "pqr", "b")
    s.components = [["p", "q", "r"], ["s", "t"]]
    return s


def dynamic() -> LogStory:
    """Of five, three were the primary component; two of these may continue. The other three are more, and may not."""
    s = LogStory("log-dynamic", "pqrst")
    s.quorum = {"kind": "dynamic"}
    s.begin("pqrst", "10")
    s.join("20", "pqr")
    s.primary(1, "pqr")
    s.append("p", "pqr", "a")
    s.join("30", "pq")
    s.primary(2, "pq")
    s.append("q", "pq", "b")
    s.join("31", "rst")
    s.accept("s", "c")
    s.log("r", "c")
    s.components = [["p", "q"], ["r", "s", "t"]]
    return s


def dynamic_weighted() -> LogStory:
    """s weighs as much as two others: p, q and r are more than n - minimum of four, and may go on without it."""
    s = LogStory("log-dynamic-weighted", "pqrs")
    s.quorum = {"kind": "dynamic", "minimum": 2, "weights": {"p": 1, "q": 1, "r": 1, "s": 2}}
    s.begin("pqrs", "10")
    s.primary(1, "pqrs")
    s.append("s", "pqrs", "a")
    s.join("20", "pqr")
    s.join("21", "s")
    s.primary(2, "pqr")
    s.append("p", "pqr", "b")
    s.join("30", "pq")
    s.join("31", "r")
    s.primary(3, "pq")
    s.append("q", "pq", "c")
    s.components = [["p", "q"], ["r"], ["s"]]
    return s


def dynamic_interrupted() -> LogStory:
    """Of five, p, q and r commit, and r is cut off before it knows that all did: r, s and t may not go on. q and r
    then commit to 2 with p, who does not: 2 is dead, and p and q go on."""
    s = LogStory("log-dynamic-interrupted", "pqrst")
    s.quorum = {"kind": "dynamic", "minimum": 2}
    s.begin("pqrst", "10")
    s.join("20", "pqr")
    s.phase("pqr", "attempt", 1, "pqr")
    s.phase("pqr", "commit", 1, "pqr")
    s.phase("pq", "establish", 1, "pqr")
    s.join("25", "pqr")
    s.phase("pqr", "attempt", 2, "pqr")
    s.phase("qr", "commit", 2, "pqr")
    s.join("30", "pq")
    s.primary(3, "pq")
    s.append("q", "pq", "b")
    s.join("31", "rst")
    s.components = [["p", "q"], ["r", "s", "t"]]
    return s


def dynamic_escapes() -> LogStory:
    """p and q went on, and p is gone. The other four are more than n - minimum: they meet whatever went on."""
    s = LogStory("log-dynamic-escapes", "pqrst")
    s.quorum = {"kind": "dynamic", "minimum": 2}
    s.begin("pqrst", "10")
    s.join("20", "pqr")
    s.primary(1, "pqr")
    s.join("30", "pq")
    s.primary(2, "pq")
    s.join("40", "qrst")
    s.join("41", "p")
    for name in "rst":
        s.adopt(name, 2)
    s.primary(3, "qrst")
    s.append("t", "qrst", "a")
    s.components = [["q", "r", "s", "t"], ["p"]]
    return s


def unsettled() -> LogStory:
    """The run ends in the middle: q has acknowledged what is green at p, and no other site knows yet."""
    s = LogStory("log-unsettled", "pqr")
    s.begin("pqr", "10")
    s.primary(1, "pqr")
    s.accept("p", "a", "b")
    s.log("pqr", "a")
    s.yellow("pqr", "a")
    s.green("p", "a")
    s.log("p", "b")
    s.yellow("p", "b")
    s.settled = False
    return s


def recorded_late() -> LogStory:
    """Rows of the log that stand after a change of configuration that came meanwhile: what was made green in the
    first primary component, an attempt in the second, and the whole establishing of the third."""
    s = LogStory("log-recorded-late", "pqr")
    s.begin("pqr", "10")
    s.primary(1, "pqr")
    s.accept("p", "a")
    s.log("pqr", "a")
    s.yellow("qr", "a")
    s.join("20", "pqr")
    s.yellow("p", "a")
    s.green("pq", "a")
    s.phase("p", "attempt", 2, "pqr")
    attempt = s.rows["p"][-1]
    s.join("30", "pqr")
    s.before("p", attempt, s.rows["p"][-1])
    s.accept("q", "b")
    s.log("pqr", "b")
    s.green("r", "a")
    s.phase("pqr", "attempt", 3, "pqr")
    for node in "pqr":
        s.phase(node, "commit", 3, "pqr")
        s.yellow(node, "b")
    begun = {node: len(s.rows[node]) for node in "pqr"}
    for node in "pqr":
        s.phase(node, "establish", 3, "pqr")
        s.green(node, "b")
    late = {node: s.rows[node][begun[node] :] for node in "pqr"}
    for node in "pqr":
        del s.rows[node][begun[node] :]
    s.join("40", "pqr")
    for node in "pqr":
        s.rows[node] += late[node]
    s.primary(4, "pqr")
    return s


def number_given_again() -> LogStory:
    """p alone attempts a primary component and crashes. The others, which did not, attempt one with the same
    number."""
    s = LogStory("log-number-given-again", "pqr")
    s.begin("pqr", "10")
    s.phase("p", "attempt", 1, "pqr")
    s.fail("p")
    s.join("20", "qr")
    s.primary(1, "qr")
    s.append("q", "qr", "a")
    s.start("p", "25")
    s.join("30", "pqr")
    s.log("p", "a")
    s.adopt("p", 1)
    s.green("p", "a")
    s.primary(2, "pqr")
    return s


def replicas_changed() -> LogStory:
    """Two replicas of five were removed, so two of the others are enough, which run.json could not show."""
    s = LogStory("log-replicas-changed", "pqrst")
    s.quorum = {"kind": "majority", "changed": True}
    s.begin("pqrst", "10")
    s.primary(1, "pqrst")
    s.append("p", "pqrst", "a")
    s.join("20", "pq")
    s.primary(2, "pq")
    s.append("q", "pq", "b")
    s.join("21", "rst")
    s.accept("s", "c")
    s.log("rs", "c")
    s.components = [["p", "q"], ["r", "s", "t"]]
    return s


def replica_removed() -> LogStory:
    """One replica of four was removed, and its site stays in the component: it need not have what came after."""
    s = LogStory("log-replica-removed", "pqrs")
    s.quorum = {"kind": "majority", "changed": True}
    s.begin("pqrs", "10")
    s.primary(1, "pqrs")
    s.append("p", "pqrs", "a")
    s.accept("s", "of-the-removed")
    s.join("20", "pqrs")
    s.primary(2, "pqr")
    s.append("q", "pqr", "b")
    s.components = [["p", "q", "r", "s"]]
    return s


def followed() -> LogStory:
    """f follows from the first message on; g from a snapshot on, and restarts; o accepts where no node is."""
    s = LogStory("log-followed", "pqr")
    s.begin("pqr", "10")
    s.beside("fg", "o")
    s.primary(1, "pqr")
    s.append("p", "pqr", "a", "b")
    s.green("f", "a", "b")
    s.snapshot("g", 1)
    s.green("g", "b")
    s.outpost("o", "pqr", "c")
    s.green("fg", "c")
    s.inc["g"] += 1
    s.append("q", "pqr", "d")
    s.green("fg", "d")
    return s


def followed_by_the_cut_off() -> LogStory:
    """f is with the minority, which has less than the others; o is there too, and what it accepts has to wait. h is
    down."""
    s = LogStory("log-followed-apart", "pqr")
    s.begin("pqr", "10")
    s.beside("fh", "o")
    s.primary(1, "pqr")
    s.append("p", "pqr", "a")
    s.green("f", "a")
    s.join("20", "pq")
    s.join("21", "r")
    s.primary(2, "pq")
    s.append("q", "pq", "b")
    s.accept("o", "c")
    s.components = [["p", "q", "h"], ["r", "f", "o"]]
    s.down = ["h"]
    return s


def followed_after_a_blackout() -> LogStory:
    """All nodes crash before the green line of b is on their disks, and two of four on each side do not learn it
    again. f lacks b, as they do; g got it in time."""
    s = LogStory("log-followed-after-a-blackout", "pqrs")
    s.begin("pqrs", "10")
    s.beside("fg")
    s.primary(1, "pqrs")
    s.append("p", "pqrs", "a")
    s.green("fg", "a")
    s.append("p", "pqrs", "b")
    s.green("g", "b")
    for node in "pqrs":
        s.fail(node)
        s.start(node, f"2{node}")
    s.join("30", "pq")
    s.join("31", "rs")
    s.accept("p", "c")
    s.log("pq", "c")
    s.accept("s", "d")
    s.log("rs", "d")
    s.components = [["p", "q", "f"], ["r", "s", "g"]]
    return s


def copies() -> LogStory:
    """p and q both take over what the outpost accepted. p's copy seemed to be the first, until p met the others: then
    q's counts, p's is void, and what p accepted after its copy follows it everywhere."""
    s = LogStory("log-copies", "pqr")
    s.begin("pqr", "10")
    s.beside("f", "o")
    s.primary(1, "pqr")
    s.accept("o", "m")
    s.copy("p", "first")
    s.log("p", "first")
    s.yellow("p", "first")
    s.accept("p", "w")
    s.join("20", "qr")
    s.join("21", "p")
    s.log("p", "w")
    s.primary(2, "qr")
    s.copy("q", "second")
    s.log("qr", "second")
    s.yellow("qr", "second")
    s.green("qr", "second")
    s.join("30", "pqr")
    s.adopt("p", 2)
    s.log("p", "second")
    s.red("p", "first")
    s.green("p", "second")
    s.log("qr", "first", "w")
    s.primary(3, "pqr", "first", "w")
    s.green("f", "second", "first", "w")
    s.show("p", "first", "m", "log", "yellow", "red")
    s.show("qr", "second", "m", "log", "yellow", "green")
    s.show("pf", "second", "m", "green")
    return s


LOGGED: tuple[Callable[[], Story], ...] = (
    stable,
    restarts,
    figures,
    travels,
    sent_again,
    snapshots,
    yellow_goes_back,
    broken_off,
    evenly_split,
    weighted,
    grid,
    dynamic,
    dynamic_weighted,
    dynamic_interrupted,
    dynamic_escapes,
    unsettled,
    recorded_late,
    number_given_again,
    replicas_changed,
    replica_removed,
    followed,
    followed_by_the_cut_off,
    followed_after_a_blackout,
    copies,
)
