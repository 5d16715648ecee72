"""A bulletin board: processes post on topics, and read what is posted from a copy of their own.

How it is made: a post is one cast to all copies, and each post says how much order it needs.

    unordered   a CBCAST with an empty label: it waits for nothing, not even for what its author posted before
    causal      a CBCAST: no copy shows it before everything that its author's copy showed when it was posted
    total       a causal ABCAST: as causal, and all copies come to show the total posts of the board in one order

Reading asks nobody. While posts are on their way, two copies can differ, as far as the levels allow. Once they have
arrived, all copies are the same: a post has a place, and copies sort by it, in whichever order posts come. The place
is a Lamport clock and the author. The place of a total post is decided when it is received, behind the total post
before it: ABCAST makes that the same everywhere. A board keeps the `keep` posts with the highest places. A post that
is taken down keeps its place, empty, so that all copies drop the same posts.

    async with Bulletin(site.isis, "traffic") as board:
        await board.post("A1", "jam at exit 7")
        await board.post("A1", "closed", level=Level.TOTAL)
        for post in board.read("A1"):
            print(post.author, post.value)
"""

import asyncio
from bisect import bisect_left
from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from reconvene.client.arguments import check_count, check_text, encoded
from reconvene.client.events import Process
from reconvene.client.isis import Isis
from reconvene.client.isis_events import UNORDERED, Action, Cast
from reconvene.errors import InvalidArgument, OutcomeUnknown, ReconveneError, Rejected
from reconvene.objects.member import Member

__all__ = ["Bulletin", "Level", "Post"]

_TOPIC_LETTERS = 255
_VALUE_BYTES = 64 << 10
_MOST_KEPT = 100_000


class Level(StrEnum):
    """How much order a post needs: see above."""

    UNORDERED = "unordered"
    CAUSAL = "causal"
    TOTAL = "total"


class Place(NamedTuple):
    """Of a post among all posts of the board."""

    clock: int
    author: Process
    number: int
    """Among the author's posts."""


class Post(NamedTuple):
    place: Place
    topic: str
    value: Any
    level: Level

    @property
    def author(self) -> Process:
        return self.place.author


class Posted(msgspec.Struct, array_like=True, tag="post", frozen=True):
    """The cast. `clock` is one more than all that its author's copy had."""

    number: int
    clock: int
    topic: str
    value: Any
    level: Level


class TakenDown(msgspec.Struct, array_like=True, tag="take down", frozen=True):
    place: Place


_cast = msgspec.msgpack.Decoder(Posted | TakenDown)


class Bulletin(Member):
    """Values are what msgpack can hold, up to 64 KiB. `keep`: so many posts; that of the first copy counts."""

    def __init__(self, isis: Isis, name: str = "bulletin", *, keep: int = 1_000, last_to_fail: bool = False) -> None:
        super().__init__(isis, name, last_to_fail=last_to_fail)
        self.keep = check_count(keep, "keep", 1, _MOST_KEPT + 1)
        self._places: list[Place] = []
        """Sorted."""
        self._posts: dict[Place, Post] = {}
        """Those at a place that is not empty."""
        self._clock = 0
        """The highest that this copy has seen or used."""
        self._last_total = 0
        """The clock of the last total post's place."""
        self._posted = 0
        self._waiting: dict[int, asyncio.Future[Post]] = {}
        """By number: own posts that are not on the board yet."""

    async def post(self, topic: str, value: Any, *, level: Level | str = Level.CAUSAL) -> Post:
        """Returns when the post is on this copy: at once for unordered and causal posts, except where the group gains
        a member; after the others have answered for total ones.

        Raises Unavailable where it was not posted (not in the primary component, say: see `ready`), OutcomeUnknown
        where this process was killed meanwhile.
        """
        check_text(topic, "topic", _TOPIC_LETTERS)
        level = _level(level)
        if len(encoded(value, "value")) > _VALUE_BYTES:
            raise InvalidArgument(f"value: at most {_VALUE_BYTES} bytes expected")
        group = self._in_group()
        self._posted += 1
        self._clock += 1
        number = self._posted
        data = encoded(Posted(number, self._clock, topic, value, level), "value")
        waiting: asyncio.Future[Post] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            if level is Level.TOTAL:
                await group.abcast(data, label=self.name, causal=True)
            else:
                await group.cbcast(data, label=UNORDERED if level is Level.UNORDERED else None)
            return await waiting
        finally:
            del self._waiting[number]

    async def take_down(self, post: Post) -> None:
        """Returns when that is on its way. Raises Rejected where the post is not on this copy."""
        if not isinstance(post, Post):
            raise TypeError(f"post: one that was read from the board expected, not {type(post).__name__}")
        if post.place not in self._posts:
            raise Rejected(f"post {post.place.number} of {post.author} is not on the board any more")
        await self._in_group().cbcast(encoded(TakenDown(post.place), "post"))

    def read(self, topic: str | None = None) -> list[Post]:
        """What this copy has, in the order of places. None: on all topics."""
        posts = [self._posts[place] for place in self._places if place in self._posts]
        return posts if topic is None else [post for post in posts if post.topic == topic]

    def topics(self) -> list[str]:
        return sorted({post.topic for post in self._posts.values()})

    async def watch(self, topic: str | None = None) -> AsyncIterator[list[Post]]:
        """What `read` returns, now and whenever it is something else. Changes that come faster than they are read are
        shown together. Raises Unavailable when the board was left, or its group deleted."""
        shown: list[Post] | None = None
        while True:
            posts = self.read(topic)
            if posts == shown:
                await self._changed()
            else:
                shown = posts
                yield posts

    # -- the group

    def received(self, cast: Cast | Action) -> None:
        try:
            said = _cast.decode(cast.data)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return  # of a stranger
        if cast.sender not in self.members:
            return
        if isinstance(said, TakenDown):
            self._posts.pop(said.place, None)
            self._put(said.place)  # an unordered post may come after it was taken down
            return
        clock = said.clock
        if said.level is Level.TOTAL:
            clock = self._last_total = max(clock, self._last_total + 1)
        post = Post(Place(clock, cast.sender, said.number), said.topic, said.value, said.level)
        if self._put(post.place):
            self._posts[post.place] = post
        waiting = self._waiting.get(said.number) if cast.sender == self._isis.me else None
        if waiting is not None and not waiting.done():
            waiting.set_result(post)

    def _put(self, place: Place) -> bool:
        """Returns whether the place is new, and high enough to be kept."""
        self._clock = max(self._clock, place.clock)
        at = bisect_left(self._places, place)
        if at < len(self._places) and self._places[at] == place:
            return False
        self._places.insert(at, place)
        if len(self._places) <= self.keep:
            return True
        lowest = self._places.pop(0)
        self._posts.pop(lowest, None)
        return lowest != place

    def state(self) -> Any:
        return (self.keep, self._last_total, [(place, self._posts.get(place)) for place in self._places])

    def restore(self, state: Any) -> None:
        self.keep, self._last_total, rows = msgspec.convert(
            state, tuple[int, int, list[tuple[Place, Post | None]]], strict=False
        )
        self._places = [place for place, _ in rows]
        self._posts = {place: post for place, post in rows if post is not None}
        self._clock = max([self._last_total, *(place.clock for place in self._places)])

    def interrupted(self, error: ReconveneError) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(OutcomeUnknown(f"{error}: it may or may not have been posted"))
                waiting.exception()  # perhaps its caller does not wait for it any more


def _level(level: object) -> Level:
    try:
        return Level(str(level))
    except ValueError:
        raise InvalidArgument(f"level: one of {', '.join(Level)} expected, not {level!r}") from None
