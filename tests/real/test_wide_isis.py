"""Processes of ISIS in joined clusters of real sites: casts, calls and watches between them, while things break."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.real.test_wide import SETTINGS, expect_good

import reconvene
from reconvene import Cast, ProcessFailed, Reachable, Unreachable, WatchRefused
from reconvene.errors import Rejected, Unavailable
from reconvene.local import LocalDomains

GROUP = "bank"
CHECKS = (
    *("wide.cast-once", "wide.cast-causal", "wide.cast-order", "wide.cast-direct"),
    *("wide.cast-failed", "live.wide"),
)


class Reader:
    """One process: what it has received, and what it was told."""

    def __init__(self, isis: reconvene.Isis) -> None:
        self.isis = isis
        self.casts: list[Cast] = []
        self.told: list[reconvene.IsisEvent] = []
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for event in self.isis:
            if isinstance(event, Cast):
                self.casts.append(event)
                if event.wants_reply:
                    await event.reply(b"answer of " + str(self.isis.wide_me).encode())
            elif isinstance(event, ProcessFailed | Unreachable | Reachable | WatchRefused):
                self.told.append(event)

    async def until(self, done: Callable[[], bool], limit_s: float = 30.0) -> None:
        async with asyncio.timeout(limit_s):
            while not done():
                assert not self._task.done(), self._task
                await asyncio.sleep(0.02)

    def texts(self, kind: str | None = None, sender: reconvene.Process | None = None) -> list[str]:
        return [
            cast.data.decode()
            for cast in self.casts
            if kind in (None, cast.kind) and (sender is None or cast.sender == sender)
        ]

    def close(self) -> None:
        self._task.cancel()


async def members(isis: reconvene.Isis, count: int) -> list[str]:
    """Of the group, in all clusters, once there are so many."""
    async with asyncio.timeout(30):
        while True:
            found = [group.members for group in await isis.groups(wide=True) if group.name == GROUP]
            if found and len(found[0]) == count:
                return list(found[0])
            await asyncio.sleep(0.05)


@pytest.mark.long("starts six sites, kills two and cuts the line between them")
def test_casts_between_clusters_while_things_break(tmp_path: Path) -> None:
    with LocalDomains.create(
        tmp_path / "joined", clusters=2, nodes=3, gateways=2, isis=True, settings=SETTINGS
    ) as domains:
        domains.start()
        asyncio.run(_break_things(domains))
        trace = domains.finish_trace()
    expect_good(trace, *CHECKS)


async def _break_things(domains: LocalDomains) -> None:
    at = domains.addresses
    async with reconvene.connect(at["berlin/c"]) as berlin, reconvene.connect(at["paris/c"]) as paris:
        for site in (berlin, paris):
            await site.isis.join(GROUP, wide=True, timeout=20)
        x, z = Reader(berlin.isis), Reader(paris.isis)
        me, other = berlin.isis.wide_me, paris.isis.wide_me
        assert await members(berlin.isis, 2) == [str(me), str(other)]
        await members(paris.isis, 2)
        await z.isis.watch(me)
        await x.isis.watch(other)

        # A gateway is killed under load: everything arrives once, in order, and ABCASTs in one order.
        sending = asyncio.create_task(_cast(x, [other], 120))
        back = asyncio.create_task(_cast(z, [me], 120))
        await asyncio.sleep(0.4)
        (killed,) = await asyncio.to_thread(domains.crash, "@berlin")
        sent, theirs = await sending, await back
        await z.until(lambda: len(z.texts(sender=me)) >= len(sent))
        await x.until(lambda: len(x.texts(sender=other)) >= len(theirs))
        for reader, sender, expected in ((z, me, sent), (x, other, theirs)):
            got = reader.texts("cbcast", sender)
            assert got == [text for text in expected if text.startswith("cbcast")], "once, in order"
        assert x.texts("abcast") == z.texts("abcast"), "one order"
        assert len(x.texts("abcast")) == 2 * len([text for text in sent if text.startswith("abcast")])
        assert not x.told
        assert not z.told, "a site that crashed is not another one's process"
        await asyncio.to_thread(domains.restart, killed)

        # The line is cut: nobody has failed, and what is cast there is refused. It comes back.
        await asyncio.to_thread(domains.partition, [["berlin"], ["paris"]])
        await z.until(lambda: z.told == [Unreachable(me)])
        await x.until(lambda: x.told == [Unreachable(other)])
        with pytest.raises(Unavailable, match="out of reach"):
            await x.isis.cbcast(b"into the dark", [other])
        await asyncio.to_thread(domains.heal)
        await z.until(lambda: z.told == [Unreachable(me), Reachable(me)])
        await members(x.isis, 2)
        call = await x.isis.cbcast(b"back again", GROUP, wide=True, replies=reconvene.ALL, timeout=20)
        replies = {reply.sender: reply.data async for reply in call if isinstance(reply, reconvene.Reply)}
        assert replies == {one: b"answer of " + str(one).encode() for one in (me, other)}
        assert "back again" in z.texts()

        # Its site is killed: that is a failure, and its cluster says so.
        await asyncio.to_thread(domains.crash, "berlin/c")
        await z.until(lambda: len(z.told) == 3)
        assert z.told[2] == ProcessFailed(me)
        x.close()
        z.close()


async def _cast(reader: Reader, to: list[reconvene.Process], count: int) -> list[str]:
    """CBCASTs to the others by name, and now and then an ABCAST to the group."""
    sent = []
    for number in range(count):
        kind = "abcast" if number % 4 == 0 else "cbcast"
        text = f"{kind} {number} of {reader.isis.me}"
        if kind == "abcast":
            await reader.isis.abcast(text.encode(), GROUP, label="queue", wide=True)
        else:
            await reader.isis.cbcast(text.encode(), to)
        sent.append(text)
        await asyncio.sleep(0.01)
    return sent


@pytest.mark.long("starts four sites, one of them in the test itself")
def test_embedded_and_without_asyncio(tmp_path: Path) -> None:
    with LocalDomains.create(
        tmp_path / "joined", clusters=2, nodes=2, gateways=1, isis=True, settings=SETTINGS
    ) as domains:
        domains.start()
        domains.crash("paris/b")
        asyncio.run(_inside(domains))
        domains.restart("paris/b")
        _blocking(domains)
        trace = domains.finish_trace()
    expect_good(trace, "wide.cast-once", "wide.cast-direct")


async def _inside(domains: LocalDomains) -> None:
    file = domains.clusters["paris"].layout.config("b")
    async with reconvene.open(file) as paris, AsyncExitStack() as leaving:
        berlin = await leaving.enter_async_context(reconvene.connect(domains.addresses["berlin/b"]))
        await berlin.isis.join(GROUP, wide=True, timeout=30)
        await paris.isis.join(GROUP, wide=True, timeout=30)
        await members(paris.isis, 2)
        await members(berlin.isis, 2)
        x, z = Reader(berlin.isis), Reader(paris.isis)
        here, there = berlin.isis.wide_me, paris.isis.wide_me
        for reader, other in ((x, there), (z, here)):
            call = await reader.isis.abcast(b"who are you?", [other], replies=1, timeout=20)
            reply = await call.first()
            assert (reply.sender, reply.data) == (other, b"answer of " + str(other).encode())
            assert call.id.startswith(str(reader.isis.wide_me).rpartition(":")[0])
        for refused in (
            z.isis.gbcast(b"", GROUP, wide=True),
            z.isis.abcast(b"", GROUP, causal=True, wide=True),
            z.isis.abcast(b"", [here], causal=True),
        ):
            with pytest.raises(Rejected, match="does not pass between clusters"):
                await refused
        with pytest.raises(Rejected, match="no cluster that can be reached"):
            await z.isis.cbcast(b"", "nobody", wide=True)
        with pytest.raises(Rejected, match="names are those of casts"):
            await paris.join("isis:bank", wide=True)
        with pytest.raises(Unavailable, match="out of reach"):
            await z.isis.watch("rome/a:1:1")
        await z.isis.watch("berlin/q:1:1")
        await z.until(lambda: z.told == [WatchRefused(reconvene.Process("berlin/q", 1, 1))])
        await z.isis.watch(here)
        x.close()
        await leaving.aclose()
        await z.until(lambda: z.told[1:] == [ProcessFailed(here)])
        z.close()


def _once_unblocked(act: Callable[[], None]) -> None:
    """As soon as the site that was started again has made its cluster a majority."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return act()
        except Unavailable:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.1)


def _blocking(domains: LocalDomains) -> None:
    at = domains.addresses
    with reconvene.blocking.connect(at["berlin/b"]) as berlin, reconvene.blocking.connect(at["paris/a"]) as paris:
        berlin.isis.join(GROUP, wide=True, timeout=20)
        paris.isis.open()
        _once_unblocked(lambda: paris.isis.watch(f"berlin/{berlin.isis.me}"))
        berlin.isis.cbcast(b"to you", [paris.isis.wide_me])
        event = next(event for event in paris.isis.events(20) if isinstance(event, Cast))
        assert (event.data, event.sender, event.group) == (b"to you", berlin.isis.wide_me, None)
