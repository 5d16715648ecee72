"""Followers and outposts on a network with real cuts: each process has a network namespace, and packets are dropped.

They reach the sites over TCP, under a client key. Some are killed amid that. `make soak PART=real-places` runs more
rounds.
"""

import asyncio
import os
import random
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from tests.network.sites import PATIENCE_S, RealSites, until

import reconvene
from reconvene.lab.namespaces import Namespaces, available
from reconvene.local import traces
from reconvene.local.control import Lines
from reconvene.local.toml import to_toml
from reconvene.runtime.access.key_files import add_client_key
from reconvene.verify.engine import verify
from reconvene.verify.history import History

WHY_NOT = available()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))

ROUNDS = int(os.environ.get("RECONVENE_PLACES_ROUNDS", "5"))
SEED = int(os.environ.get("RECONVENE_PLACES_SEED", "1"))
SITES, FOLLOWERS, OUTPOSTS = ("a", "b", "c"), ("f", "g"), ("o", "p")
EVERYONE = (*SITES, *FOLLOWERS, *OUTPOSTS)
PORT = 7001


class Places:
    """Three sites, f that follows them, g that follows f and c, o and p that forward to the sites."""

    def __init__(self, directory: Path, network: Namespaces) -> None:
        self.directory = directory
        self.network = network
        self.keys = directory / "clients"
        add_client_key(self.keys, "places", "append")
        self.tcp = {name: f"{host}:{PORT}" for name, host in zip(EVERYONE, network.addresses, strict=True)}
        self.sites = RealSites(directory, SITES, network=network)
        for name in SITES:
            self.sites.write(name, {"log": {"begin": True}, "clients": self._clients(name)})
        self.sites.names = EVERYONE  # whom it looks at; [sites] of the files above has the sites alone
        follow = {"f": "abc", "g": "fc", "o": "abc", "p": "cba"}
        for name, sources in follow.items():
            log = {"follow": [self.tcp[source] for source in sources], "follow_key": str(self.keys)}
            self._write(name, log)

    def _clients(self, name: str) -> dict[str, str]:
        return {"unix": str(self.sites.socket(name)), "tcp": self.tcp[name], "keys": str(self.keys)}

    def _write(self, name: str, log: dict[str, Any]) -> None:
        document: dict[str, Any] = {
            "cluster": "shop",
            "name": name,
            "dir": name,
            "trace": {"dir": str(self.sites.trace)},
        }
        if name in OUTPOSTS:
            document |= {"clients": {"unix": str(self.sites.socket(name))}, "log": {"outpost": True, **log}}
        else:
            own = {name: self.tcp[name].replace(str(PORT), "7000")}
            seal = {"keys": [str(self.sites.key)]}
            document |= {"sites": own, "seal": seal, "clients": self._clients(name), "log": log}
        self.sites.file(name).write_text(to_toml(document))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.sites.end()

    def start(self, *names: str) -> None:
        for name in names:
            argv = [sys.executable, "-m", "reconvene", "node", "--config", str(self.sites.file(name))]
            with self.sites.log_file(name).open("ab") as log:
                self.sites.processes[name] = self.network.run(
                    EVERYONE.index(name), argv, stdout=log, stderr=log, cwd=self.directory
                )
        until(lambda: set(self.statuses()) >= set(names), lambda: "\n".join(map(self.sites.log, names)))

    def statuses(self) -> dict[str, Mapping[str, Any]]:
        with Lines({name: self.sites.socket(name) for name in EVERYONE}) as lines:
            return {name: status["log"] for name, status in lines.statuses(EVERYONE).items()}

    def at_rest(self) -> bool:
        logs = self.statuses()
        greens = {logs[name]["green"] for name in (*SITES, *FOLLOWERS) if name in logs}
        waiting = [
            log["waiting"]["messages"] if log.get("outpost") else log["red"] + log["yellow"] for log in logs.values()
        ]
        return len(logs) == len(EVERYONE) and len(greens) == 1 and not any(waiting)


class Writers(threading.Thread):
    """A program at each site and outpost that appends one message after the other."""

    def __init__(self, places: Places) -> None:
        super().__init__(name="writers")
        self._places = places
        self.writing = True
        self.taken: dict[str, list[str]] = {name: [] for name in (*SITES, *OUTPOSTS)}
        """By place: the messages with a receipt."""

    def run(self) -> None:
        asyncio.run(self._all())

    async def _all(self) -> None:
        await asyncio.gather(*map(self._write, self.taken))

    async def _write(self, name: str) -> None:
        number = 0
        async with reconvene.connect(str(self._places.sites.socket(name)), wait=PATIENCE_S, timeout=2.0) as site:
            while self.writing:
                number += 1
                try:
                    await site.log.append(f"{name} {number}".encode())
                except reconvene.ReconveneError:
                    await asyncio.sleep(0.1)
                else:
                    self.taken[name].append(f"{name} {number}")
                await asyncio.sleep(0.01)


async def _read(socket: Path) -> list[str]:
    async with reconvene.connect(str(socket), wait=PATIENCE_S) as site:
        return [entry.data.decode() for entry in await site.log.read()]


def _break(places: Places, chance: random.Random) -> None:
    """Cuts the network anew and kills some of the followers and outposts; then mends one of both."""
    network, sites = places.network, places.sites
    order = list(range(len(EVERYONE)))
    chance.shuffle(order)
    at = chance.randint(1, len(order) - 1)
    network.cut([order[:at], order[at:]])
    killed = chance.sample((*FOLLOWERS, *OUTPOSTS), chance.randint(0, 3))
    time.sleep(chance.uniform(0.3, 2.0))
    if killed:
        sites.crash(*killed)
    time.sleep(chance.uniform(0.3, 1.0))
    if chance.random() < 0.6:
        network.heal()
    places.start(*killed)
    time.sleep(chance.uniform(0.5, 2.0))


@pytest.mark.long("seven processes in network namespaces, for half a minute")
def test_followers_and_outposts_through_cuts_and_kills(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    with Namespaces(len(EVERYONE)) as network, Places(tmp_path, network) as places:
        places.start(*SITES)
        places.start(*FOLLOWERS, *OUTPOSTS)
        writers = Writers(places)
        writers.start()
        try:
            for _ in range(ROUNDS):
                _break(places, chance)
        finally:
            writers.writing = False
            network.heal()
            writers.join(PATIENCE_S)
        until(places.at_rest, lambda: f"at rest: {places.statuses()}")
        logs = {name: asyncio.run(_read(places.sites.socket(name))) for name in (*SITES, *FOLLOWERS)}
        sites, trace = places.sites, places.sites.trace
        sites.changed()
        until(lambda: traces.is_quiet(trace, EVERYONE, sites.changed_at, 1.5), "quiet")
        sites.end()
        traces.write_run(
            trace, run="places", nodes=SITES, followers=FOLLOWERS, outposts=OUTPOSTS, order="atop", settled=True,
            components=[EVERYONE], down=[],
        )  # fmt: skip
    report = verify([History.load(trace)])
    assert report.ok, report.violated()
    assert next(check.cases for check in report.checks if check.id == "corel.follow") > len(logs["a"])
    for name, log in logs.items():
        assert log == logs["a"], f"{name} has another log"
    assert len(set(logs["a"])) == len(logs["a"]), "nothing is there twice"
    for name, taken in writers.taken.items():
        assert len(taken) > 10, f"{name} had work"
        wanted = set(taken)
        found = [message for message in logs["a"] if message in wanted]
        assert sorted(found) == sorted(taken), f"{name}: what has a receipt is there"
        if name in OUTPOSTS:
            assert found == taken, f"{name}: in the order in which it was accepted"
