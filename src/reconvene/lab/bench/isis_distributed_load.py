"""The distributed load of section 5.4: how long a replicated object takes to respond as more is asked of it.

Requests come at random to the sites of an object, and are carried out by the copy at their own site: it spends
`SERVE_NS` of its processor on each, responds, and tells the other copies by a CBCAST that nobody waits for. Those
spend `PACKET_NS` on each packet that brings updates, and `UPDATE_NS` on each update in it. A processor does one thing
at a time. The stacks and their packets are real, the network and the processors are not: two cores can't be three
computers. The same with real sites, ten times as fast, with processors that sleep, is measured beside it.
"""

import random
from statistics import mean

from reconvene.isis.events import IsisEvent, Received
from reconvene.lab.bench.results import Bar, Results
from reconvene.lab.bench.sheet import Settings
from reconvene.lab.load.isis_simulated import IsisLab
from reconvene.lab.load.simulated import MS, SECOND

__all__ = ["HEAVY", "LIGHT", "PACKET_NS", "SERVE_NS", "SITES", "UPDATE_NS", "add", "mean_delay_ns"]

SITES = 3
SERVE_NS, PACKET_NS, UPDATE_NS = 130 * MS, 5 * MS, 1 * MS
LIGHT, HEAVY = 0.5, 7.0
"""Requests a second, at all sites together: the paper's."""
_SIZE = 64


class _Object:
    def __init__(self, copies: int, rate: float, requests: int, seed: int) -> None:
        self._lab = lab = IsisLab(copies, seed=seed)
        self._copies = copies
        self._free_at = [0] * copies
        self._packet_at = [-1] * copies
        """When the last packet with updates came."""
        self._delays: list[int] = []
        self._wanted = requests
        chance = random.Random(f"load/{seed}")
        lab.rest()
        lab.hear = self._hear
        at = lab.now
        for _ in range(requests):
            at += round(chance.expovariate(rate) * SECOND)
            site = chance.randrange(copies)
            lab.cluster.loop.at(at, lambda _, site=site: self._request(site))  # type: ignore[misc]

    def play(self) -> list[int]:
        lab = self._lab
        while len(self._delays) < self._wanted:
            lab.cluster.run_for(SECOND)
        return self._delays

    def _spend(self, site: int, cost_ns: int) -> int:
        """When the processor has done this."""
        self._free_at[site] = max(self._lab.now, self._free_at[site]) + cost_ns
        return self._free_at[site]

    def _request(self, site: int) -> None:
        came = self._lab.now
        self._lab.cluster.loop.at(self._spend(site, SERVE_NS), lambda _: self._respond(site, came))

    def _respond(self, site: int, came: int) -> None:
        lab = self._lab
        self._delays.append(lab.now - came)
        others = [process for other, process in enumerate(lab.processes) if other != site]
        if others:
            lab.isis(site).cbcast(lab.processes[site], others, b"update".ljust(_SIZE, b"."))
            lab.turn(site)

    def _hear(self, site: int, event: IsisEvent) -> None:
        if isinstance(event, Received):
            is_new = self._packet_at[site] != self._lab.now
            self._packet_at[site] = self._lab.now
            self._spend(site, UPDATE_NS + (PACKET_NS if is_new else 0))


def mean_delay_ns(copies: int, rate: float, requests: int, seed: int) -> float:
    """From a request until its response."""
    return mean(_Object(copies, rate, requests, seed).play())


def add(results: Results, settings: Settings, real: dict[str, float]) -> None:
    results.begin("a distributed load, in virtual time")
    # A site that is nearly always busy needs many requests until its mean delay is steady.
    few, many, most = (300, 1_000, 20_000) if settings.quick else (1_000, 4_000, 40_000)
    light = mean_delay_ns(1, LIGHT, few, settings.seed) / MS
    shared = mean_delay_ns(SITES, HEAVY, many, settings.seed) / MS
    alone = mean_delay_ns(1, HEAVY, most, settings.seed) / MS
    times = [("virtual time", light, alone, shared, True)]
    if "load, shared" in real:
        times.append(("real sites", real["load, light"], real["load, alone"], real["load, shared"], False))
    for where, one, heavy, copies, judged in times:
        results.add(f"load: one site, light, mean delay, {where}", "reconvene", one, "ms")
        work = f"load: {SITES} copies, heavy, mean delay, {where}"
        results.add(work, "reconvene", copies, "ms", ("one site, light", one), Bar(1.3) if judged else None)
        work = f"load: one site, heavy, mean delay, {where}"
        bar = Bar(3, at_least=True) if judged else None
        results.add(work, "reconvene", heavy, "ms", (f"{SITES} copies", copies), bar)
    results.sheet.notes.append(
        f"load: light is {LIGHT:g}, heavy {HEAVY:g} requests a second at all sites together; a request takes the "
        f"processor of its site {SERVE_NS // MS} ms, a packet with updates {PACKET_NS // MS} ms, an update "
        f"{UPDATE_NS // MS} ms; real sites: ten times as fast, with processors that sleep"
    )
