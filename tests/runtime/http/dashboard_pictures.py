"""Makes the pictures of the dashboard in docs/pictures: `python -m tests.runtime.http.dashboard_pictures`.

Five sites, a partition, votes at both sides: one page wide and light, one on a phone and dark. Then process
groups of which some members are cut off.
"""

import asyncio
from contextlib import suppress
from pathlib import Path

from tests.client.places import short_dir
from tests.runtime.http.browser import browsing

import reconvene
from reconvene.local import LocalCluster

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"
RATE = 4.0


async def vote(address: str, at: str, count: int) -> None:
    async with reconvene.connect(address) as site:
        for number in range(count):
            await site.log.append(f"a vote for the {('oak', 'elm', 'ash')[number % 3]}, cast at {at}".encode())
            await asyncio.sleep(1 / RATE)


async def shoot(cluster: LocalCluster, profile: Path) -> None:
    async with browsing(profile) as tab:
        await tab.open(cluster.dashboards["a"], 1280, 1240)
        await asyncio.gather(*(vote(cluster.addresses[name], name, 3) for name in "ace"))
        await asyncio.to_thread(cluster.partition, [["a", "b"], ["c", "d", "e"]])
        await tab.wait("document.querySelectorAll('.component').length === 2")
        await asyncio.gather(*(vote(cluster.addresses[name], name, 4) for name in "abce"))
        await tab.wait("document.querySelectorAll('.queue[data-site=a] .part.red').length === 8")
        await asyncio.sleep(2)
        await tab.picture(PICTURES / "dashboard.png", whole=False)
        await tab.resize(390, 1180, True)
        await asyncio.sleep(2)
        await tab.picture(PICTURES / "dashboard-phone.png", whole=False)


async def take_part(address: str, groups: list[str]) -> None:
    async with reconvene.connect(address) as site:
        for group in groups:
            await site.isis.join(group)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(read(site))
            tasks.create_task(cast(site, groups))


async def cast(site: reconvene.Site, groups: list[str]) -> None:
    while True:
        for group in groups:
            with suppress(reconvene.Unavailable):
                await site.isis.cbcast(b"x=42", to=group)
        await asyncio.sleep(0.02)


async def read(site: reconvene.Site) -> None:
    async for _ in site.isis:
        pass


async def shoot_groups(cluster: LocalCluster, profile: Path) -> None:
    places = {
        "a": ["bank", "till"],
        "b": ["bank"],
        "c": ["bank", "till"],
        "d": ["calendar"],
        "e": ["bank", "calendar"],
    }
    members = [asyncio.create_task(take_part(cluster.addresses[name], groups)) for name, groups in places.items()]
    async with browsing(profile) as tab, reconvene.connect(cluster.addresses["d"]) as site:
        await (await site.isis.join("bank")).set(mode=b"read only")
        await tab.open(cluster.dashboards["a"], 1280, 1240)
        await tab.wait("document.querySelectorAll('#isis-groups .members li').length === 9")
        await asyncio.to_thread(cluster.partition, [["a", "b"], ["c", "d", "e"]])
        await tab.wait("document.querySelectorAll('#isis-groups .members li').length === 6")
        await asyncio.sleep(2)
        await tab.picture(PICTURES / "dashboard-groups.png", of="#isis")
    for member in members:
        member.cancel()
    await asyncio.gather(*members, return_exceptions=True)


def main() -> None:
    with (
        short_dir() as directory,
        LocalCluster.create(directory / "wiredville", nodes=5, trace=False, isis=True) as cluster,
    ):
        cluster.start()
        asyncio.run(shoot(cluster, directory / "profile"))
    with short_dir() as directory, LocalCluster.create(directory / "c", nodes=5, trace=False, isis=True) as cluster:
        cluster.start()
        asyncio.run(shoot_groups(cluster, directory / "profile"))


if __name__ == "__main__":
    main()
