"""Joined clusters of real processes: how long nothing crosses after kill -9 of the site that represents a cluster.

Two clusters of four sites, each with two gateways, on loopback. A program at an ordinary site of the first cluster
sends a numbered message every few ms. Measured is the time from the end of the process until a message that was sent
after it arrives: of a wide group, at a program in the second cluster, when the representative is killed; of a local
group, at another program of the site, when a site that is no gateway is killed. Local messages are safe, as what
crosses is in its cluster: an agreed one may still be delivered in the old configuration, if the order does not need
the site that was killed.
"""

import asyncio
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic

from reconvene.client.connecting import connect
from reconvene.client.events import Message
from reconvene.client.group import Group
from reconvene.errors import Unavailable
from reconvene.ids import Service
from reconvene.lab.bench.foreign import Foreign
from reconvene.lab.bench.sheet import Settings, Sheet, Table, number, verdict
from reconvene.local import LocalDomains

__all__ = ["run"]

ROUNDS, QUICK_ROUNDS = 9, 3
EVERY_S = 0.005
LEAD_S = 0.5
"""Messages flow for so long before a kill."""
BAR = 1.5
_PATIENCE_S = 30.0
_SENDER = _READER = "c"
_ORDINARY = "d"
"""Sites that are no gateways."""


def run(settings: Settings) -> Sheet:
    sheet = Sheet("wide-real")
    rounds = QUICK_ROUNDS if settings.quick else ROUNDS
    with (
        TemporaryDirectory(prefix="reconvene-") as place,
        LocalDomains.create(
            Path(place) / "joined",
            clusters=("berlin", "paris"),
            nodes=4,
            gateways=2,
            trace=False,
            settings={"log": {"enabled": False}},
        ) as domains,
    ):
        domains.start()
        with Foreign(lambda: _pids(domains)) as foreign:
            handed, local = asyncio.run(_measure(domains, rounds, settings))
    ratio = median(handed) / median(local)
    sheet.add("messages cross again after kill -9 of the representative", "reconvene", median(handed), "ms",
              "a local crash", ratio)  # fmt: skip
    sheet.add("messages are delivered again after kill -9 of an ordinary site", "reconvene", median(local), "ms")
    sheet.tables.append(
        Table.of(
            f"from kill -9 until a message sent after it arrives, {rounds} times",
            ("killed", "median, ms", "least", "most"),
            [
                ["the representative", *(number(value) for value in (median(handed), min(handed), max(handed)))],
                ["an ordinary site", *(number(value) for value in (median(local), min(local), max(local)))],
            ],
        )
    )
    sheet.notes.append(f"ratio {ratio:.2f}; at most {BAR} expected: {verdict(ratio <= BAR)}")
    sheet.notes.append(f"other programs used {foreign.cores:.2f} cores meanwhile")
    return sheet


async def _measure(domains: LocalDomains, rounds: int, settings: Settings) -> tuple[list[float], list[float]]:
    """Milliseconds of each round: after the representative's crash, and after an ordinary site's."""
    handed: list[float] = []
    local: list[float] = []
    for turn in range(rounds):
        settings.progress("crashes", turn, rounds)
        representative = await asyncio.to_thread(domains.representative, "berlin")
        handed.append(await _round(domains, f"berlin/{representative}", wide=True))
        local.append(await _round(domains, f"berlin/{_ORDINARY}", wide=False))
    return handed, local


def _pids(domains: LocalDomains) -> list[int]:
    return [pid for cluster in domains.clusters.values() for pid in cluster.pids.values()]


async def _round(domains: LocalDomains, killed: str, *, wide: bool) -> float:
    """Kills the site while messages flow, and starts it again. Returns ms."""
    at = domains.addresses
    reader_at = at[f"paris/{_READER}"] if wide else at[f"berlin/{_SENDER}"]
    async with connect(at[f"berlin/{_SENDER}"]) as sender, connect(reader_at) as reader:
        flow = Flow(
            await sender.join("flow", wide=wide, receive=False, timeout=_PATIENCE_S),
            await reader.join("flow", wide=wide, timeout=_PATIENCE_S),
            Service.AGREED if wide else Service.SAFE,
        )
        tasks = [asyncio.create_task(flow.send()), asyncio.create_task(flow.read())]
        try:
            await asyncio.sleep(LEAD_S)
            if not flow.arrived:
                raise Unavailable("bench wide-real: messages do not flow before the crash")
            await asyncio.to_thread(domains.crash, killed)
            killed_at = monotonic()
            async with asyncio.timeout(_PATIENCE_S):
                arrived_at = await flow.next_sent_after(killed_at)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.to_thread(domains.restart, killed)
    await asyncio.to_thread(domains.wait_for, _PATIENCE_S)
    return (arrived_at - killed_at) * 1e3


class Flow:
    """Numbered messages from one program to another, with the time of each."""

    def __init__(self, source: Group, sink: Group, service: Service) -> None:
        self._source = source
        self._sink = sink
        self._service = service
        self._sent: list[float] = []
        self.arrived = 0
        self._after: float | None = None
        self._found: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def next_sent_after(self, time: float) -> float:
        """When the first message arrives that was sent after this time."""
        self._after = time
        return await self._found

    async def send(self) -> None:
        while True:
            self._sent.append(monotonic())
            await self._source.send(str(len(self._sent) - 1).encode(), self._service)
            await asyncio.sleep(EVERY_S)

    async def read(self) -> None:
        async for event in self._sink:
            if isinstance(event, Message):
                self.arrived += 1
                sent_at = self._sent[int(event.data)]
                if self._after is not None and sent_at > self._after and not self._found.done():
                    self._found.set_result(monotonic())
