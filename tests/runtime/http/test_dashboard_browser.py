"""The dashboard in a real browser, where there is one, at real sites, through a partition and a heal.

Pictures of it go to out/dashboard; those that the docs show are made by
`python -m tests.runtime.http.dashboard_pictures`.
"""

import asyncio
from pathlib import Path

import pytest
from tests.client.places import short_dir
from tests.runtime.http.browser import CHROMIUM, Tab, browsing
from tests.runtime.http.test_dashboard import site

import reconvene
from reconvene.local import LocalCluster

OUT = Path(__file__).parents[3] / "out" / "dashboard"
COMPONENTS = """[...document.querySelectorAll(".component")].map((box) => box.dataset.health + " " +
    [...box.querySelectorAll("[data-site]")].map((site) => site.dataset.site).join("")).sort().join(", ")"""
QUEUE = """[...document.querySelectorAll(".queue[data-site='NAME'] .part")].map((part) =>
    part.classList[1] + " " + part.textContent).join(", ")"""
GROUPS = """[...document.querySelectorAll("#isis-groups > li")].map((group) => group.querySelector("b").textContent +
    " " + [...group.querySelectorAll(".members li")].map((member) => member.textContent).join(" ")).join(", ")"""
STATES = """[...document.querySelectorAll("#isis-sites tbody tr")].map((row) => row.cells[0].textContent + " " +
    row.cells[1].textContent).join(", ")"""
POINT_AT_THE_END = """(() => {
    const canvas = document.querySelector("#timeline"), box = canvas.getBoundingClientRect();
    const end = {clientX: box.right - 2, clientY: box.top + 8};
    canvas.dispatchEvent(new PointerEvent("pointermove", end));
})()"""
BESIDE = """[...document.querySelectorAll("#beside-rows tr")].map((row) => [...row.cells].slice(0, 5).map((cell) =>
    cell.textContent).join(" ")).join(", ")"""
FOCUSED = "document.activeElement.id || document.activeElement.className"


async def appended(cluster: LocalCluster, name: str, text: str, ordered: bool = True) -> None:
    async with reconvene.connect(cluster.addresses[name]) as connected:
        receipt = await connected.log.append(text.encode())
        if ordered:
            await receipt.ordered()


async def reach(tab: Tab, wanted: str) -> None:
    """With the keyboard only."""
    for _ in range(40):
        await tab.press("Tab")
        if await tab.ask(FOCUSED) == wanted:
            assert await tab.ask("document.activeElement.matches(':focus-visible')")
            return
    raise AssertionError(f"{wanted} can't be reached by Tab")


async def fits(tab: Tab) -> None:
    """The page is not wider than its window."""
    wide, window = await tab.ask("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= window


async def see_hundreds_of_configurations(tab: Tab, directory: Path) -> None:
    async with site(directory) as place:
        for number in range(1, 700):
            place.engine.history.installed(str(number << 16), [0])
        await tab.open(place.url)
        await tab.wait("document.body?.dataset.link === 'live'")
        await reach(tab, "timeline")
        await tab.press("-")  # more of the time
        await tab.press("End")
        await tab.ask(POINT_AT_THE_END)
        assert (await tab.ask("document.querySelector('#pointed').textContent")).startswith("a in 699a with a")
        await tab.do("Page.navigate", url="about:blank")


async def see_groups(tab: Tab, cluster: LocalCluster) -> None:
    """a is cut off: its page shows the groups as the others know them."""
    await tab.wait(f'{GROUPS} === ""')
    async with reconvene.connect(cluster.addresses["a"]) as one, reconvene.connect(cluster.addresses["b"]) as other:
        first, second = await one.isis.open(), await other.isis.open()
        await one.isis.join("bank")
        bank = await other.isis.join("bank")
        await bank.set(mode=b"ro")
        await tab.wait(f'{GROUPS} === "bank {first} {second}"')
        await tab.wait("document.querySelector('#isis-groups .properties').textContent === 'mode=ro'")
        assert await tab.ask(STATES) == "a in the view, b in the view, c in the view"
        await asyncio.to_thread(cluster.partition, [["a"], ["b", "c"]])
        await tab.wait(f'{GROUPS} === "bank {second}" && {STATES} === "a blocked, b in the view, c in the view"')
        await asyncio.to_thread(cluster.heal)
        await tab.wait(f'{STATES} === "a in the view, b in the view, c in the view"')
        assert await tab.ask("document.querySelector('#isis-sites tr:nth-child(1) td:last-child').textContent") == "1"
    await tab.wait(f'{GROUPS} === ""')


async def go_through(cluster: LocalCluster, directory: Path) -> None:
    async with browsing(directory / "profile") as tab:
        await see_hundreds_of_configurations(tab, directory)
        await appended(cluster, "a", "one black coffee")
        await tab.open(cluster.dashboards["a"])
        await tab.wait(f'{COMPONENTS} === "primary abc"')
        await tab.wait(f'{QUEUE.replace("NAME", "c")} === "green a1"')
        assert await tab.ask("document.querySelector('#tail').textContent.includes('one black coffee')")

        await tab.wait(f'{BESIDE} === "f1 follower up 1 0"')
        await see_groups(tab, cluster)
        await reach(tab, "partition")
        await tab.press("Enter")
        await tab.wait(f'{COMPONENTS} === "minority a, primary bc"')
        assert await tab.ask("document.querySelector('#summary').textContent") == (
            "2 components: a is a minority; b, c are primary."
        )
        await appended(cluster, "a", "a tea", ordered=False)
        await appended(cluster, "c", "a cake")
        await tab.wait(f'{QUEUE.replace("NAME", "a")} === "green a1, red a2"')
        await tab.wait(f'{QUEUE.replace("NAME", "b")} === "green a1, green c1"')
        for name, width, height, dark in (("wide", 1280, 900, False), ("phone", 390, 844, True)):
            await tab.resize(width, height, dark)
            await fits(tab)
            await tab.picture(OUT / f"{name}.png")
        await tab.resize(1280, 900, False)

        await asyncio.to_thread(cluster.crash, "c")
        await tab.wait(f'{COMPONENTS} === "minority a, minority b, silent c"')
        assert "last heard" in await tab.ask("document.querySelector('.component [data-site=c]').textContent")
        await asyncio.to_thread(cluster.restart, "c")
        await tab.wait(f'{COMPONENTS} === "minority a, primary bc"')

        await tab.ask("document.querySelector('#heal').click()")
        await tab.wait(f'{COMPONENTS} === "primary abc"')
        await tab.wait(f'{QUEUE.replace("NAME", "c")} === "green a1, green c1, green a2"')
        assert cluster.components == (), "a heal from the page is in force for the command line too"
        assert tab.complaints == []

        await asyncio.to_thread(cluster.crash, "a")
        await tab.wait("document.body.dataset.link === 'lost'")
        assert "connection lost, retrying" in await tab.ask("document.querySelector('#link').textContent")
        await asyncio.to_thread(cluster.restart, "a")
        await tab.wait(f"document.body.dataset.link === 'live' && {COMPONENTS} === \"primary abc\"")


@pytest.mark.long("starts a browser and three sites")
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
def test_through_a_partition_and_a_heal(tmp_path: Path) -> None:
    with (
        short_dir() as directory,
        LocalCluster.create(directory / "cluster", nodes=3, trace=False, isis=True, followers=1) as cluster,
    ):
        cluster.start()
        asyncio.run(go_through(cluster, tmp_path))
