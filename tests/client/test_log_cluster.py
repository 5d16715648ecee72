"""The log at three real sites, for processes inside them and beside them."""

import asyncio
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.client.places import cluster, short_dir
from tests.client.test_cluster import Three, three
from tests.client.test_log_machines import Words

import reconvene
from reconvene import Color, Entry, OutcomeUnknown, Rejected, Unavailable, blocking


async def healths(sites: Three, expected: dict[str, str]) -> None:
    for site in sites.sites:
        while site.name in expected and await site.health() != expected[site.name]:
            await asyncio.sleep(0.02)


async def cut_off(sites: Three, alone: str) -> None:
    for site in sites.sites:
        others = [name for name in site.sites if (name == alone) != (site.name == alone)]
        await site.block(others, others)
    await healths(sites, {site.name: "minority" if site.name == alone else "primary" for site in sites.sites})


async def mend(sites: Three) -> None:
    for site in sites.sites:
        await site.block()


async def everything(log: reconvene.Log, count: int) -> list[Entry]:
    """The first so many entries that are the application's."""
    found: list[Entry] = []
    async for entry in log.follow():
        found.append(entry)
        if len(found) == count:
            break
    return found


def test_one_order_for_everyone() -> None:
    async def scenario() -> None:
        async with asyncio.timeout(60), three() as sites, reconvene.connect(sites.socket("b")) as client:
            logs = [site.log for site in (*sites.sites, client)]
            receipts = await asyncio.gather(
                *(log.append_many([b"%d %d" % (which, at) for at in range(500)]) for which, log in enumerate(logs))
            )
            positions = [await receipt.ordered(20) for receipt in receipts]
            assert sorted(at for found in positions for at in found) == list(range(2_000))
            read = await asyncio.gather(*(everything(log, 2_000) for log in logs))
            assert read[0] == read[1] == read[2] == read[3]
            for which, (receipt, found) in enumerate(zip(receipts, positions, strict=True)):
                assert receipt.ids == [read[0][at].id for at in found]
                assert [read[0][at].data for at in found] == [b"%d %d" % (which, at) for at in range(500)]
            assert await client.log.barrier(10) == 2_000

    asyncio.run(scenario())


def test_a_minority_accepts_and_its_messages_are_ordered_later() -> None:
    async def scenario() -> None:
        async with asyncio.timeout(60), three() as sites, reconvene.connect(sites.socket("c")) as client:
            await cut_off(sites, "c")
            receipt = await client.log.append(b"from afar")
            (pending,) = await client.log.pending()
            assert (pending.data, pending.id, pending.color) == (b"from afar", receipt.id, Color.RED)
            with pytest.raises(OutcomeUnknown, match="not ordered within"):
                await receipt.ordered(timeout=0.1)
            with pytest.raises(Unavailable, match="no barrier within"):
                await client.log.barrier(timeout=0.1)
            assert await (await sites.sites[0].log.append(b"the others go on")).ordered() == 0
            await mend(sites)
            assert await receipt.ordered(20) == 1
            assert [entry.data for entry in await everything(sites.sites[1].log, 2)] == [
                b"the others go on",
                b"from afar",
            ]

    asyncio.run(scenario())


Sent = list[tuple[bytes, reconvene.Receipt]]


async def append_until(stop: asyncio.Event, log: reconvene.Log, which: int, sent: Sent) -> None:
    while not stop.is_set():
        data = b"%d %d" % (which, len(sent))
        sent.append((data, await log.append(data)))


async def follow_to(log: reconvene.Log, last: bytes) -> list[bytes]:
    found: list[bytes] = []
    async for entry in log.follow():
        found.append(entry.data)
        if entry.data == last:
            break
    return found


def test_a_client_that_fails_over_appends_once_and_reads_on() -> None:
    async def scenario(sites: Three, client: reconvene.Site) -> None:
        await healths(sites, dict.fromkeys("abc", "primary"))
        stop = asyncio.Event()
        sent: Sent = []
        following = asyncio.create_task(follow_to(client.log, b"the end"))
        appending = [asyncio.create_task(append_until(stop, client.log, which, sent)) for which in range(20)]
        await asyncio.sleep(0.3)
        await sites.stacks[0].aclose()
        await asyncio.sleep(0.3)
        stop.set()
        await asyncio.gather(*appending)
        assert client.name != "a"
        sent.append((b"the end", await client.log.append(b"the end")))
        found = await following
        kept = [data for data, _ in sent]
        assert len(set(found)) == len(found)
        # What the first site accepted last may be ordered only when it comes back.
        assert {data for data, receipt in sent if not (receipt.id or "").startswith("a:")} <= set(found) <= set(kept)
        async with reconvene.open(sites.configs[0]) as again:
            places = [await receipt.ordered(30) for _, receipt in sent]
            log = {entry.position: entry.data async for entry in again.log.follow(stop=max(places) + 1)}
            assert sorted(kept) == sorted(log.values())
            assert [log[place] for place in places] == kept

    async def main() -> None:
        async with asyncio.timeout(90), three() as sites:
            addresses = [sites.socket(name) for name in "abc"]
            async with reconvene.connect(addresses) as client:
                await scenario(sites, client)

    asyncio.run(main())


def test_who_follows_is_told_when_the_site_is_closed() -> None:
    async def scenario() -> None:
        with short_dir() as directory:
            (config,) = cluster(directory)
            async with asyncio.timeout(30):
                async with reconvene.open(config) as inside:
                    site = inside
                    following = asyncio.create_task(follow_to(inside.log, b"never"))
                    runner = inside.log.run(Words())
                    await runner.__aenter__()
                    await (await inside.log.append(b"x")).ordered()
                with pytest.raises(Unavailable, match="closed"):
                    await following
                with pytest.raises(Unavailable):
                    await runner.applied(5)
                with pytest.raises(Unavailable):
                    await site.log.append(b"y")
                await runner.__aexit__(None, None, None)

    asyncio.run(scenario())


def test_a_session_across_programs_and_sites() -> None:
    async def scenario() -> None:
        async with asyncio.timeout(60), three() as sites:
            for at, site in enumerate(sites.sites):
                receipts = await site.log.append_many([b"1", b"2", b"3"], session=b"till 7", number=1)
                assert list(await receipts.ordered(20)) == [0, 1, 2]
                assert receipts.duplicate == (3 if at else 0)
                await site.log.barrier(20)
            assert [entry.data for entry in await sites.sites[1].log.read()] == [b"1", b"2", b"3"]

    asyncio.run(scenario())


def test_a_machine_at_a_real_site_with_snapshots() -> None:
    async def scenario() -> None:
        async with asyncio.timeout(60), three() as sites, reconvene.connect(sites.socket("b")) as client:
            await client.log.append_many([b"w%d" % at for at in range(100)])
            async with client.log.run(Words(), snapshot_every=50) as runner:
                await runner.caught_up(20)
                assert isinstance(runner.machine, Words)
                assert len(runner.machine.words) == 100
                while (info := await client.log.snapshot("Words")) is None:
                    assert runner.snapshot_trouble is None
                    await asyncio.sleep(0.02)
            other = Words()
            async with client.log.run(other) as restored:
                assert restored.position == info.position
                await restored.caught_up(20)
                assert other.words == runner.machine.words

    asyncio.run(scenario())


class Others(Words):
    pass


def test_two_machines_start_again_after_their_log_was_truncated() -> None:
    async def scenario(directory: Path) -> None:
        (config,) = cluster(directory)
        config = replace(config, log=replace(config.log, retain_bytes=1_000))
        async with reconvene.open(config) as site:
            await (await site.log.append_many([b"w%d" % at for at in range(10)])).ordered()
            machines = [Words(), Others()]
            async with (
                site.log.run(machines[0], snapshot_every=50) as first,
                site.log.run(machines[1], snapshot_every=80) as second,
            ):
                assert await site.log.snapshots() == {"Words": None, "Others": None}
                for number in range(20):
                    await (await site.log.append_many([b"%d" % number] * 20)).ordered()
                assert (first.snapshot_trouble, second.snapshot_trouble) == (None, None)
                await first.caught_up(10)
                await second.caught_up(10)
            while (await site.log.status()).base == 0:
                await asyncio.sleep(0.02)
        async with reconvene.open(config) as site:
            kept = await site.log.snapshots()
            status = await site.log.status()
            for before, machine in zip(machines, (Words(), Others()), strict=True):
                info = kept[machine.kind]
                assert info is not None
                assert status.base <= info.position
                async with site.log.run(machine) as runner:
                    await runner.caught_up(10)
                    assert machine.words == before.words
            await site.log.drop_snapshot("Others")
            assert list(await site.log.snapshots()) == ["Words"]
            with pytest.raises(Rejected, match="no snapshot 'Others' is in use here: expected one of: Words"):
                await site.log.drop_snapshot("Others")

    async def main() -> None:
        with short_dir() as directory:
            async with asyncio.timeout(60):
                await scenario(directory)

    asyncio.run(main())


def test_the_twin_without_asyncio() -> None:
    with short_dir() as directory:
        (config,) = cluster(directory)
        with blocking.open(config) as inside, blocking.connect(directory / "a/site.sock") as site:
            log = site.log
            receipt = log.append(b"0")
            assert (receipt.id, receipt.duplicate, receipt.ordered(10)) == ("a:1:1", False, 0)
            receipts = log.append_many([b"1", b"2"])
            assert (len(receipts), receipts.duplicate, list(receipts.ordered(10))) == (2, 0, [1, 2])
            assert [entry.data for entry in inside.log.read()] == [b"0", b"1", b"2"]
            follow = log.follow(1)
            assert [entry.data for entry in follow.entries(timeout=0.2)] == [b"1", b"2"]
            assert follow.position == 3
            assert [entry.data for entry in log.follow(stop=1)] == [b"0"]
            assert [len(batch) for batch in log.follow(stop=3).batches()] == [1, 2]
            assert [(one.position, one.count) for some in log.headings() for one in some] == [(0, 1), (1, 2)]
            assert (log.barrier(10), log.pending(), log.status().green) == (3, [], 3)
            seen: list[Color] = []
            watching = threading.Thread(target=lambda: seen.extend(one.color for one in log.colors(timeout=1)))
            watching.start()
            with log.run(Words()) as runner:
                while not seen:
                    log.append(b"3").ordered(10)
                runner.caught_up(10)
                assert isinstance(runner.machine, Words)
                assert runner.machine.words[:4] == ["0", "1", "2", "3"]
                assert isinstance(runner.optimistic(), Words)
                assert (runner.failed, runner.snapshot_trouble) == (None, None)
                runner.applied(3, timeout=1)
                with pytest.raises(TimeoutError):
                    runner.applied(10_000, timeout=0.05)
            watching.join()
            assert Color.GREEN in seen
            assert log.snapshot() is None
            log.save_snapshot(4, b"state")
            assert log.read_snapshot() == (4, b"state")
            with pytest.raises(TimeoutError):
                log.follow(10_000_000).next_batch(timeout=0.05)
        with pytest.raises(Unavailable):
            log.append(b"over")
