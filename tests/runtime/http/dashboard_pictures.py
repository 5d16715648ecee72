"""Makes the pictures of the dashboard in docs/pictures: `python -m tests.runtime.http.dashboard_pictures`.

Five sites, a partition, votes at both sides: one page wide and light, one on a phone and dark.
"""

import asyncio
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


def main() -> None:
    with short_dir() as directory, LocalCluster.create(directory / "wiredville", nodes=5, trace=False) as cluster:
        cluster.start()
        asyncio.run(shoot(cluster, directory / "profile"))


if __name__ == "__main__":
    main()
