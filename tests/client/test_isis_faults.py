"""Programs that use `site.isis` in every way, while sites crash and networks break: every trace is judged, every call
ends, and members that have the same view have the same state."""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from tests.sim.chunks import in_chunks

import reconvene
from reconvene import ALL, Action, Cast, GroupView, Killed, ReconveneError
from reconvene.testing import Cluster

Make = Callable[..., Cluster]
SETTINGS = {"isis": {"enabled": True}, "log": {"enabled": False}}


class Member:
    """Its state is what it has received in its group, as of the last view that it took part in."""

    def __init__(self, net: Cluster, site: str, seen: dict[Any, set[Any]], tally: dict[str, int]) -> None:
        self.net = net
        self.site = site
        self.seen = seen
        self.tally = tally
        self.received: list[bytes] = []
        self.group: reconvene.IsisGroup | None = None

    def give(self) -> list[bytes]:
        return sorted(self.received)

    def take(self, chunks: list[bytes]) -> None:
        self.received = list(chunks)

    async def run(self) -> None:
        async with self.net.connect(self.site) as site:
            joining = asyncio.create_task(self.join(site.isis))
            casting = asyncio.create_task(self.cast(site.isis))
            try:
                await self.read(site.isis)
            finally:
                joining.cancel()
                casting.cancel()

    async def join(self, isis: reconvene.Isis) -> None:
        while True:
            self.received = []
            with suppress(ReconveneError):
                self.group = await isis.join("words", state=self)
                return
            await asyncio.sleep(0.5)

    async def read(self, isis: reconvene.Isis) -> None:
        async for event in isis:
            if isinstance(event, Cast | Action):
                self.received.append(event.data)
                if isinstance(event, Cast) and event.wants_reply:
                    with suppress(ReconveneError):
                        await event.reply(event.data)
            elif isinstance(event, GroupView):
                if isis.me in event.members:
                    view = (event.number, event.members)
                    self.seen.setdefault(view, set()).add(tuple(sorted(self.received)))
            elif isinstance(event, Killed):
                self.tally["killed"] += 1
                self.group = None
                self.rejoin = asyncio.create_task(self.join(isis))

    async def cast(self, isis: reconvene.Isis) -> None:
        count = 0
        while True:
            await asyncio.sleep(random.uniform(0.01, 0.1))
            group, count = self.group, count + 1
            if group is None:
                continue
            data = f"{isis.me} {count}".encode()
            label = random.choice((None, "x", "y", reconvene.UNORDERED))
            try:
                match random.choice(("one", "many", "call", "abcast", "gbcast", "flush")):
                    case "one":
                        await group.cbcast(data, label=label)
                    case "many":
                        await group.cbcast_many(
                            [data + b" %d" % n for n in range(random.choice((1, 30)))], label=label
                        )
                    case "call":
                        call = await group.abcast(data, label="q", replies=random.choice((1, ALL)))
                        self.tally["replies"] += len(await call.replies())
                    case "abcast":
                        await group.abcast(data, causal=random.random() < 0.5)
                    case "gbcast":
                        await group.gbcast(data)
                    case "flush":
                        await isis.flush()
                self.tally["done"] += 1
            except ReconveneError:
                self.tally["failed"] += 1


@pytest.mark.long("ten seconds each; tests/objects has programs under faults too")
@pytest.mark.parametrize("seed", in_chunks(2, 1))
def test_members_under_faults(cluster: Make, seed: int) -> None:
    seen: dict[Any, set[Any]] = {}
    tally = dict.fromkeys(("done", "failed", "replies", "killed"), 0)

    async def scenario(net: Cluster) -> None:
        programs = {name: net.spawn(name, Member(net, name, seen, tally).run) for name in net.names}
        for _ in range(6):
            await asyncio.sleep(random.uniform(1, 2))
            victim = random.choice(net.names)
            match random.choice(("kill", "crash", "cut off", "pause")):
                case "kill":
                    programs[victim].kill()
                    await asyncio.sleep(1)
                    programs[victim] = net.spawn(victim, Member(net, victim, seen, tally).run)
                case "crash":
                    net.crash(victim)
                    await asyncio.sleep(2)
                    await net.restart(victim)
                case "cut off":
                    net.partition([[victim], [name for name in net.names if name != victim]])
                    await asyncio.sleep(2)
                    net.heal()
                case "pause":
                    net.pause(victim)
                    await asyncio.sleep(2)
                    net.resume(victim)
        await asyncio.sleep(4)
        for program in programs.values():
            program.kill()

    cluster("abcde", settings=SETTINGS, seed=seed).run(scenario)
    assert tally["done"] > 200, tally
    assert tally["replies"] > 20, tally
    apart = {view: states for view, states in seen.items() if len(states) > 1}
    assert not apart, f"{len(apart)} of {len(seen)} views with states that differ: {next(iter(apart))}"
