"""A flood of datagrams at one site's port: the cluster keeps its configuration, delivers, and counts what it
drops."""

import random
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from tests.network.load import Load
from tests.network.sites import RealSites, until

from reconvene.units import parse_address
from reconvene.wire.seal import HEADER_BYTES, ClusterKey, Sealer

FLOOD = 12_000
"""Datagrams, sent within about two seconds."""


class Relay:
    """A relay between two sites that records what one sends to the other."""

    def __init__(self, destination: tuple[str, int]) -> None:
        self.recorded: list[bytes] = []
        self._destination = destination
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(0.1)
        self.address = "{}:{}".format(*self._socket.getsockname())
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._pass_on, name="relay")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._socket.close()

    def _pass_on(self) -> None:
        while not self._ended.is_set():
            try:
                packet = self._socket.recv(1 << 16)
            except TimeoutError:
                continue
            self.recorded.append(packet)
            self._socket.sendto(packet, self._destination)


def hostile(recorded: list[bytes], seed: int) -> Iterator[bytes]:
    """Endless hostile datagrams: random, truncated, damaged, replayed, of another cluster, key or version,
    unsealed."""
    rng = random.Random(seed)
    foreign = [
        Sealer("shed", 1, [ClusterKey(b"k" * 32)]),
        Sealer("shop", 1, [ClusterKey(b"k" * 32)]),
        Sealer("shop", 1, []),
    ]
    while True:
        packet = rng.choice(recorded)
        yield rng.randbytes(rng.randrange(1_400))
        yield packet[: rng.randrange(HEADER_BYTES)]
        # Its counter was never used, so only the seal can show that it is forged.
        yield packet[: HEADER_BYTES - 8] + rng.randrange(1 << 40, 1 << 60).to_bytes(8, "big") + packet[HEADER_BYTES:]
        yield packet
        yield packet[:1] + b"\x09" + packet[2:]
        for sealer in foreign:
            yield sealer.seal(rng.randbytes(200))


def kernel_drops(port: int) -> int:
    """Datagrams that did not fit into the receive buffer: the site never sees them and cannot count them."""
    for line in Path("/proc/net/udp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1].endswith(f":{port:04X}"):
            return int(fields[-1])
    return 0


@pytest.mark.long("sites in namespaces, flooded")
def test_flood(tmp_path: Path) -> None:
    with RealSites(tmp_path, "abc") as sites, Relay(parse_address(sites.addresses["a"])) as relay:
        # The list of sites has to be the same everywhere; the address at which c reaches a may be c's own.
        sites.write("c", {"sites": {**sites.addresses, "a": relay.address}})
        sites.start()
        sites.wait_for()
        target = parse_address(sites.addresses["a"])
        with (
            Load(sites.sockets) as load,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire,
        ):
            load.until_moved()
            before = sites.statuses()
            moved = len(load["a"].received)
            for at, packet in enumerate(hostile(list(relay.recorded), seed=1)):
                if at == FLOOD:
                    break
                wire.sendto(packet, target)
                if at % 40 == 39:
                    time.sleep(0.004)
            assert len(load["a"].received) > moved + 50, "it went on meanwhile"

            def counted() -> dict[str, int]:
                now, then = sites.status("a")["counters"], before["a"]["counters"]
                changes = {key: now[key] - then[key] for key in now if key.startswith("dropped_")}
                return {key: change for key, change in changes.items() if change}

            lost = kernel_drops(target[1])
            until(lambda: sum(counted().values()) + lost >= FLOOD, lambda: f"{counted()} of {FLOOD}, {lost} lost")
            drops = counted()
            assert set(drops) == {
                *("dropped_malformed", "dropped_version", "dropped_foreign_cluster", "dropped_unsealed"),
                *("dropped_unknown_key", "dropped_bad_seal", "dropped_replay"),
            }
            assert FLOOD / 2 < sum(drops.values()) <= FLOOD
            load.until_moved()
            for name, status in sites.statuses().items():
                assert status["configuration"] == before[name]["configuration"]
                assert status["counters"]["malformed"] == 0, "nothing of it came as far as the core"
            load.hold()
            load.until_delivered(load.accepted(), *sites.names)
        assert not load.trouble
        told = [line for line in sites.log("a").splitlines() if " dropped_" in line]
        assert len(told) < 30, "a line for each reason and source"
        sites.judge()
