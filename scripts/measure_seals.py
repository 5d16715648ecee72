"""What sealing costs, and what rubbish costs: µs a datagram, on loopback, in one process.

.venv/bin/python scripts/measure_seals.py
"""

import asyncio
import logging
import os
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from reconvene.runtime.access.key_files import load_cluster_keys, write_cluster_key
from reconvene.runtime.config.settings import Config, Seal
from reconvene.runtime.net.udp import Udp
from reconvene.wire.seal import ClusterKey, Sealer

SIZES = (100, 1_400, 8_900, 60_000)
TURN = 20
"""As many of the largest as any receive buffer of 4 MiB holds."""
TURNS = 200


def best(work: Callable[[], object]) -> float:
    """µs for each of the `TURN` datagrams of a call, where nothing else disturbed it."""
    least = float("inf")
    for _ in range(TURNS):
        begin = time.perf_counter()
        work()
        least = min(least, time.perf_counter() - begin)
    return least / TURN * 1e6


class Pair:
    """Site a sends to site b, which reads on request."""

    def __init__(self, folder: Path, insecure: bool) -> None:
        key = folder / f"key-{insecure}"
        write_cluster_key(key)
        seal = Seal(insecure=True) if insecure else Seal(keys=(key,))
        self.sites = {name: ("127.0.0.1", free_port()) for name in "ab"}
        log = logging.getLogger("measure")
        log.setLevel(logging.ERROR)
        self.a, self.b = (
            Udp(Config(cluster="measured", name=name, sites=self.sites, dir=folder, seal=seal), log) for name in "ab"
        )
        self.keys = () if insecure else load_cluster_keys((key,))
        self.got = 0
        self.stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    async def meet(self) -> None:
        self.a.start(lambda turn: None)
        self.b.start(lambda turn: None)
        await asyncio.sleep(0.1)

    def take(self) -> None:
        """What the loop does when the socket is readable."""
        self.b._read(self.b._socket, self._count)

    def _count(self, turn: list[bytes]) -> None:
        self.got += len(turn)

    def good(self, size: int) -> tuple[float, float]:
        data = os.urandom(size)
        sent = least = float("inf")
        for _ in range(TURNS):
            begin = time.perf_counter()
            self.a.send([((1,), data)] * TURN)
            middle = time.perf_counter()
            self.take()
            end = time.perf_counter()
            sent, least = min(sent, middle - begin), min(least, end - middle)
        assert self.got >= TURNS * TURN
        return sent / TURN * 1e6, least / TURN * 1e6

    def rubbish(self, make: Callable[[], bytes]) -> float:
        before, least = self.got, float("inf")
        for _ in range(TURNS):
            for packet in [make() for _ in range(TURN)]:
                self.stranger.sendto(packet, self.sites["b"])
            begin = time.perf_counter()
            self.take()
            least = min(least, time.perf_counter() - begin)
        assert self.got == before
        return least / TURN * 1e6


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def bare(size: int) -> tuple[float, float]:
    """The same datagrams by a loop that does nothing else."""
    data = os.urandom(size)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as a,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as b,
    ):
        b.bind(("127.0.0.1", 0))
        b.setblocking(False)
        b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        there = b.getsockname()
        sent = least = float("inf")
        for _ in range(TURNS):
            begin = time.perf_counter()
            for _ in range(TURN):
                a.sendto(data, there)
            middle = time.perf_counter()
            for _ in range(TURN):
                b.recv(65_536)
            end = time.perf_counter()
            sent, least = min(sent, middle - begin), min(least, end - middle)
    return sent / TURN * 1e6, least / TURN * 1e6


async def measure(folder: Path) -> None:
    sealed, plain = Pair(folder, insecure=False), Pair(folder, insecure=True)
    await sealed.meet()
    await plain.meet()
    print("| bytes | bare send, receive | not sealed send, receive | sealed send, receive | seal alone |")
    print("| --- | --- | --- | --- | --- |")
    for size in SIZES:
        sealer, data = Sealer("measured", 0, sealed.keys), os.urandom(size)
        alone = best(lambda sealer=sealer, data=data: [sealer.seal(data) for _ in range(TURN)])  # type: ignore[misc]
        cells = [f"{send:.1f}, {take:.1f}" for send, take in (bare(size), plain.good(size), sealed.good(size))]
        print(f"| {size:,} | {' | '.join(cells)} | {alone:.1f} |")
    print("\n| refused, received at a sealed site | 100 | 1,400 | 8,900 | 60,000 |\n| --- | --- | --- | --- | --- |")
    for name, make in kinds(sealed).items():
        print(f"| {name} | {' | '.join(f'{sealed.rubbish(make(size)):.1f}' for size in SIZES)} |")
    for pair in (sealed, plain):
        pair.a.close()
        pair.b.close()
        pair.stranger.close()


def kinds(pair: Pair) -> dict[str, Callable[[int], Callable[[], bytes]]]:
    keys = pair.keys

    def random(size: int) -> Callable[[], bytes]:
        return lambda: os.urandom(size)

    def by(sealer: Sealer) -> Callable[[int], Callable[[], bytes]]:
        return lambda size: lambda: sealer.seal(bytes(size - 48))

    def forged(size: int) -> Callable[[], bytes]:
        return lambda: Sealer("measured", 0, keys).seal(bytes(size - 48))[:-16] + bytes(16)

    def known(size: int) -> Callable[[], bytes]:
        return lambda: pair.a._sealer.seal(bytes(size - 48))[:-16] + bytes(16)

    def replayed(size: int) -> Callable[[], bytes]:
        packet = pair.a._sealer.seal(bytes(size - 48))
        pair.stranger.sendto(packet, pair.sites["b"])
        got = pair.got
        pair.take()
        pair.got = got
        return lambda: packet

    return {
        "random": random,
        "another cluster's": by(Sealer("other", 0, keys)),
        "not sealed": by(Sealer("measured", 0, ())),
        "unknown key": by(Sealer("measured", 0, (ClusterKey(os.urandom(32)),))),
        "replay": replayed,
        "recording of an old boot": by(Sealer("measured", 0, keys)),
        "forged, in a known session": known,
        "forged, a new salt each time": forged,
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder)))
