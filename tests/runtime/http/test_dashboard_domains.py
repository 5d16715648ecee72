"""The dashboard of a site in a joined cluster: a tree of clusters that one can open, in a real browser."""

import asyncio
from pathlib import Path

import pytest
from tests.client.places import short_dir
from tests.runtime.http.browser import CHROMIUM, browsing

from reconvene.local import LocalDomains

HEADS = '[...document.querySelectorAll("#domains-tree summary")].map((head) => head.textContent).join(", ")'
OPEN = '[...document.querySelectorAll("#domains-tree details")].map((fold) => fold.open).join(" ")'
SITES = """[...document.querySelectorAll("#domains-tree > li")].map((item) =>
    [...item.querySelectorAll(".members li")].map((site) => site.textContent).join(" ")).join(", ")"""
REACHED = '[...document.querySelectorAll("#domains-tree > li")].map((item) => item.dataset.reached).join(" ")'


async def look(domains: LocalDomains, directory: Path) -> None:
    async with browsing(directory / "profile") as tab:
        await tab.open(domains.clusters["berlin"].dashboards["b"])
        await tab.wait(f'{HEADS} === "berlin · represented by a, paris · connected"')
        assert await tab.ask(OPEN) == "true false"
        await tab.wait(f'{SITES} === "a represents b, a"')
        await tab.ask('document.querySelectorAll("#domains-tree summary")[1].click()')
        await tab.wait(f'{OPEN} === "true true"')
        await asyncio.to_thread(domains.partition, [["berlin"], ["paris"]])
        await tab.wait(f'{REACHED} === "true false"')
        line = await tab.ask('document.querySelector("#domains-line").textContent')
        assert line.endswith("Out of reach, and perhaps well: paris.")
        assert await tab.ask(OPEN) == "true true", "what was opened stays open"
        await asyncio.to_thread(domains.heal)
        await tab.wait(f'{REACHED} === "true true"')
        assert tab.complaints == []


@pytest.mark.long("starts a browser and four sites")
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
def test_a_tree_of_clusters(tmp_path: Path) -> None:
    with (
        short_dir() as directory,
        LocalDomains.create(
            directory / "joined",
            ["berlin", "paris"],
            nodes=2,
            gateways=1,
            trace=False,
            settings={"log": {"enabled": False}},
        ) as domains,
    ):
        domains.start()
        asyncio.run(look(domains, tmp_path))
