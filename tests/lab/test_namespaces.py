"""Namespaces: which sites are connected under each cut, and that nothing is left. Needs root; skipped with a
reason."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest

from reconvene.errors import Rejected
from reconvene.lab.namespaces import MOST_SITES, JoinedNamespaces, Namespaces, available, remove_leftovers

REASON = available()
needs_namespaces = pytest.mark.skipif(REASON is not None, reason=REASON or "")

PORT = 7000
GROUP = "239.1.2.3"

LISTEN = f"""
import socket, sys
taker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
taker.bind(("", {PORT}))
here = socket.inet_aton(sys.argv[1])
taker.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("{GROUP}") + here)
print("ready", flush=True)
while True:
    print(taker.recv(100).decode(), flush=True)
"""

SEND = f"""
import socket, sys
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
word, *targets = sys.argv[1:]
for target in targets:
    sender.sendto(word.encode(), (target, {PORT}))
"""


class Net:
    """Three sites that listen, and what each received."""

    def __init__(self, network: Namespaces) -> None:
        self.network = network
        self.round = 0
        self.listeners = [
            network.run(index, [sys.executable, "-c", LISTEN, address], stdout=subprocess.PIPE)
            for index, address in enumerate(network.addresses)
        ]
        for listener in self.listeners:
            assert self.next(listener) == "ready"

    def next(self, listener: subprocess.Popen[bytes]) -> str:
        assert listener.stdout is not None
        return listener.stdout.readline().decode().strip()

    def heard(self, *targets: str) -> set[tuple[int, int]]:
        """The pairs (from, to) that are connected: each site sends a word to all others, or to `targets`, then one to
            itself,
        which ends it."""
        self.round += 1
        for index, own in enumerate(self.network.addresses):
            to = targets or [address for address in self.network.addresses if address != own]
            self._send(index, f"{self.round}:{index}", *to)
        pairs = set()
        for index, listener in enumerate(self.listeners):
            self._send(index, f"{self.round}:end", "127.0.0.1")
            while (word := self.next(listener)) != f"{self.round}:end":
                round_, _, sender = word.partition(":")
                assert int(round_) == self.round, "nothing is late: the way is synchronous"
                pairs.add((int(sender), index))
        return pairs

    def _send(self, index: int, word: str, *targets: str) -> None:
        assert self.network.run(index, [sys.executable, "-c", SEND, word, *targets]).wait(20) == 0


@pytest.fixture(scope="module")
def net() -> Iterator[Net]:
    with Namespaces(3) as network:
        yield Net(network)


ALL = {(a, b) for a in range(3) for b in range(3) if a != b}


@needs_namespaces
def test_cuts(net: Net) -> None:
    network = net.network
    assert net.heard() == ALL
    network.cut([[0, 1], [2]])
    assert net.heard() == {(0, 1), (1, 0)}
    network.cut([[1, 2]])
    assert net.heard() == {(1, 2), (2, 1)}, "a site that no component names is alone"
    network.chain([1, 0, 2])
    assert net.heard() == ALL - {(1, 2), (2, 1)}
    network.heal()
    network.cut_one_way(0, 1)
    assert net.heard() == ALL - {(0, 1)}
    network.cut_one_way(2, 0)
    assert net.heard() == ALL - {(0, 1), (2, 0)}, "one-way cuts add up"
    network.heal()
    assert net.heard() == ALL


@needs_namespaces
def test_multicast_passes_and_is_cut(net: Net) -> None:
    itself = {(site, site) for site in range(3)}
    net.network.heal()
    assert net.heard(GROUP) - itself == ALL
    net.network.cut([[0], [1, 2]])
    assert net.heard(GROUP) - itself == {(1, 2), (2, 1)}
    net.network.heal()


@needs_namespaces
def test_a_site_that_is_not_there(net: Net) -> None:
    with pytest.raises(Rejected, match="no site 7"):
        net.network.cut_one_way(0, 7)
    assert net.heard() == ALL


@pytest.mark.parametrize("sites", [0, MOST_SITES + 1])
def test_how_many(sites: int) -> None:
    with pytest.raises(Rejected, match="expected 1 to 26"):
        Namespaces(sites)


def test_cuts_need_a_network() -> None:
    with pytest.raises(Rejected, match="not up"):
        Namespaces(2).heal()


def names(network: Namespaces) -> list[str]:
    prefix = network.names[0].rpartition("-")[0]
    return [path.name for path in Path("/run/netns").glob(f"{prefix}-*")]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_dead(pid: int) -> None:
    deadline = monotonic() + 10
    while alive(pid):
        assert monotonic() < deadline, f"{pid} lives on"
        sleep(0.01)


@needs_namespaces
def test_an_exception_leaves_nothing() -> None:
    with pytest.raises(ZeroDivisionError), Namespaces(2, mtu=9000) as network:  # noqa: PT012
        assert len(names(network)) == 3
        mtu = network.run(1, ["cat", "/sys/class/net/eth0/mtu"], stdout=subprocess.PIPE)
        assert mtu.communicate(timeout=10)[0] == b"9000\n"
        # We do not know its child, but it is inside.
        shell = network.run(0, ["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE)
        assert shell.stdout is not None
        child = int(shell.stdout.readline())
        assert alive(child)
        _ = 1 // 0
    assert names(network) == []
    assert shell.poll() is not None
    wait_until_dead(child)


LEFT = """
import time
from pathlib import Path
from subprocess import DEVNULL
from reconvene.lab.namespaces import Namespaces
network = Namespaces(1).__enter__()
inside = network.run(0, ["sleep", "600"], stdout=DEVNULL).pid
while Path(f"/proc/{inside}/comm").read_text() != "sleep\\n":
    time.sleep(0.01)  # it is still on its way there, and has not said yet that it dies with us
print(network.names[0], inside, flush=True)
time.sleep(600)
"""


@needs_namespaces
def test_what_a_killed_program_leaves() -> None:
    killed = subprocess.Popen([sys.executable, "-c", LEFT], stdout=subprocess.PIPE)
    try:
        assert killed.stdout is not None
        name, pid = killed.stdout.readline().decode().split()
        remove_leftovers()
        assert Path("/run/netns", name).exists(), "its owner lives"
    finally:
        os.kill(killed.pid, signal.SIGKILL)
        killed.communicate()
    wait_until_dead(int(pid))
    with Namespaces(1):
        assert not Path("/run/netns", name).exists()


@needs_namespaces
@pytest.mark.long("makes two networks and a router")
def test_clusters_joined_by_a_router() -> None:
    near = {(0, 1), (1, 0), (2, 3), (3, 2)}
    every = {(a, b) for a in range(4) for b in range(4) if a != b}
    with JoinedNamespaces(2, 2) as network:
        net = Net(network)
        assert network.addresses == ("10.213.1.1", "10.213.1.2", "10.213.2.1", "10.213.2.2")
        net.heard()  # the router learns who is where
        assert net.heard() == every
        network.cut_clusters([[0], [1]])
        assert net.heard() == near
        network.cut_within(0, [[0], [1]])
        assert net.heard() == {(2, 3), (3, 2)}
        network.heal()
        assert net.heard() == every
        network.cut_within(1, [[0], [1]])
        assert net.heard() == every - {(2, 3), (3, 2)}
