"""Reliable Communication in the Presence of Failures, section 4.1: what the intersite layer promises, by sentence."""

from tests.core.intersite.network import MS, Network

from reconvene.core.intersite.limits import ChannelLimits
from reconvene.core.multicast.window import weight


def test_message_loss_delayed_delivery_and_out_of_order_delivery_are_converted() -> None:
    """ "... converts halting failures and admissible communication failures (message loss, delayed delivery, and
    out-of-order delivery) ..." """
    network = Network(2, seed=3)
    network.loss, network.doubled = 0.3, 0.1
    network.delay_ns = lambda: network.random.randrange(1, 80 * MS)
    for place in range(200):
        network.send(0, 1, b"%d" % place)
        network.turn(0)
        network.run_for(1)
    network.settle()
    assert network.taken[0, 1] == [b"%d" % place for place in range(200)]


def test_a_message_is_sent_once_the_destination_has_acknowledged_it() -> None:
    """ "status(m), which returns sent if the destination has acknowledged receipt of the message ..." """
    network = Network(2)
    number = network.send(0, 1, b"m")
    network.turn(0)
    network.run_for(1.5)
    assert network.taken[0, 1] == [b"m"], "it has come …"
    assert network.sites[0].arrived(1) < number, "… and is not known to have come"
    network.run_for(1)
    assert network.sites[0].arrived(1) == number


def test_a_windowed_acknowledgment_protocol_for_ordered_lossless_transmission() -> None:
    """ "The intersite layer employs a windowed acknowledgment protocol for ordered, lossless, site-to-site message
    transmission." """
    limits = ChannelLimits(packet_bytes=500, buffer_bytes=20_000)
    network = Network(2, limits)
    for _ in range(200):
        network.send(0, 1, bytes(400))
    network.turn(0)
    under_way = sum(weight(sum(map(len, packet.records))) for *_, packet in network.datagrams)
    assert under_way <= limits.buffer_bytes, "the rest waits for acknowledgements"
    network.settle()


def test_messages_from_a_failed_incarnation_are_discarded_and_it_is_told() -> None:
    """ "Messages from a failed incarnation are discarded by the input filter, and a you are dead message is returned
    to the sender." """
    network = Network(2)
    network.connect(1, 0, here=1, there=4)
    network.send(0, 1, b"from the failed one")
    network.turn(0)
    network.run_for(10)
    assert network.taken[0, 1] == []
    assert network.sites[0].dead() == [1]


def test_messages_for_another_incarnation_are_discarded() -> None:
    """ "Messages addressed to an incarnation different from the current one are similarly discarded." """
    network = Network(2)
    network.connect(1, 0, here=4, there=1)
    network.send(0, 1, b"for the one before")
    network.turn(0)
    network.run_for(10)
    assert network.taken[0, 1] == []
    assert network.sites[1].counters.stale == 1


def test_a_site_that_takes_nothing_is_suspected() -> None:
    """ "... if a hello message is not received from a site within a reasonable period, it is assumed to have failed":
    here also a site whose channel stands still, for a flush would wait for it."""
    network = Network(2)
    network.pause(1)
    network.send(0, 1, b"m")
    network.turn(0)
    network.run_for(network.limits.stall_after_ns / MS + 1)
    assert network.sites[0].stalled(network.now) == [1]
