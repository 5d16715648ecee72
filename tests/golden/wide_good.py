"""Traces of domains that keep every promise."""

from tests.golden.wide_dsl import WideStory


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


WIDE = (tour, change, cut_short)
