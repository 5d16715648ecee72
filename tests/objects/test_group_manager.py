"""The manager of process groups, in virtual time."""

import asyncio
import random
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.objects.faults import ISIS, break_something

from reconvene import GroupLeft, GroupView, InvalidArgument, OutcomeUnknown, Rejected, Unavailable
from reconvene.objects import GroupManager
from reconvene.testing import Cluster

Make = Callable[..., Cluster]
Kind = type[GroupManager]


def test_groups_are_created_set_listed_and_deleted(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        async with AsyncExitStack() as stack:
            a, b, c = [await stack.enter_async_context(net.connect(name)) for name in "abc"]
            async with GroupManager(a.isis) as one, GroupManager(b.isis) as two:
                await one.create("bank", mode=b"open")
                with pytest.raises(Rejected, match="group 'bank': it was created before"):
                    await two.create("bank")
                bank = await c.isis.join("bank")
                await two.set("bank", mode=b"closed", rate=b"3")
                with pytest.raises(Rejected, match="it was not created"):
                    await two.set("pub", mode=b"open")
                await asyncio.sleep(1)
                assert await two.list() == await one.list()
                (known,) = await two.list()
                assert known.properties == {"mode": b"closed", "rate": b"3"}
                assert (known.members, known.is_created) == ((str(c.isis.me),), True)
                async with GroupManager(c.isis, "other groups"):
                    pass
                await one.delete("bank")
                await asyncio.sleep(1)
                with pytest.raises(Unavailable):
                    await bank.cbcast(b"late")
                assert await two.get("bank") is None
                with pytest.raises(Rejected, match="it was not created"):
                    await one.delete("bank")
                with pytest.raises(InvalidArgument, match="the managers' own"):
                    await one.delete("groups")
                with pytest.raises(InvalidArgument, match="65536 bytes"):
                    await one.create("bank", mode=b"x" * 70_000)
                await two.create("bank")

    cluster("abc", settings=ISIS).run(scenario)


@pytest.mark.parametrize("seed", range(3))
def test_a_name_is_created_once(cluster: Make, seed: int) -> None:
    """While sites fail, of all managers that create one name one is told that it did, and all have its properties."""
    names = [f"g{number}" for number in range(20)]
    created: dict[str, list[bytes]] = {name: [] for name in names}
    managers: dict[str, GroupManager] = {}
    begun: list[str] = []

    class Noting(GroupManager):
        """Where all managers are killed at once, nothing is promised of what was before."""

        def viewed(self, view: GroupView) -> None:
            if view.number == 1:
                begun.append(str(view))
                for told in created.values():
                    told.clear()
            super().viewed(view)

    async def manager(net: Cluster, here: str) -> None:
        async with net.connect(here, wait=60) as site, Noting(site.isis, last_to_fail=True) as groups:
            managers[here] = groups
            for name in names:
                await asyncio.sleep(random.uniform(0, 0.6))
                await groups.ready()
                me = str(site.isis.me).encode()
                try:
                    await groups.create(name, by=me)
                    await site.isis.flush()
                    created[name].append(me)
                except (Rejected, Unavailable, OutcomeUnknown):
                    continue
            await asyncio.sleep(10_000)

    async def scenario(net: Cluster) -> list[Any]:
        for here in net.names:
            net.spawn(here, manager, net, here)
        for _ in range(3):
            await asyncio.sleep(random.uniform(0.5, 2))
            await break_something(net)
        await asyncio.sleep(30)
        found = []
        for one in managers.values():
            await one.ready()
            found.append([(group.name, group.properties["by"]) for group in await one.list()])
        return found

    first, *others = cluster("abc", seed=seed, settings=ISIS, limit="20min", jitter="5ms").run(scenario)
    assert others == [first, first]
    assert [name for name, _ in first] == sorted(names)
    for name, by in first:
        assert created[name] in ([], [by])
    assert len(begun) > 1 or sum(map(len, created.values())) >= 15


class NobodyTakesOver(GroupManager):
    """Planted: a deletion that its manager has not ended stays."""

    def viewed(self, view: Any) -> None:
        pass


def deletion(make: Make, seed: int, kind: Kind) -> None:
    """The manager of the lowest rank crashes while it deletes a group."""

    async def first(net: Cluster) -> None:
        async with net.connect("a", wait=60) as site, kind(site.isis):
            await asyncio.sleep(10_000)

    async def scenario(net: Cluster) -> None:
        program = net.spawn("a", first, net)
        async with net.connect("b") as b, net.connect("c") as c:
            while not await b.isis.groups():
                await asyncio.sleep(0.1)
            async with kind(b.isis) as groups:
                assert groups.members[0].site == "a"
                await groups.create("bank")
                await c.isis.join("bank")
                await asyncio.sleep(1)
                deleting = asyncio.create_task(groups.delete("bank"))
                await asyncio.sleep(random.uniform(0.001, 0.006))
                program.kill()
                async with asyncio.timeout(30):
                    await deleting
                async for event in c.isis.events(timeout=5):
                    if event == GroupLeft("bank", deleted=True):
                        break
                else:
                    raise AssertionError("the members were not told to leave")
                await groups.create("bank")

    make("abc", seed=seed, settings=ISIS, limit="5min").run(scenario)


@pytest.mark.parametrize("seed", range(6))
def test_a_deletion_is_ended_by_another_manager(cluster: Make, seed: int) -> None:
    deletion(cluster, seed, GroupManager)


def test_a_planted_bug_is_caught(cluster: Make) -> None:
    def some_seed() -> None:
        for seed in range(6):
            deletion(cluster, seed, NobodyTakesOver)

    with pytest.raises(TimeoutError):
        some_seed()
