"""`site.isis`: process groups in the manner of ISIS, on simulated machines, with every trace judged."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

import reconvene
from reconvene import ALL, Action, Cast, GroupLeft, GroupView, Killed, ProcessFailed, Reply
from reconvene.testing import Cluster

Make = Callable[..., Cluster]
ON = {"isis": {"enabled": True}, "log": {"enabled": False}}


async def answering(site: reconvene.Site, group: str = "bank", seen: list[Any] | None = None) -> None:
    """A member that answers with its site's name."""
    await site.isis.join(group)
    async for event in site.isis:
        if seen is not None:
            seen.append(event)
        if isinstance(event, Cast) and event.wants_reply:
            await event.reply(site.name.encode())


async def until(isis: reconvene.Isis, wanted: Callable[[Any], bool]) -> list[Any]:
    """What is read up to the first such event."""
    seen = []
    async for event in isis:
        seen.append(event)
        if wanted(event):
            return seen
    raise AssertionError("the end")


def data_of(events: list[Any]) -> list[bytes]:
    return [event.data for event in events if isinstance(event, Cast | Action)]


def test_casts_replies_actions_and_views(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        seen: dict[str, list[Any]] = {"b": [], "c": []}
        async with net.connect("a") as a, net.connect("b") as b, net.connect("c") as c:
            isis = a.isis
            bank = await isis.join("bank", answers=False)
            tasks = [asyncio.create_task(answering(site, seen=seen[site.name])) for site in (b, c)]
            await until(isis, lambda event: isinstance(event, GroupView) and len(event.members) == 3)
            call = await bank.abcast(b"push", label="queue", replies=ALL)
            replies = [reply async for reply in call]
            assert sorted(reply.data for reply in replies if isinstance(reply, Reply)) == [b"", b"b", b"c"]
            assert (await (await bank.cbcast(b"x=1", label="x", replies=1)).replies()) != []
            await bank.cbcast(b"x=2", label="x")
            await bank.gbcast(b"act")
            order = [*reversed(bank.view.members)]
            await bank.rank(order)
            await bank.set(mode=b"ro")
            await isis.flush()
            read = await until(isis, lambda event: isinstance(event, GroupView) and bool(event.properties))
            assert data_of(read) == [b"push", b"x=1", b"x=2", b"act"]
            assert bank.view.members == tuple(order)
            assert bank.view.properties == {"mode": b"ro"}
            assert [isis.site_number(member) for member in order] == ["abc".index(member.site) for member in order]
            status = (await a.status()).isis
            assert status is not None
            assert bank.view.primary == status.view
            (known,) = await isis.groups()
            assert (known.name, known.members) == ("bank", tuple(map(str, order)))
            assert isinstance(read[3], Action)
            await bank.delete()
            assert await until(isis, lambda event: isinstance(event, GroupLeft)) == [GroupLeft("bank", deleted=True)]
            with pytest.raises(reconvene.Unavailable, match="not in it"):
                await bank.cbcast(b"late")
            await asyncio.sleep(1)
            for events in seen.values():
                assert data_of(events) == [b"push", b"x=1", b"x=2", b"act"]
                assert events[-1] == GroupLeft("bank", deleted=True)
            for task in tasks:
                task.cancel()

    cluster("abc", settings=ON).run(scenario)


def test_processes_and_outsiders(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        async with net.connect("a") as a, net.connect("b") as b, net.connect("c") as c:
            bank = await b.isis.join("bank")
            p, q = await a.isis.open("p"), b.isis.me
            await c.isis.cbcast(b"hi", to=[p, q])
            await c.isis.cbcast(b"to all", to="bank")
            await a.isis.abcast(b"queued", to=[str(q)])
            assert (await a.isis.next(timeout=5)).data == b"hi"  # type: ignore[union-attr]
            read = await until(b.isis, lambda event: isinstance(event, Cast) and event.data == b"queued")
            assert data_of(read) == [b"hi", b"to all", b"queued"]
            assert {event.group for event in read if isinstance(event, Cast)} == {None, "bank"}
            async with bank:
                pass
            assert await until(b.isis, lambda event: isinstance(event, GroupLeft))
            assert await b.isis.groups() == []

    cluster("abc", settings=ON).run(scenario)


class Words:
    def __init__(self) -> None:
        self.words: list[bytes] = []
        self.taken: list[bytes] | None = None
        self.read: list[Any] = []

    def give(self) -> list[bytes]:
        return self.words

    def take(self, chunks: list[bytes]) -> None:
        self.taken = list(chunks)
        self.words = list(chunks)

    async def follow(self, isis: reconvene.Isis, pause_s: float = 0.0) -> None:
        async for event in isis:
            self.read.append(event)
            if isinstance(event, Cast):
                self.words.append(event.data)
            await asyncio.sleep(pause_s)


async def words_at(site: reconvene.Site) -> tuple[Words, "asyncio.Task[None]", reconvene.IsisGroup]:
    words = Words()
    joining = asyncio.create_task(site.isis.join("words", state=words))
    following = asyncio.create_task(words.follow(site.isis))  # reads before it is joined
    return words, following, await joining


def test_a_newcomer_takes_the_state_and_what_came_meanwhile_is_held(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        async with net.connect("a") as a, net.connect("b") as b, net.connect("c") as c:
            first, one, group = await words_at(a)
            for number in range(20):
                await group.cbcast(b"%d" % number)
            await group.cbcast(b"x" * 200_000)
            second, two, _ = await words_at(b)
            assert second.taken is not None
            assert len(second.taken) == 21
            joined = asyncio.create_task(words_at(c))
            for number in range(20, 60):
                await group.cbcast(b"%d" % number)
            third, three, _ = await joined
            await group.cbcast(b"last")
            await asyncio.sleep(1)
            assert first.words == second.words == third.words
            assert first.words[-1] == b"last"
            assert third.taken is not None
            assert len(third.taken) + len(data_of(third.read)) == 62
            assert first.taken is None
            for task in (one, two, three):
                task.cancel()

    cluster("abc", settings=ON, seed=3).run(scenario)


@pytest.mark.parametrize("seed", range(4))
def test_another_member_goes_on_giving_state(cluster: Make, seed: int) -> None:
    async def scenario(net: Cluster) -> None:
        async with net.connect("b") as b, net.connect("c") as c:
            # The first member has the lowest rank: it gives.
            program = net.spawn("a", giver, net)
            while not await b.isis.groups():
                await asyncio.sleep(0.05)
            second, two, group = await words_at(b)
            for number in range(30):
                await group.cbcast(b"%d" % number * 30_000)
            await asyncio.sleep(1)
            joining = asyncio.create_task(words_at(c))
            await asyncio.sleep(0.004 + 0.002 * seed)
            net.crash("a")
            third, three, _ = await joining
            await group.cbcast(b"last")
            await asyncio.sleep(1)
            assert third.words == second.words
            assert not program.running
            two.cancel()
            three.cancel()

    async def giver(net: Cluster) -> None:
        async with net.connect("a") as a:
            _, following, _ = await words_at(a)
            await following

    cluster("abc", settings=ON, seed=seed).run(scenario)


def test_a_vector_has_a_contribution_of_every_member(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        async with net.connect("a") as a, net.connect("b") as b, net.connect("c") as c:
            tasks = []
            for site in (a, b):
                await site.isis.join("poll", vector=([site.name.encode()].copy, lambda parts: None))
                tasks.append(asyncio.create_task(until(site.isis, lambda event: False)))
            got: dict[reconvene.Process, list[bytes]] = {}
            await c.isis.join("poll", vector=(list, got.update))
            assert got == {a.isis.me: [b"a"], b.isis.me: [b"b"]}
            for task in tasks:
                task.cancel()

    cluster("abc", settings=ON).run(scenario)


def test_a_site_that_was_cut_off_is_killed(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        async with net.connect("a") as a, net.connect("b") as b, net.connect("c") as c:
            bank = await a.isis.join("bank")
            await b.isis.join("bank")
            await c.isis.join("bank")
            was = a.isis.me
            call = await bank.cbcast(b"?", replies=ALL)
            net.partition([["a"], ["b", "c"]])
            await until(a.isis, lambda event: isinstance(event, reconvene.Blocked))
            with pytest.raises(reconvene.Unavailable, match="primary"):
                await bank.cbcast(b"not now")
            lost = await until(b.isis, lambda event: isinstance(event, GroupView) and bool(event.failed))
            assert lost[-1].failed == (was,)
            net.heal()
            killed = (await until(a.isis, lambda event: isinstance(event, Killed)))[-1]
            assert killed == Killed(was, a.isis.me)
            assert killed.me != was
            with pytest.raises(reconvene.OutcomeUnknown, match="killed"):
                await call.replies()
            with pytest.raises(reconvene.Unavailable, match="killed"):
                await bank.cbcast(b"in no group")
            again = await a.isis.join("bank")
            await again.cbcast(b"back")
            read = await until(c.isis, lambda event: isinstance(event, Cast) and event.data == b"back")
            assert read[-1].sender == killed.me

    cluster("abc", settings=ON).run(scenario)


def test_a_newcomer_that_is_killed_before_it_has_the_state_reads_nothing_of_the_group(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        async with net.connect("a") as a, net.connect("b") as b:
            bank = await a.isis.join("bank", state=(lambda: [b"x"], print))  # it reads nothing, so it gives nothing
            joining = asyncio.create_task(b.isis.join("bank", state=(list, print)))
            while len((await a.isis.groups())[0].members) < 2:
                await asyncio.sleep(0.1)
            await a.isis.cbcast(b"meanwhile", to="bank")
            net.partition([["b"], ["a", "c"]])
            await asyncio.sleep(5)
            net.heal()
            with pytest.raises(reconvene.Unavailable, match="killed"):
                await joining
            read = await until(b.isis, lambda event: isinstance(event, Killed))
            assert [type(event) for event in read] == [reconvene.Blocked, Killed]
            assert bank.view.members == (a.isis.me,)

    cluster("abc", settings=ON).run(scenario)


def test_a_client_that_fails_over_is_another_process(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        async with net.connect("a", "b") as a, net.connect("c") as c:
            bank = await a.isis.join("bank")
            await c.isis.join("bank")
            was = a.isis.me
            call = await bank.cbcast(b"?", replies=ALL)
            net.crash("a")
            killed = (await until(a.isis, lambda event: isinstance(event, Killed)))[-1]
            assert (killed.was, killed.me.site) == (was, "b")
            with pytest.raises(reconvene.OutcomeUnknown):
                await call.replies()
            with pytest.raises(reconvene.Unavailable):
                await bank.cbcast(b"in no group")
            await a.isis.cbcast(b"from outside", to="bank")
            read = await until(c.isis, lambda event: isinstance(event, Cast) and event.data == b"from outside")
            assert read[-1].sender == killed.me

    cluster("abc", settings=ON).run(scenario)


def test_a_failure_counts_as_a_reply(cluster: Make) -> None:
    async def member(net: Cluster) -> None:
        async with net.connect("b") as b:
            await b.isis.join("bank")
            await asyncio.sleep(1000)

    async def scenario(net: Cluster) -> None:
        async with net.connect("a") as a, net.connect("c") as c:
            program = net.spawn("b", member, net)
            bank = await a.isis.join("bank", answers=False)
            answers = asyncio.create_task(answering(c))
            while not any(len(group.members) == 3 for group in await a.isis.groups()):
                await asyncio.sleep(0.1)
            call = await bank.abcast(b"?", replies=ALL)
            timed = await bank.cbcast(b"?", replies=ALL, timeout=2)
            assert sum([1 async for _ in _upto(call, 2)]) == 2
            with pytest.raises(reconvene.OutcomeTimedOut):
                await timed.replies()
            program.kill()
            (failed,) = await call.replies()
            assert isinstance(failed, ProcessFailed)
            assert failed.process.site == "b"
            answers.cancel()

    cluster("abc", settings=ON).run(scenario)


def test_a_member_that_only_listens_does_not_answer_for_others(cluster: Make) -> None:
    """Where all are asked it counts, with nothing. Where one reply is enough, somebody has to give it."""

    async def scenario(net: Cluster) -> None:
        async with net.connect("a") as a, net.connect("b") as b, net.connect("c") as c:
            listening = await a.isis.join("bank", answers=False)
            nobody = await c.isis.abcast(b"?", to="bank", replies=1, timeout=5)
            assert await nobody.replies() == []
            with pytest.raises(reconvene.OutcomeUnknown, match="no destination replied"):
                await nobody.first()
            answers = asyncio.create_task(answering(b))
            while len((await a.isis.groups())[0].members) < 2:
                await asyncio.sleep(0.1)
            for cast in (c.isis.cbcast, c.isis.abcast, a.isis.cbcast):
                one = await cast(b"?", to="bank", replies=1, timeout=5)
                assert (await one.first()).data == b"b"
                two = await cast(b"?", to="bank", replies=2, timeout=5)
                assert [reply.data for reply in await two.replies() if isinstance(reply, Reply)] == [b"b"]
                every = await cast(b"?", to="bank", replies=ALL, timeout=5)
                got = {reply.sender.site: reply.data async for reply in every if isinstance(reply, Reply)}
                assert got == {"a": b"", "b": b"b"}
            await listening.leave()
            answers.cancel()

    cluster("abc", settings=ON).run(scenario)


async def _upto(call: reconvene.Call, count: int) -> Any:
    async for reply in call:
        yield reply
        count -= 1
        if not count:
            return


@pytest.mark.parametrize("fault", ["program", "site", "closed"])
def test_a_watched_process_is_over_behind_its_last_cast(cluster: Make, fault: str) -> None:
    async def scenario(net: Cluster) -> None:
        begun: asyncio.Future[reconvene.Process] = asyncio.get_running_loop().create_future()
        ending = asyncio.Event()

        async def program(to: reconvene.Process) -> None:
            async with net.connect("c") as c:
                begun.set_result(await c.isis.open())
                await ending.wait()
                await c.isis.cbcast(b"last", to=[to])
                await c.isis.flush()
                ending.clear()
                if fault != "closed":
                    await asyncio.sleep(1000)

        async with net.connect("a") as a:
            me = await a.isis.open()
            running = net.spawn("c", program, me)
            watched = await begun
            await a.isis.watch(watched)
            await a.isis.watch(str(watched))  # changes nothing
            ending.set()
            await until(a.isis, lambda event: isinstance(event, Cast))
            with pytest.raises(reconvene.TimedOut):
                await a.isis.next(timeout=0.5 if fault != "closed" else 0)
            if fault == "site":
                net.crash("c")
            elif fault == "program":
                running.kill()
            assert await a.isis.next() == ProcessFailed(watched)
            await a.isis.watch(watched)
            assert await a.isis.next() == ProcessFailed(watched), "it is over by now"
            with pytest.raises(reconvene.Rejected, match="watches itself"):
                await a.isis.watch(me)

    cluster("abc", settings=ON).run(scenario)


def test_a_cluster_in_which_one_site_takes_no_part(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        async with net.connect("a") as a, net.connect("c") as c:
            with pytest.raises(reconvene.Rejected, match=r"site c takes no part in ISIS: see isis\.enabled"):
                await c.isis.open()
            with pytest.raises(TimeoutError):
                await a.isis.join("bank", timeout=5)
            status = await a.status()
            assert status.isis is not None
            assert status.isis.refused == ("c",)
            net.partition([["a", "b"], ["c"]])
            await a.isis.join("bank", timeout=60)
            net.heal()
            await until(a.isis, lambda event: isinstance(event, reconvene.Blocked))

    net = cluster("abc", settings=ON)
    config = net._machines["c"].config
    net._machines["c"].config = structs.replace(config, isis=type(config.isis)(enabled=False))
    net.run(scenario)


@pytest.mark.long("80 MiB through a simulated network")
def test_a_large_state_does_not_fill_up_the_channels(cluster: Make) -> None:
    """80 MiB, where a channel holds 64."""

    async def scenario(net: Cluster) -> None:
        async with net.connect("a") as a, net.connect("b") as b:
            piece = bytes(1 << 20)
            await a.isis.join("words", state=(lambda: [piece] * 80, lambda chunks: None))
            reading = asyncio.create_task(until(a.isis, lambda event: False))
            taken: list[bytes] = []
            await b.isis.join("words", state=(list, taken.extend))
            assert sum(map(len, taken)) == 80 << 20
            status = await a.status()
            assert status.counters["isis_channel_stalled"] == 0
            reading.cancel()

    cluster("abc", settings=ON).run(scenario)
