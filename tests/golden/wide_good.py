"""Traces of domains that keep every promise."""

from typing import Any

from tests.golden.wide_dsl import WideStory

from reconvene.trace.domains import Pass


def tour() -> WideStory:
    """Two clusters exchange messages of all services; then berlin loses c, and the upper configuration changes."""
    story = WideStory("tour")
    story.begin("berlin", 1, "10")
    story.begin("paris", 11, "11")
    story.begin("world", 1, "20")
    story.represent("berlin", "a", 1)
    story.represent("paris", "a", 1)
    story.enter("20", ["berlin", "paris"], [20])
    one = story.send("berlin/b", "fifo")
    two = story.send("berlin/b", "fifo")
    three = story.send("berlin/c", "causal")
    four = story.send("berlin/c", "agreed")
    story.cross("berlin", one, two, three, four)
    five = story.send("paris/a", "safe")
    six = story.send("paris/a", "agreed")
    story.cross("paris", five, six)
    story.send("berlin/a", "agreed", scope="cluster")
    story.send("paris/a", "causal", group="bank", scope="cluster")
    eight = story.send("berlin/b", "agreed", group="shop1")
    story.cross("berlin", eight, to=("berlin",))
    return story


def change() -> WideStory:
    """As `tour`; then berlin loses c, and hands over to b; and above there is a new configuration."""
    story = tour()
    story.name = "change"
    story.crash("berlin", "c")
    story.form("berlin", "30", ["a", "b"])
    story.represent("berlin", "a", 1)
    story.at("paris/a", "lost", sender="berlin/c", reg="30")
    story.at("berlin/b", "lost", sender="berlin/c", reg="30")
    story.represent("berlin", "b", 2)
    story.form("world", "40", ["berlin.a", "berlin.b", "paris.a"])
    story.enter("20+40", ["berlin", "paris"], [20, 9], reg="20")
    story.enter("40", ["berlin", "paris"], [40])
    nine = story.send("berlin/a", "safe")
    ten = story.send("berlin/a", "safe")
    story.cross("berlin", nine, ten)
    return story


def cut_short() -> WideStory:
    """As `change`, but the run ends while messages are on their way."""
    story = change()
    story.name = "cut-short"
    story.settled = False
    story.send("paris/a", "agreed")
    story.at("paris/a", "unreachable", sender="berlin")
    return story


def casts() -> WideStory:
    """Processes cast between clusters, and one of them within berlin; then one dies, and another cluster is told."""
    story = tour()
    story.name = "casts"
    for domain in story.domains[:2]:
        domain.passes = Pass(out=["*"], into=["*"])
    story.drop(story.find("berlin/b", "send", "berlin/b:1:3"))
    for node in ("berlin/a", "berlin/b", "berlin/c"):
        story.drop(story.find(node, "deliver", "berlin/b:1:3"))
    for node, kind in (("berlin/a", "cross"), ("berlin/a", "in")):
        story.drop(story.find(node, kind, nth=-1))
    story.open_processes("berlin", "10", "bc")
    story.open_processes("paris", "11", "a")
    b, c, z = "berlin/b", "berlin/c", "paris/a"
    one = story.far_cast(b, "cbcast", [c, z])
    story.receive(c, one)
    story.cross("berlin", one[1])
    story.receive(z, one)
    two = story.far_cast(z, "cbcast", [b, c], '{"":2}')
    story.cross("paris", two[1])
    for node in (b, c):
        story.receive(node, two)
    three = story.far_cast(c, "abcast", [b, c, z], "queue")
    four = story.far_cast(z, "abcast", [b, c, z], "queue")
    story.cross("berlin", three[1])
    story.cross("paris", four[1])
    for node in (b, c, z):
        story.receive(node, three)
        story.receive(node, four)
    five = story.far_cast(b, "cbcast", [c, z], '{"":3}')
    story.receive(c, five)
    near: dict[str, Any] = {"msg": "b:1:1", "attempt": 0}
    story.near(
        "berlin", "b", "cbcast", process="b:1:1", dests=["c:1:1"], replies=0, label='{"":4}', service="causal", **near
    )
    story.near("berlin", "c", "receive", process="c:1:1", sender="b:1:1", **near)
    six = story.far_cast(c, "cbcast", [b, z], '{"":5}')
    story.receive(b, six)
    story.cross("berlin", five[1], six[1])
    for cast in (five, six):
        story.receive(z, cast)
    story.near("berlin", "c", "end", process="c:1:1")
    story.at(z, "failed", process="paris/a:1:1", sender="berlin/c:1:1")
    return story


WIDE = (tour, change, cut_short, casts)
