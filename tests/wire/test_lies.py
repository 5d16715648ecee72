"""Single well-formed datagrams that only a broken or malicious member sends, one in each test.

Nothing that arrives may raise, grow memory without bound, or do lasting harm.
"""

from collections.abc import Callable

import pytest
from msgspec import Raw, msgpack
from tests.core.hand import Hand
from tests.wire.hostile import SMALL, Target, reach, weight

from reconvene.core.options import Options
from reconvene.core.record import boot
from reconvene.core.site import Site
from reconvene.ids import Service, configuration_number
from reconvene.wire.codec import decode, decode_reports, encode
from reconvene.wire.messages import VERSION, Alive, Beacon, Datagram, Frame, Progress, Rebroadcast, Report, State

FIFO, CAUSAL, AGREED, _ = map(int, Service)
WHOLE, FRAGMENT, LAST = range(3)


def frame(target: Target, service: int, part: int, **fields: object) -> Frame:
    """The next frame of member 0, correct except for the given fields."""
    multicast = target.site.current.multicast
    made = Frame(
        target.site.current.number, 0, multicast.received[0] + 1, multicast.clock + 1, [], service, part, 1, [b"x"]
    )
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def lie(target: Target, datagram: Datagram) -> None:
    target.feed(encode(datagram))
    target.site.invariants()


# -- frames


@pytest.mark.parametrize(
    ("service", "messages"),
    [(AGREED, []), (FIFO, [b"x"]), (CAUSAL, [b"x"])],
    ids=["agreed-empty", "fifo", "causal"],
)
def test_a_last_fragment_that_has_a_slot_and_nothing_to_put_there(service: int, messages: list[bytes]) -> None:
    target = reach("operational", "all-ack")
    for rank in range(4):
        if rank != target.site.current.rank:
            lie(target, frame(target, service, LAST, sender=rank, slot=9, messages=messages, clock=9,
                              seq=target.site.current.multicast.received[rank] + 1))  # fmt: skip


def test_a_fifo_message_with_a_slot_is_delivered_once() -> None:
    target = reach("operational", "all-ack")
    clock = target.site.current.multicast.clock + 1
    target.feed(encode(frame(target, FIFO, WHOLE, slot=clock, messages=[b"twice?"])), flush=False)
    number, received = target.site.current.number, target.site.current.multicast.received
    for rank in (2, 3):
        acks = received.copy()
        target.feed(encode(Alive(number, rank, received[rank], clock + 5, acks, 20_000)), flush=False)
    delivered = [getattr(event, "payloads", []) for event in target.site.flush(target.now).events]
    assert delivered.count([b"twice?"]) <= 1


@pytest.mark.parametrize("acks", [[63, 8], [0]], ids=["no-member", "odd"])
def test_a_rebroadcast_frame_with_insane_acks(acks: list[int]) -> None:
    target = reach("recovering: exchange")
    recovery, round_ = target.site.changes.recovery, target.site.changes.round
    assert recovery is not None
    assert round_ is not None
    sender, seq = min(recovery.lacking)
    lie(target, Rebroadcast(round_.number, frame(target, FIFO, WHOLE, sender=sender, seq=seq, acks=acks)))


def flood(make: Callable[[Target], Frame], count: int = 3_000) -> int:
    """How much a site's memory grows under frames that it accepts and every member acknowledges."""
    target = reach("operational", "all-ack")
    current = target.site.current

    def send(times: int) -> int:
        for _ in range(times):
            target.feed(encode(make(target)), flush=False)
            received = current.multicast.received
            for rank in (0, 2, 3):
                clock = current.multicast.clock
                target.feed(encode(Alive(current.number, rank, received[rank], clock, received, 20_000)), rank == 3)
        return weight(target.site)

    before = send(300)
    return send(count) - before


def test_frames_that_are_delivered_take_no_memory() -> None:
    assert flood(lambda target: frame(target, FIFO, WHOLE), 1_000) < 20_000


@pytest.mark.parametrize(
    ("service", "part", "fields"),
    [
        (FIFO, FRAGMENT, {"messages": [b"x" * 500]}),
        (AGREED, LAST, {"slot": -1, "messages": [b"x" * 500]}),
        (CAUSAL, WHOLE, {"own": 2**40}),
        (CAUSAL, WHOLE, {"after": [2**40, 0]}),
    ],
    ids=["fragments-without-end", "ordered-without-slot", "causal-own-unknown", "causal-after-unknown"],
)
def test_frames_that_lead_nowhere_take_bounded_memory(service: int, part: int, fields: dict[str, object]) -> None:
    assert flood(lambda target: frame(target, service, part, **fields), 1_000) < 4 * SMALL.message_bytes


def test_a_clock_at_its_limit_does_not_make_the_site_unreadable() -> None:
    target = reach("operational", "all-ack")
    lie(target, frame(target, FIFO, WHOLE, clock=2**62))
    target.site.submit(Service.AGREED, b"mine", target.now)
    for _, data in target.site.flush(target.now).datagrams:
        decode(data)


# -- rounds


def state(target: Target, site: int, **fields: object) -> State:
    round_, current = target.site.changes.round, target.site.current
    assert round_ is not None
    received = current.multicast.received.copy()
    made = State(
        round_.number, site, list(round_.members), list(round_.incarnations), 1, current.number,
        list(current.members), received, [], [received] * len(received), received, 0,
    )  # fmt: skip
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def test_a_state_in_this_sites_own_name() -> None:
    target = reach("forming: sync")
    round_ = target.site.changes.round
    assert round_ is not None
    lie(target, state(target, target.site.ordinal, conf=5))
    for site in round_.members:
        lie(target, state(target, site))
    target.site.synced(round_.token, target.now)
    target.turn()
    target.site.invariants()


def test_progress_in_this_sites_own_name() -> None:
    target = reach("recovering: exchange")
    site, round_ = target.site, target.site.changes.round
    assert round_ is not None
    target.feed(encode(Progress(round_.number, site.ordinal, site.incarnation, 0, [], True)), flush=False)
    assert not round_.recovered >> site.ordinal & 1, "it lacks a frame"
    assert all(site.ordinal not in to for to, _ in site.flush(target.now).datagrams)


def test_a_state_that_takes_back_what_its_sender_acknowledged() -> None:
    target = reach("forming: states")
    multicast = target.site.current.multicast
    assert any(multicast.stable), "all members have acknowledged something"
    before = target.site.counters.malformed
    lie(target, state(target, 2, received=[0] * 4))
    assert target.site.counters.malformed == before + 1


def test_a_stranger_that_claims_to_come_from_this_configuration() -> None:
    """It was never a member, so it can't be one of the transitional configuration."""
    hand = Hand("abc", start="ab")
    hand.wait_together("ab")
    hand.lose.append(lambda packet: packet.source == "c" and packet.kind == "state")
    hand.start("c")
    hand.until(lambda: hand.sites["a"].step == "forming: states")
    hand.run(3)
    lying = state(Target(hand.sites["a"], hand.now, []), 2)
    hand.receive("a", encode(lying))
    round_ = hand.sites["a"].changes.round
    assert round_ is not None
    assert 2 not in round_.states


# -- numbers that never come down again


def beacon(*reports: Report) -> bytes:
    return encode(Beacon(VERSION, reports[0].site, reports[0].inc, 0, [], 0, Raw(encode(list(reports)))))


def test_a_configuration_number_at_its_limit_does_no_lasting_harm() -> None:
    site = Site(Options(), 0, 2, boot(None, 0), 0)
    now = 0
    site.flush(now)
    record = boot(None, 0)
    site.receive(beacon(Report(1, 1, 1, 0b11, configuration_number(1, 1), 0, False, 2**62)), now)
    while now < 1_000_000_000:
        effects = site.flush(now)
        for persist in effects.persist:
            record = persist.value
            site.synced(persist.token, now)
        for _, data in effects.datagrams:
            message = decode(data)
            if isinstance(message, Beacon):
                decode_reports(message.reports)
        now = max(now + 1_000_000, site.deadline())
    assert msgpack.decode(boot(record, 0))[1] <= 2**62


def test_a_member_whose_beacons_hold_no_report_of_its_own() -> None:
    target = reach("operational")
    del target.site.changes.hearing.reports[0]
    site = target.site
    nothing = Raw(encode([]))
    lie(target, Beacon(VERSION, 0, site.changes.hearing.incarnations[0], target.now, [], 0, nothing))
    site.changes.hearing.changed = True
    site.flush(target.now)
    site.invariants()
