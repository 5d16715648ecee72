"""Three real sites on loopback, insecure and sealed, with processes inside them and beside them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.client.places import cluster, short_dir
from tests.client.raw import Raw
from tests.ports import free_port

import reconvene
from reconvene import Batch, Group, Message, Rejected, Rejoined, Site, Unavailable, View
from reconvene.runtime.access.key_files import add_client_key, write_cluster_key
from reconvene.runtime.config.settings import Clients, Config, FaultSettings, Limits, Seal
from reconvene.wire.clients import Join, Viewed


class Three:
    def __init__(
        self, directory: Path, configs: list[Config], sites: list[Site], stacks: list[AsyncExitStack]
    ) -> None:
        self.directory = directory
        self.configs = configs
        self.sites = sites
        self.stacks = stacks

    def socket(self, name: str) -> str:
        return f"unix:{self.directory}/{name}/site.sock"


@asynccontextmanager
async def three(seal: str = "insecure", limits: Limits | None = None) -> AsyncIterator[Three]:
    with short_dir() as directory:
        if seal == "sealed":
            write_cluster_key(directory / "key")
            add_client_key(directory / "clients", "app", "append")
        configs = cluster(
            directory,
            "abc",
            seal=Seal(insecure=True) if seal == "insecure" else Seal(keys=(directory / "key",)),
            limits=limits,
        )
        if seal == "sealed":
            tcp = ("127.0.0.1", free_port())
            configs[0] = replace(configs[0], clients=Clients(tcp=tcp, keys=directory / "clients"))
        configs = [replace(config, faults=FaultSettings(allowed=True)) for config in configs]
        async with AsyncExitStack() as outer:
            stacks = [await outer.enter_async_context(AsyncExitStack()) for _ in configs]
            opening = [
                stack.enter_async_context(reconvene.open(config))
                for stack, config in zip(stacks, configs, strict=True)
            ]
            yield Three(directory, configs, list(await asyncio.gather(*opening)), stacks)


async def members(group: Group, sites: str) -> View:
    """Reads on until the group's members are at these sites."""
    view = None if group.blocked else group.view
    while view is None or "".join(sorted(member.site for member in view.members)) != sites or view.kind != "regular":
        event = await group.next()
        view = event if isinstance(event, View) else view
    return view


async def messages(group: Group, count: int) -> list[bytes]:
    found: list[bytes] = []
    async for batch in group.batches():
        if isinstance(batch, Batch):
            found += batch.payloads
            if len(found) >= count:
                return found
    return found


@pytest.mark.parametrize("seal", ["insecure", "sealed"])
def test_one_order_for_everyone(seal: str) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(60), three(seal) as sites, reconvene.connect(sites.socket("b")) as client:
            groups = [await site.join("x") for site in (*sites.sites, client)]
            views = await asyncio.gather(*(members(group, "abbc") for group in groups))
            assert len({view.id for view in views}) == 1
            assert len({view.members for view in views}) == 1
            reading = [asyncio.create_task(messages(group, 4_000)) for group in groups]
            await asyncio.gather(
                *(
                    group.send_many([b"%d %d" % (place, number) for number in range(1_000)])
                    for place, group in enumerate(groups)
                )
            )
            orders = await asyncio.gather(*reading)
            assert all(order == orders[0] for order in orders)
            assert len(orders[0]) == 4_000

    asyncio.run(scenario())


def test_a_client_with_a_key_over_tcp() -> None:
    async def scenario() -> None:
        async with asyncio.timeout(60), three("sealed") as sites:
            tcp = sites.configs[0].clients.tcp
            assert tcp is not None
            async with reconvene.connect(f"{tcp[0]}:{tcp[1]}", key=sites.directory / "clients") as client:
                assert (await client.status()).seal == "sealed"
                group, other = await client.join("x"), await sites.sites[2].join("x")
                await members(other, "ac")
                await group.send(bytes(100_000), "safe")
                assert len((await messages(other, 1))[0]) == 100_000
                with pytest.raises(Rejected, match="role admin"):
                    await client.stop()

    asyncio.run(scenario())


def test_a_client_goes_on_at_the_next_site_when_its_own_leaves() -> None:
    async def scenario() -> None:
        async with (
            asyncio.timeout(60),
            three() as sites,
            reconvene.connect([sites.socket("a"), sites.socket("b")]) as client,
        ):
            group, other = await client.join("x"), await sites.sites[2].join("x")
            await members(other, "ac")
            assert client.name == "a"
            await sites.stacks[0].aclose()
            while not isinstance(event := await group.next(), Rejoined):
                pass
            assert (event.was.site, event.me.site, client.name) == ("a", "b", "b")
            await members(other, "bc")
            await group.send(b"still here", "safe")
            while not isinstance(message := await other.next(), Message):
                pass
            assert message.sender == group.me

    asyncio.run(scenario())


def test_a_partition_as_a_group_sees_it() -> None:
    async def scenario() -> None:
        async with asyncio.timeout(60), three() as sites:
            groups = [await site.join("x") for site in sites.sites]
            strict = [await site.join("strict", primary=True) for site in sites.sites]
            await asyncio.gather(*(members(group, "abc") for group in groups))
            await asyncio.gather(*(members(group, "abc") for group in strict))
            a = sites.sites[0]
            await a.block(["b", "c"], ["b", "c"])
            assert not (await members(groups[0], "a")).primary
            assert (await members(groups[1], "bc")).primary
            while not strict[0].blocked:
                await strict[0].next()
            with pytest.raises(Unavailable, match="primary component"):
                await strict[0].send(b"not here")
            was = strict[0].me
            await members(strict[1], "bc")
            await strict[1].send(b"here")
            await a.block()
            await asyncio.gather(*(members(group, "abc") for group in groups))
            await members(strict[0], "abc")
            assert strict[0].me != was, "back in the primary component it is a new member"
            assert strict[0].me in strict[0].view.members
            await strict[0].send(b"again")

    asyncio.run(scenario())


def test_a_client_that_never_reads_under_load_holds_up_nobody() -> None:
    async def scenario() -> None:
        async with (
            asyncio.timeout(100),
            three(limits=Limits(message_bytes=1 << 20, inbox_bytes=8 << 20)) as sites,
            reconvene.connect(sites.socket("a")) as client,
        ):
            raw = await Raw.welcome(sites.socket("a"))
            raw.send(Join(1, "x", False, True))
            await raw.expect(Viewed)
            transport = raw.writer.transport
            assert isinstance(transport, asyncio.ReadTransport)
            transport.pause_reading()
            group, other = await client.join("x"), await sites.sites[1].join("x")
            await members(other, "aab")
            for _ in range(20):
                reading = [asyncio.create_task(messages(reader, 1_000)) for reader in (group, other)]
                await other.send_many([bytes(1_000)] * 1_000)
                for received in await asyncio.gather(*reading):
                    assert len(received) == 1_000
            view = await members(other, "ab")
            assert set(view.members) == {group.me, other.me}
            raw.close()

    asyncio.run(scenario())
