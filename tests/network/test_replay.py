"""Datagrams of a running cluster, recorded on its network and sent to it again."""

import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.network.load import Load
from tests.network.packets import Recorder, Thrower, Wired
from tests.network.sites import RealSites, until

from reconvene.lab.namespaces import Namespaces, available
from reconvene.wire.seal import Kind

WHY_NOT = available()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))

STRANGER = 3
"""The place in the network from which they are sent; it is no site's."""
MOST = 400
"""How many recorded datagrams are replayed: the first ones, which include greetings and answers, and the last
ones."""


class Recording:
    """The datagrams that a cluster has sent, each once."""

    def __init__(self, network: Namespaces, recorders: list[Recorder]) -> None:
        heard = [packet for recorder in recorders for packet in recorder.take()]
        self.network = network
        self.sites = network.addresses[:STRANGER]
        self.senders = {packet.data: packet.source for packet in heard}
        assert {host for host, _ in self.senders.values()} == set(self.sites)
        assert len(self.senders) > 200

    def packets(self) -> list[Wired]:
        """Sends them to every site, with the sender's address and with the attacker's."""
        used = list(self.senders)
        used = used if len(used) <= MOST else used[: MOST // 2] + used[-MOST // 2 :]
        return [
            Wired(source, (address, 7000), data)
            for data in used
            for source in (self.senders[data], (self.network.addresses[STRANGER], 7000))
            for address in self.sites
            if address != source[0]  # a kernel drops what comes from outside with its own address
        ]


def throw(thrower: Thrower, packets: list[Wired]) -> None:
    """Sends slowly enough that no receive buffer overflows: each datagram has to be counted."""
    for at, packet in enumerate(packets):
        thrower.throw(packet)
        if at % 20 == 19:
            time.sleep(0.005)


def is_challenge(packet: bytes) -> bool:
    return packet[0] & 0x07 == Kind.CHALLENGE


class Drops:
    """What each site has dropped since this object was made."""

    def __init__(self, sites: RealSites) -> None:
        self._sites = sites
        self._before = sites.statuses()

    def of(self, name: str) -> dict[str, int]:
        now, before = self._sites.status(name)["counters"], self._before[name]["counters"]
        changes = {key: now[key] - before[key] for key in now if key.startswith("dropped_")}
        return {key: change for key, change in changes.items() if change}

    def until_all(self, name: str, count: int) -> None:
        until(lambda: sum(self.of(name).values()) >= count, lambda: f"{name}: {self.of(name)} of {count}")
        assert sum(self.of(name).values()) == count, "nothing but what was thrown"


@pytest.mark.long("sites in namespaces; tests/runtime/net has the seals")
def test_recordings_are_refused(tmp_path: Path) -> None:
    with (
        Namespaces(4) as network,
        RealSites(tmp_path, "abc", network=network) as sites,
        closing(Thrower(network, STRANGER)) as thrower,
    ):
        recorders = [Recorder(network, place) for place in range(3)]
        sites.start()
        sites.wait_for()
        with Load(sites.sockets) as load:
            load.until_moved(messages=40)
            recording = Recording(network, recorders)
            packets = recording.packets()
            for recorder in recorders:
                recorder.close()

            sites.crash("b")
            sites.start("b")
            # During its greeting. Some datagrams were for one site alone: for the others they are not replayed
            # but late, and are accepted once.
            throw(thrower, packets)
            sites.wait_for()
            load.until_moved()

            b_address = (network.addresses[1], 7000)
            drops = Drops(sites)
            before = sites.statuses()
            throw(thrower, packets)
            load.until_moved()
            for place, name in enumerate("abc"):
                thrown = [packet.data for packet in packets if packet.destination[0] == network.addresses[place]]
                # A challenge of an unknown session may come from a site that starts: it is answered, to the site's
                # configured address, whatever its source, and it has no other effect.
                answered = sum(recording.senders[data] == b_address and is_challenge(data) for data in thrown)
                drops.until_all(name, len(thrown) - (0 if name == "b" else answered))
                now = sites.status(name)
                assert now["configuration"] == before[name]["configuration"]
                assert now["counters"]["sessions"] == before[name]["counters"]["sessions"]
            for name in "ac":
                assert set(drops.of(name)) == {"dropped_own", "dropped_replay", "dropped_unverified"}
            # Neither a nor c has restarted; b's own datagrams are of its earlier incarnation.
            assert set(drops.of("b")) == {"dropped_replay", "dropped_same_name"}
            load.hold()
            load.until_delivered(load["a"].accepted[-20:] + load["c"].accepted[-20:], *"abc")
        assert not load.trouble
        sites.judge()
