"""Traces of domains that break a promise: one row of a good one is changed, left out, or stands elsewhere."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.golden.wide_dsl import WideStory
from tests.golden.wide_good import casts, change


@dataclass(frozen=True)
class BrokenWide:
    check: str
    what: str
    also: tuple[str, ...]
    spoil: Callable[[WideStory], None]
    base: Callable[[], WideStory] = change

    @property
    def name(self) -> str:
        return f"{self.check}--{self.what}"

    def tell(self) -> WideStory:
        story = self.base()
        story.name = self.name
        self.spoil(story)
        return story


BROKEN_WIDE: list[BrokenWide] = []

ONE, TWO = "berlin/b:1:1", "berlin/b:1:2"
CAUSE, EFFECT = "berlin/c:1:1", "berlin/c:1:2"
FIVE, SIX = "paris/a:1:1", "paris/a:1:2"
NINE, TEN = "berlin/a:1:2", "berlin/a:1:3"


def broken_wide(
    check: str, what: str, also: Sequence[str] = (), base: Callable[[], WideStory] = change
) -> Callable[[Callable[[WideStory], None]], Callable[[WideStory], None]]:
    def register(spoil: Callable[[WideStory], None]) -> Callable[[WideStory], None]:
        BROKEN_WIDE.append(BrokenWide(check, what, tuple(also), spoil, base))
        return spoil

    return register


@broken_wide("wide.once", "delivered-twice")
def _(story: WideStory) -> None:
    story.again(story.find("paris/a", "deliver", ONE))


@broken_wide("wide.once", "another-group")
def _(story: WideStory) -> None:
    story.find("paris/a", "deliver", ONE).group = "shop1"


@broken_wide("wide.once", "never-sent")
def _(story: WideStory) -> None:
    story.drop(story.find("berlin/b", "send", ONE))


@broken_wide("wide.pass", "rules-forbid-it")
def _(story: WideStory) -> None:
    story.at("paris/a", "deliver", msg="berlin/b:1:3", **story.sent["berlin/b:1:3"], ts=[40, 0, 99, 0])


@broken_wide("wide.pass", "of-scope-cluster")
def _(story: WideStory) -> None:
    story.at("paris/a", "deliver", msg="berlin/a:1:1", **story.sent["berlin/a:1:1"])


@broken_wide("wide.fifo", "swapped")
def _(story: WideStory) -> None:
    story.swap(story.find("paris/a", "deliver", ONE), story.find("paris/a", "deliver", TWO))


@broken_wide("wide.fifo", "dropped-elsewhere")
def _(story: WideStory) -> None:
    story.drop(story.find("paris/a", "deliver", ONE))


@broken_wide("wide.fifo", "dropped-at-home")
def _(story: WideStory) -> None:
    story.drop(story.find("berlin/a", "deliver", ONE))


@broken_wide("wide.causal", "swapped")
def _(story: WideStory) -> None:
    story.swap(story.find("paris/a", "deliver", CAUSE), story.find("paris/a", "deliver", EFFECT))


@broken_wide("wide.causal", "dropped")
def _(story: WideStory) -> None:
    story.drop(story.find("paris/a", "deliver", CAUSE))


@broken_wide("wide.order", "swapped", ["wide.causal"])
def _(story: WideStory) -> None:
    story.swap(story.find("berlin/b", "deliver", FIVE), story.find("berlin/b", "deliver", SIX))


@broken_wide("wide.order", "another-place")
def _(story: WideStory) -> None:
    story.find("paris/a", "deliver", TEN).ts = [40, 0, 77, 7]


@broken_wide("wide.order", "one-place-twice")
def _(story: WideStory) -> None:
    for node in ("berlin/a", "berlin/b", "paris/a"):
        story.find(node, "deliver", TEN).ts = story.find(node, "deliver", NINE).ts


@broken_wide("wide.order", "no-place")
def _(story: WideStory) -> None:
    row = story.find("paris/a", "deliver", TEN)
    story.at("paris/a", "deliver", msg=TEN, sender=row.sender, service=row.service, group=row.group)
    story.drop(row)


@broken_wide("wide.agree", "dropped", ["wide.causal"])
def _(story: WideStory) -> None:
    story.drop(story.find("berlin/b", "deliver", SIX))


@broken_wide("wide.agree", "after-the-change", ["wide.causal", "wide.order"])
def _(story: WideStory) -> None:
    late = story.find("berlin/b", "deliver", SIX)
    story.again(late)
    story.drop(late)


@broken_wide("wide.self", "dropped-fifo")
def _(story: WideStory) -> None:
    story.drop(story.find("berlin/b", "deliver", TWO))


@broken_wide("wide.self", "dropped-agreed", ["wide.agree", "wide.causal"])
def _(story: WideStory) -> None:
    story.drop(story.find("paris/a", "deliver", SIX))


@broken_wide("wide.safe", "a-site-lacks-the-cross", ["evs.5", "evs.6.3", "evs.7.1", "live.delivery"])
def _(story: WideStory) -> None:
    cross = story.find("berlin/b", "cross", nth=0).msg
    story.drop(next(row for row in story.levels["berlin"]["a"] if row.kind == "deliver" and row.msg == cross))


@broken_wide("wide.safe", "a-gateway-lacks-the-crossing", ["evs.7.1", "live.delivery"])
def _(story: WideStory) -> None:
    crossing = story.find("paris/a", "in", nth=-1).msg
    rows = story.levels["world"]["berlin.a"]
    story.drop(next(row for row in rows if row.kind == "deliver" and row.msg == crossing))


@broken_wide("wide.first", "before-it-is-safe")
def _(story: WideStory) -> None:
    row = story.find("berlin/a", "cross")
    delivery = next(each for each in story.levels["berlin"]["a"] if each.kind == "deliver" and each.msg == row.msg)
    row.n, delivery.n = delivery.n, row.n


@broken_wide("wide.first", "an-agreed-cross", ["evs.1.3"])
def _(story: WideStory) -> None:
    cross = story.find("berlin/a", "cross").msg
    for rows in story.levels["berlin"].values():
        for row in rows:
            if row.msg == cross and row.kind == "deliver":
                row.service = "agreed"


@broken_wide("wide.first", "no-such-cross")
def _(story: WideStory) -> None:
    story.find("berlin/a", "cross").msg = "a:1:99"


@broken_wide("wide.rep", "not-by-the-representative")
def _(story: WideStory) -> None:
    story.find("berlin/b", "cross").view = 1


@broken_wide("wide.rep", "a-term-of-nobody")
def _(story: WideStory) -> None:
    story.find("paris/a", "in").view = 7


@broken_wide("wide.rep", "two-in-one-term")
def _(story: WideStory) -> None:
    story.find("berlin/b", "rep").sender = "berlin/b"


@broken_wide("wide.views", "another-member")
def _(story: WideStory) -> None:
    story.find("paris/a", "view").members = ["berlin/10/teller", "paris/11/teller", "paris/11/thief"]


@broken_wide("wide.views", "another-local-configuration")
def _(story: WideStory) -> None:
    story.find("berlin/b", "view", nth=1).members = ["berlin/10/teller", "paris/11/teller"]


@broken_wide("wide.lost", "still-a-member")
def _(story: WideStory) -> None:
    story.find("paris/a", "lost").reg = "10"


@broken_wide("wide.lost", "no-such-configuration")
def _(story: WideStory) -> None:
    story.find("paris/a", "lost").reg = "31"


@broken_wide("wide.lost", "not-a-majority")
def _(story: WideStory) -> None:
    story.find("paris/a", "lost").reg = "1"


@broken_wide("wide.lost", "before-it-was-dropped")
def _(story: WideStory) -> None:
    row = story.find("berlin/b", "lost")
    left = next(each for each in story.levels["berlin"]["b"] if each.conf == "10+30")
    story.drop(row)
    row.n = left.n
    story.wide["berlin/b"].insert(story.wide["berlin/b"].index(story.find("berlin/b", "rep", nth=1)), row)


@broken_wide("live.wide", "dropped")
def _(story: WideStory) -> None:
    story.drop(story.find("berlin/b", "deliver", TEN))


@broken_wide("live.wide", "never-crossed")
def _(story: WideStory) -> None:
    story.send("paris/a", "agreed")


@broken_wide("live.wide", "a-fifo-one-is-lost")
def _(story: WideStory) -> None:
    story.send("berlin/a", "fifo")


# -- casts between clusters

Z_CASTS = {
    1: "berlin/b:1:1",
    2: "paris/a:1:1",
    3: "berlin/c:1:1",
    4: "paris/a:1:2",
    5: "berlin/b:1:2",
    6: "berlin/c:1:2",
}


@broken_wide("wide.cast-once", "received-twice", base=casts)
def _(story: WideStory) -> None:
    story.again(story.find("paris/a", "receive", Z_CASTS[1]))


@broken_wide("wide.cast-once", "no-destination", base=casts)
def _(story: WideStory) -> None:
    story.find("berlin/b", "cbcast", Z_CASTS[1]).dests = ["berlin/c:1:1"]


@broken_wide("wide.cast-once", "brought-by-what-never-came", base=casts)
def _(story: WideStory) -> None:
    story.find("paris/a", "receive", Z_CASTS[1]).reg = "berlin/b:1:77"


@broken_wide("wide.cast-all", "not-handed-on", base=casts)
def _(story: WideStory) -> None:
    story.drop(story.find("berlin/b", "receive", Z_CASTS[2]))


@broken_wide("wide.cast-all", "not-handed-on-elsewhere", base=casts)
def _(story: WideStory) -> None:
    story.drop(story.find("paris/a", "receive", Z_CASTS[3]))


@broken_wide("wide.cast-causal", "by-way-of-a-cast-within-the-cluster", base=casts)
def _(story: WideStory) -> None:
    story.swap(story.find("paris/a", "receive", Z_CASTS[5]), story.find("paris/a", "receive", Z_CASTS[6]))


@broken_wide("wide.cast-causal", "a-cast-within-the-cluster-comes-first", base=casts)
def _(story: WideStory) -> None:
    """c receives b's cast within the cluster before the one to other clusters that b sent before it."""
    far = story.find("berlin/c", "receive", Z_CASTS[5])
    near = next(row for row in story.levels["berlin"]["c"] if row.layer == "isis" and row.kind == "receive")
    far.n, near.n = near.n, far.n


@broken_wide("wide.cast-order", "two-orders", base=casts)
def _(story: WideStory) -> None:
    story.swap(story.find("berlin/b", "receive", Z_CASTS[3]), story.find("berlin/b", "receive", Z_CASTS[4]))


@broken_wide("wide.cast-order", "another-order-elsewhere", base=casts)
def _(story: WideStory) -> None:
    story.swap(story.find("paris/a", "receive", Z_CASTS[3]), story.find("paris/a", "receive", Z_CASTS[4]))


@broken_wide("wide.cast-direct", "a-cast-that-is-for-nobody-outside", ("wide.cast-once",), base=casts)
def _(story: WideStory) -> None:
    story.drop(story.find("berlin/b", "cbcast", Z_CASTS[1]))


@broken_wide("wide.cast-direct", "cast-to-another-group", base=casts)
def _(story: WideStory) -> None:
    story.find("berlin/c", "cbcast", Z_CASTS[6]).group = "news"


@broken_wide("wide.cast-failed", "lives", base=casts)
def _(story: WideStory) -> None:
    story.find("paris/a", "failed").sender = "berlin/b:1:1"


@broken_wide("wide.cast-failed", "heard-of-after-that", base=casts)
def _(story: WideStory) -> None:
    story.swap(story.find("paris/a", "failed"), story.find("paris/a", "receive", Z_CASTS[6]))
