"""The bulletin board, in virtual time: what each level promises, while sites are cut off and crash."""

import asyncio
import random
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.objects.faults import ISIS, break_something
from tests.sim.chunks import few

from reconvene import UNORDERED, InvalidArgument, OutcomeUnknown, Rejected, Site, Unavailable
from reconvene.objects import Bulletin, Level, Post
from reconvene.objects.bulletin import Place
from reconvene.testing import Cluster

Make = Callable[..., Cluster]


def check_causes(shown: list[Post], had: set[Any], keep: int) -> None:
    """No post stands on a copy that never had what its author's copy had when it was posted. `had`: by this copy,
    ever. A board that is full has forgotten some."""
    for post in shown:
        if post.level is not Level.UNORDERED and len(shown) < keep:
            assert {tuple(cause) for cause in post.value} <= had, f"{post} before its cause"


def name_of(post: Post) -> tuple[str, int]:
    return str(post.author), post.place.number


class Watched:
    """A board of one site, with what it has shown."""

    def __init__(self, board: Bulletin, site: Site) -> None:
        self.board = board
        self._isis = site.isis
        self._me = site.isis.me
        self.totals: list[tuple[str, int]] = []
        """As they came to be shown, since this process was last killed: it may have had what others have not."""
        self._had: set[Any] = set()

    async def watch(self) -> None:
        async for posts in self.board.watch():
            if self._me != self._isis.me:
                self._me, self.totals, self._had = self._isis.me, [], set()
            self._had.update(map(name_of, posts))
            check_causes(posts, self._had, self.board.keep)
            seen = [name_of(post) for post in posts if post.level is Level.TOTAL]
            new = [one for one in seen if one not in self.totals]
            if seen[len(seen) - len(new) :] != new:
                raise AssertionError(f"total posts came in before others: {seen} after {self.totals}")
            self.totals += new

    async def post(self, count: int) -> None:
        """Each post names those that its author can see."""
        for _ in range(count):
            await asyncio.sleep(random.uniform(0, 0.1))
            await self.board.ready()
            level = random.choice(list(Level))
            causes = [name_of(post) for post in self.board.read() if post.level is not Level.UNORDERED][-20:]
            try:
                await self.board.post(random.choice("xyz"), causes, level=level)
            except (Unavailable, OutcomeUnknown):
                continue


async def member(kind: type[Bulletin], site: Site, boards: dict[str, Watched], posts: int) -> None:
    async with kind(site.isis, "board", keep=500, last_to_fail=True) as board, asyncio.TaskGroup() as tasks:
        watched = boards[site.name] = Watched(board, site)
        tasks.create_task(watched.watch())
        await watched.post(posts)
        await asyncio.sleep(10_000)


def run(make: Make, seed: int, kind: type[Bulletin] = Bulletin, faults: int = 3) -> list[list[Post]]:
    boards: dict[str, Watched] = {}

    async def program(net: Cluster, name: str) -> None:
        async with net.connect(name, wait=60) as site:
            await member(kind, site, boards, 40)

    async def scenario(net: Cluster) -> list[list[Post]]:
        for name in net.names:
            net.spawn(name, program, net, name)
        for _ in range(faults):
            await asyncio.sleep(random.uniform(0.5, 3))
            await break_something(net)
        await asyncio.sleep(60)
        for watched in boards.values():
            await watched.board.ready(60)
        return [watched.board.read() for watched in boards.values()]

    return make("abc", seed=seed, settings=ISIS, limit="20min", jitter="30ms").run(scenario)


@pytest.mark.parametrize("seed", few(range(4), 2))
def test_copies_agree_and_every_level_holds(cluster: Make, seed: int) -> None:
    first, *others = run(cluster, seed)
    assert len(others) == 2
    assert len(first) > 60
    for other in others:
        assert other == first


class CausalWithoutOrder(Bulletin):
    """Planted: a causal post is sent with the label of an unordered one."""

    def _in_group(self) -> Any:
        return _Unlabelled(super()._in_group())


class _Unlabelled:
    def __init__(self, group: Any) -> None:
        self.abcast = group.abcast
        self._group = group

    async def cbcast(self, data: bytes, label: Any = None) -> Any:
        return await self._group.cbcast(data, label=UNORDERED)


class TotalByClock(Bulletin):
    """Planted: the place of a total post is its author's clock, not behind the last total post."""

    def received(self, cast: Any) -> None:
        self._last_total = -1
        super().received(cast)


class OldState(Bulletin):
    """Planted: a newcomer gets the board without its last posts."""

    def state(self) -> Any:
        keep, last, rows = super().state()
        return keep, last, rows[:-2]


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (CausalWithoutOrder, "before its cause"),
        (TotalByClock, "total posts came in before others"),
        (OldState, "copies differ"),
    ],
)
def test_a_planted_bug_is_caught(cluster: Make, kind: type[Bulletin], why: str) -> None:
    """By one of a few seeds."""

    def judge() -> None:
        for seed in range(8):
            first, *others = run(cluster, seed, kind)
            assert others == [first, first], "copies differ"

    with pytest.raises((AssertionError, ExceptionGroup)) as caught:
        judge()
    errors = caught.value.exceptions if isinstance(caught.value, ExceptionGroup) else [caught.value]
    assert why in str(errors[0])


def test_posts_are_taken_down_and_dropped_alike(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        async with AsyncExitStack() as stack:
            a, b, c = [await stack.enter_async_context(net.connect(name)) for name in "abc"]
            async with Bulletin(a.isis, keep=5) as one, Bulletin(b.isis) as two:
                assert two.keep == 5
                posts = [await one.post("x", number, level=random.choice(list(Level))) for number in range(7)]
                await asyncio.sleep(1)
                assert [post.value for post in one.read()] == [post.value for post in two.read()] == [2, 3, 4, 5, 6]
                await two.take_down(two.read("x")[1])
                with pytest.raises(Rejected, match="not on the board"):
                    await one.take_down(posts[0])
                await asyncio.sleep(1)
                async with Bulletin(c.isis) as three:
                    for board in (one, two, three):
                        assert [post.value for post in board.read("x")] == [2, 4, 5, 6]
                        assert board.topics() == ["x"]
                    await three.post("y", "last")
                    await asyncio.sleep(1)
                    # The empty place counts, so that all drop the same.
                    for board in (one, two, three):
                        assert [post.value for post in board.read()] == [4, 5, 6, "last"]
                with pytest.raises(Unavailable, match="was left"):
                    await three.post("y", "late")
                await asyncio.sleep(1)
                assert len(one.members) == 2

    cluster("abc", settings=ISIS).run(scenario)


def test_an_unordered_post_that_comes_after_it_was_taken_down(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        async with net.connect("a") as a, Bulletin(a.isis) as board:
            place = Place(3, a.isis.me, 1)
            assert board._put(place)
            assert not board._put(place)
            assert board.read() == []

    cluster("abc", settings=ISIS).run(scenario)


def test_bad_input(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        async with net.connect("a") as a, net.connect("b") as b:
            with pytest.raises(TypeError, match=r"site\.isis"):
                Bulletin(a)  # type: ignore[arg-type]
            with pytest.raises(InvalidArgument, match="keep"):
                Bulletin(a.isis, keep=0)
            async with Bulletin(a.isis) as board:
                with pytest.raises(Rejected, match="an object of this name"):
                    await Bulletin(a.isis).__aenter__()
                with pytest.raises(InvalidArgument, match="level: one of unordered, causal, total expected"):
                    await board.post("x", 1, level="safe")
                with pytest.raises(InvalidArgument, match="65536 bytes"):
                    await board.post("x", b"y" * 70_000)
                with pytest.raises(TypeError, match="numbers, text"):
                    await board.post("x", object())
                with pytest.raises(InvalidArgument, match="topic"):
                    await board.post("", 1)
                for junk in (b"", b"\xff", b"text"):
                    await b.isis.cbcast(junk, to="bulletin")
                await asyncio.sleep(1)
                assert board.read() == []

    cluster("abc", settings=ISIS).run(scenario)
