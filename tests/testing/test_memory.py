"""A whole site holds no more after many clients than after a few: they join groups and process groups, cast, call,
send, and go; sites crash, and the network is cut."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress

import pytest
from tests.reachable import grown, held

import reconvene
from reconvene.core.effects import Effects
from reconvene.isis.pool import Entry
from reconvene.runtime.site.history import History
from reconvene.testing import Cluster, machine
from reconvene.testing.machine import SiteServer

Make = Callable[..., Cluster]

LASTING = "ab"
"""Sites that live as long as the test."""
SPARE = 12
"""At rest a site still sends beacons, and its numbers get longer. One element for each of the visitors is more."""
ISIS = {"isis": {"enabled": True}, "log": {"enabled": False}}


class Servers:
    """The client servers of all sites, by name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.by_name: dict[str, SiteServer] = {}
        servers = self.by_name

        class Noted(SiteServer):
            async def start(self) -> None:
                servers[self._config.name] = self
                await super().start()

        monkeypatch.setattr(machine, "SiteServer", Noted)

    def held(self, name: str) -> Counter[str]:
        """By the site and by its server."""
        return held(self.by_name[name], but=_is_outside)


def _is_outside(value: object) -> bool:
    """No part of the site; or it holds the present turn only; or, as the history of configurations, it has a bound
    that this test does not reach."""
    outside = (asyncio.AbstractEventLoop, asyncio.Task, logging.Logger, Effects, History)
    return isinstance(value, outside) or type(value).__module__.startswith(("reconvene.testing", "reconvene.sim"))


async def _answer(isis: reconvene.Isis) -> None:
    async for event in isis:
        if isinstance(event, reconvene.Cast) and event.wants_reply:
            with suppress(reconvene.ReconveneError):
                await event.reply(b"yes")


async def _read(group: AsyncIterator[object]) -> None:
    with suppress(reconvene.ReconveneError):
        async for _ in group:
            pass


async def _visit(net: Cluster, name: str, number: int) -> None:
    """One client, from its beginning to its end."""
    async with net.connect(name) as site, asyncio.TaskGroup() as tasks:
        bank = await site.isis.join("bank")
        answering = tasks.create_task(_answer(site.isis))
        with suppress(reconvene.ReconveneError):
            await bank.cbcast(b"x", label=f"topic {number}")
            await (await bank.abcast(b"?", label=f"queue {number}", replies=reconvene.ALL, timeout=5)).replies()
            await (await bank.cbcast(b"?", replies=1, timeout=5)).replies()
        for primary in (False, True):
            group = await site.join(f"orders {primary}", primary=primary)
            await group.send(b"a pizza")
        answering.cancel()


async def _stay(net: Cluster, stack: AsyncExitStack) -> None:
    """At each lasting site a client that only listens."""
    tasks = await stack.enter_async_context(asyncio.TaskGroup())
    for name in LASTING:
        site = await stack.enter_async_context(net.connect(name))
        await site.isis.join("bank", answers=False)
        listening = tasks.create_task(_read(site.isis))
        stack.callback(listening.cancel)
        for primary in (False, True):
            reading = tasks.create_task(_read(await site.join(f"orders {primary}", primary=primary)))
            stack.callback(reading.cancel)


async def _round(net: Cluster, number: int) -> None:
    for name in net.names:
        await asyncio.gather(*[_visit(net, name, number) for _ in range(3)])
    net.crash("c")
    await net.wait_for()
    await _visit(net, "a", number)
    await net.restart("c")
    await net.wait_for()
    net.partition([["a", "c"], ["b"]])
    await net.wait_for()
    await _visit(net, "a", number)
    net.heal()
    await net.wait_for()
    await asyncio.sleep(10)


def more_after_many_clients(net: Cluster, servers: Servers) -> dict[str, dict[str, tuple[int, int]]]:
    """By site: what it holds more of than after a few."""

    async def scenario(net: Cluster) -> dict[str, dict[str, tuple[int, int]]]:
        async with AsyncExitStack() as stack:
            await _stay(net, stack)
            await _round(net, 0)
            before = {name: servers.held(name) for name in LASTING}
            for number in range(3):
                await _round(net, 1 + number)
            return {name: grown(before[name], servers.held(name), SPARE) for name in LASTING}

    return net.run(scenario)


def test_a_site_holds_no_more_after_many_clients(cluster: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    servers = Servers(monkeypatch)
    assert more_after_many_clients(cluster("abc", settings=ISIS), servers) == {"a": {}, "b": {}}


def _keeps_the_past(self: Entry) -> None:
    self.disposed = True


def test_what_a_site_does_not_forget_is_found(cluster: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Entry, "dispose", _keeps_the_past)
    servers = Servers(monkeypatch)
    assert "Local.past" in more_after_many_clients(cluster("abc", settings=ISIS), servers)["a"]
