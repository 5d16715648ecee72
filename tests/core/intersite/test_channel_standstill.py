"""A peer that acknowledges nothing is reported once; a pause of this site itself is nobody's fault."""

from tests.core.intersite.network import MS, Network

from reconvene.core.intersite.limits import ChannelLimits

STALL_MS = ChannelLimits().stall_after_ns // MS


def stalls(network: Network, site: int, ms: int) -> list[tuple[int, int]]:
    """(peer, ms from now) of all that is reported in this time, where the site asks each 10 ms."""
    found: list[tuple[int, int]] = []
    start = network.now
    while network.now < start + ms * MS:
        network.run_for(10)
        found += [(peer, (network.now - start) // MS) for peer in network.sites[site].stalled(network.now)]
    return found


def test_a_peer_that_acknowledges_nothing_is_reported_once() -> None:
    network = Network(3)
    network.loss = 1.0
    network.send(0, 1, b"x")
    network.turn(0)
    [(peer, after)] = stalls(network, 0, 20_000)
    assert peer == 1
    assert STALL_MS <= after <= STALL_MS + 20
    assert network.sites[0].counters.stalled == 1


def test_it_is_reported_again_after_progress() -> None:
    network = Network(2)
    for _ in range(2):
        network.loss = 1.0
        network.send(0, 1, b"x")
        network.turn(0)
        assert len(stalls(network, 0, 5_000)) == 1
        network.loss = 0.0
        network.settle()
        assert stalls(network, 0, 5_000) == []


def test_a_channel_without_anything_under_way_is_no_standstill() -> None:
    network = Network(2)
    network.send(0, 1, b"x")
    network.turn(0)
    network.settle()
    network.loss = 1.0
    assert stalls(network, 0, 20_000) == []


def test_slow_progress_is_progress() -> None:
    network = Network(2)
    network.delay_ns = lambda: 400 * MS
    for _ in range(100):
        network.send(0, 1, bytes(8_800))
    network.turn(0)
    assert stalls(network, 0, 20_000) == []


def test_a_pause_of_this_site_is_not_blamed_on_its_peers() -> None:
    network = Network(2)
    network.loss = 1.0
    network.send(0, 1, b"x")
    network.turn(0)
    network.pause(0)
    network.run_for(60_000)
    assert network.sites[0].stalled(network.now) == [], "also where it asks before anything else"
    network.resume(0)
    assert network.sites[0].stalled(network.now) == []
    [(_, after)] = stalls(network, 0, 20_000)
    assert after >= STALL_MS - 500


def test_a_paused_peer_is_reported_and_gets_everything_later() -> None:
    network = Network(2)
    network.pause(1)
    for _ in range(50):
        network.send(0, 1, bytes(100))
    network.turn(0)
    assert len(stalls(network, 0, 10_000)) == 1
    assert network.copies() < 50, "only the oldest packet is sent again, less and less often"
    network.resume(1)
    network.settle(1_000)


def test_a_peer_that_is_too_slow_for_what_is_sent_is_reported_once() -> None:
    network = Network(2, ChannelLimits(queue_records=100))
    zero = network.sites[0]
    for _ in range(40):
        network.send(0, 1, b"x")
    assert zero.stalled(network.now) == []
    for _ in range(20):
        network.send(0, 1, b"x")
    assert zero.stalled(network.now) == [1]
    assert zero.stalled(network.now) == []
    network.turn(0)
    network.settle()
    assert zero.stalled(network.now) == []
