"""Extended Virtual Synchrony, section 3: the steps of the algorithm, observed from outside the sites.

Step 6.a is changed: only frames outside the causally closed union are discarded (docs/deviations.md).
"""

from collections.abc import Callable

import pytest
from tests.core.hand import Hand, Packet

from reconvene.core.effects import Changed, ConfKind, Delivered, Effects, Event
from reconvene.core.options import Options
from reconvene.ids import Service, configuration_number
from reconvene.wire.messages import Progress, Rebroadcast, State

ORDERS = ["atop", "all-ack"]
FIFO, CAUSAL, AGREED, SAFE = Service


def started(names: str, order: str = "atop") -> Hand:
    hand = Hand(names, Options(order=order))
    hand.wait_together()
    return hand


def carries(kind: str, source: str = "", to: str = "") -> Callable[[Packet], bool]:
    return lambda packet: (
        packet.kind == kind and packet.source in (source or packet.source) and packet.to in (to or packet.to)
    )


Told = tuple[bytes, str] | tuple[ConfKind, tuple[int, ...]]


def tail(hand: Hand, name: str, conf: str) -> list[Told]:
    """The events of a site since this configuration began: payloads with their configurations, and changes."""
    items: list[Told] = []
    for event in hand.events[name]:
        if isinstance(event, Delivered):
            items += [(payload, event.conf) for payload in event.payloads]
        elif isinstance(event, Changed):
            items = [] if event.conf == conf else [*items, (event.kind, event.members)]
    return items


def conf_of(hand: Hand, name: str) -> str:
    return hand.sites[name].configuration


@pytest.mark.parametrize("order", ORDERS)
def test_step_1_safe_after_all_acknowledgments(order: str) -> None:
    """1: a message is delivered once all members have acknowledged it and all before it are delivered; until then it
    is buffered."""
    hand = started("abc", order)
    hand.hold += [carries("frame", source="c"), carries("alive", source="c")]
    hand.submit("a", SAFE, b"x")
    hand.submit("a", AGREED, b"y")
    hand.run(100)
    assert hand.delivered("a") == hand.delivered("b") == []
    hand.release()
    hand.run(100)
    assert hand.delivered("a") == hand.delivered("b") == hand.delivered("c") == [b"x", b"y"]


def test_step_1_no_obligations_in_a_regular_configuration() -> None:
    hand = started("abc")
    hand.submit("a", SAFE, b"x")
    hand.run(100)
    hand.partition("ab", "c")
    hand.wait_together("ab")
    assert all(site.changes.obligations == 0 for site in hand.sites.values())


def test_step_2_new_messages_wait_for_the_next_configuration() -> None:
    """2: what the application submits during a change is sent in the next regular configuration."""
    hand = started("abc")
    old = conf_of(hand, "a")
    hand.partition("ab", "c")
    hand.until(lambda: hand.sites["a"].step == "forming: states")
    hand.submit("a", AGREED, b"later")
    assert hand.sent("a") == []
    hand.wait_together("ab")
    hand.run(50)
    assert [sent.conf for sent in hand.sent("a")] == [conf_of(hand, "a")] != [old]
    assert hand.delivered("b") == [b"later"]


def test_step_2_messages_of_the_proposed_configuration_are_buffered() -> None:
    """2: messages that arrive before the site has installed their configuration are delivered after it has."""
    hand = Hand("abc", start="ab")
    hand.wait_together("ab")
    hand.start("c")
    hand.until(lambda: hand.sites["a"].step == "forming: states")
    hand.hold += [carries("progress", source="b", to="c"), carries("beacon", to="c")]
    hand.until(lambda: hand.members("a") == "abc")
    hand.submit("a", FIFO, b"early")
    hand.run(2)
    kinds = [
        event.kind if isinstance(event, Changed) else event.payloads
        for event in hand.events["c"]
        if isinstance(event, Changed | Delivered)
    ]
    assert kinds == [ConfKind.REGULAR, ConfKind.TRANSITIONAL, ConfKind.REGULAR, [b"early"]]


def test_step_3_what_is_exchanged() -> None:
    """3: the last regular configuration, what it has and knows others to have, and the obligation set."""
    hand = started("abc")
    old = hand.sites["a"].current
    hand.submit("c", FIFO, b"x")
    hand.run(100)
    states: list[State] = []
    hand.on_send = lambda packet: states.append(packet.datagram) if isinstance(packet.datagram, State) else None
    hand.partition("ab", "c")
    hand.wait_together("ab")
    told = {state.site: state for state in states}
    assert sorted(told) == [0, 1]
    for state in told.values():
        assert state.conf == old.number
        assert tuple(state.old) == (0, 1, 2)
        assert state.received == [0, 0, 1]
        assert state.known[2] == [0, 0, 1]
        assert state.obligations == 0


def test_step_3_the_number_is_synced_before_the_answer() -> None:
    """A process recovers with its storage intact: it must not answer the same number twice."""
    hand = started("abc")
    hand.slow_disks.add("b")
    sent: list[Packet] = []
    hand.on_send = lambda packet: sent.append(packet) if packet.kind == "state" else None
    hand.partition("ab", "c")
    hand.until(lambda: hand.sites["b"].step == "forming: sync")
    hand.run(20)
    assert not [packet for packet in sent if packet.source == "b"]
    hand.slow_disks.clear()
    hand.sync("b")
    assert [packet for packet in sent if packet.source == "b"]
    hand.wait_together("ab")


def test_step_4a_the_transitional_configuration() -> None:
    """4.a: those members of the new configuration that come from the same regular one."""
    hand = started("abcd")
    hand.partition("ab", "cd")
    hand.wait_together("ab")
    hand.wait_together("cd")
    hand.heal()
    hand.wait_together()
    for name, members in {"a": (0, 1), "b": (0, 1), "c": (2, 3), "d": (2, 3)}.items():
        transitional = hand.changes(name, ConfKind.TRANSITIONAL)[-1]
        assert transitional.members == members
        assert transitional.reg == hand.changes(name, ConfKind.REGULAR)[-2].conf


def lost_at_b(order: str) -> tuple[Hand, list[Packet]]:
    """d's message has reached a and c, but not b; then d is gone."""
    hand = started("abcd", order)
    hand.lose += [carries("frame", source="d", to="b"), carries("nack")]
    hand.submit("d", AGREED, b"x")
    hand.run(2)
    resent: list[Packet] = []
    hand.on_send = lambda packet: resent.append(packet) if packet.kind == "rebroadcast" else None
    hand.partition("abc", "d")
    return hand, resent


@pytest.mark.parametrize("order", ORDERS)
def test_steps_4b_and_5a_what_some_lack_is_rebroadcast_to_them(order: str) -> None:
    """4.b, 5.a: a member that has the message sends it to those that lack it."""
    hand, resent = lost_at_b(order)
    hand.wait_together("abc")
    found = [packet.datagram for packet in resent]
    assert all(isinstance(one, Rebroadcast) and one.frame.sender == 3 for one in found)
    assert {(packet.source, packet.to) for packet in resent} == {("a", "b")}
    assert hand.delivered("a") == hand.delivered("b") == hand.delivered("c") == [b"x"]


def test_step_5b_until_all_have_acknowledged() -> None:
    """5.b: a lost message is rebroadcast again; no member installs before the last one has everything."""
    hand, _ = lost_at_b("atop")
    losses = carries("rebroadcast")
    hand.lose.append(losses)
    hand.until(lambda: hand.sites["b"].step == "recovering: exchange")
    hand.run(100)
    assert {site.step for name, site in hand.sites.items() if name in "abc"} == {
        "recovering: wait",
        "recovering: exchange",
    }
    hand.lose.remove(losses)
    hand.wait_together("abc", ms=100)
    assert hand.delivered("b") == [b"x"]


def test_step_5c_who_acknowledges_takes_on_obligations() -> None:
    """5.c: the members of the proposed transitional configuration and their obligations are kept when the round
    fails, and reported in the next one."""
    hand = started("abcd")
    told: list[State] = []
    hand.on_send = lambda packet: told.append(packet.datagram) if isinstance(packet.datagram, State) else None
    hand.partition("abc", "d")
    hand.until(lambda: hand.sites["a"].step == "forming: states")
    hand.lose += [carries("progress", to="bc"), carries("beacon", to="bc")]
    hand.until(lambda: hand.sites["b"].step == "recovering: wait")
    assert hand.sites["b"].changes.obligations == 0b0111
    hand.partition("a", "bc", "d")
    hand.lose.clear()
    told.clear()
    hand.wait_together("bc")
    assert {state.obligations for state in told if state.site == 1 and len(state.members) == 2} == {0b0111}


def test_step_5c_an_obligation_is_kept() -> None:
    """7.1 over a second failure: a has installed, and delivered as safe in {a b c}'s transitional configuration; b
    acknowledged, did not install, and must deliver it in its own."""
    hand = started("abcd")
    hand.lose += [carries("frame", to="d"), carries("frame", source="d"), carries("alive", source="d")]
    hand.submit("c", SAFE, b"x")
    hand.run(10)
    assert hand.delivered("a") == []
    hand.partition("abc", "d")
    hand.until(lambda: hand.sites["a"].step == "forming: states")
    hand.lose += [carries("progress", to="b"), carries("beacon", to="b"), carries("frame"), carries("alive")]
    hand.until(lambda: hand.members("a") == "abc")
    (transitional,) = [event for event in hand.deliveries("a") if event.payloads == [b"x"]]
    assert transitional.conf == hand.changes("a", ConfKind.TRANSITIONAL)[-1].conf
    assert b"x" not in hand.delivered("b")
    hand.partition("b", "ac", "d")
    hand.lose.clear()
    hand.until(lambda: hand.members("b") == "b")
    assert b"x" in hand.delivered("b")
    assert [conf.members for conf in hand.changes("b", ConfKind.HIDDEN)] == [(0, 1, 2)]


def test_step_6a_what_depends_on_an_unavailable_message_is_discarded() -> None:
    """6.a, section 3.1: a sent l and then m; b and c have only m, and never deliver it."""
    hand = started("abc")
    hand.lose += [carries("nack")]
    first = carries("frame", source="a")
    hand.lose.append(first)
    hand.submit("a", AGREED, b"l")
    hand.lose.remove(first)
    hand.submit("a", AGREED, b"m")
    hand.run(3)
    hand.partition("a", "bc")
    hand.wait_together("bc")
    assert hand.delivered("b") == hand.delivered("c") == []
    hand.until(lambda: hand.members("a") == "a")
    assert hand.delivered("a") == [b"l", b"m"], "self-delivery"


def test_step_6a_changed_a_causally_complete_frame_is_never_discarded() -> None:
    """6.a as changed: a's slot in the total order is empty for the remaining members. c's message comes after it and
    is delivered nevertheless, though c is gone too and no member is obligated to it."""
    hand = started("abcd")
    hand.lose += [carries("frame", source="a"), carries("alive", source="a"), carries("nack")]
    hand.submit("a", AGREED, b"nobody has it")
    hand.submit("c", SAFE, b"unrelated")
    hand.run(3)
    old = conf_of(hand, "b")
    hand.partition("a", "bd", "c")
    hand.wait_together("bd")
    for name in "bd":
        assert tail(hand, name, old) == [
            (ConfKind.TRANSITIONAL, (1, 3)),
            (b"unrelated", hand.changes(name, ConfKind.TRANSITIONAL)[-1].conf),
            (ConfKind.REGULAR, (1, 3)),
        ]


def test_step_6b_the_regular_configuration_ends_at_the_first_message_that_is_not_safe() -> None:
    """6.b, 6.c, 6.d, 6.e in their order: what all have acknowledged is delivered in the regular configuration, the
    first safe message that someone lacks and all behind it in the transitional one."""
    hand = started("abc")
    hand.submit("a", AGREED, b"1")
    hand.run(100)
    hand.lose += [carries("frame", to="c"), carries("frame", source="c"), carries("alive", source="c")]
    hand.submit("a", AGREED, b"2")
    hand.submit("a", SAFE, b"3")
    hand.submit("b", AGREED, b"4")
    hand.run(5)
    old = conf_of(hand, "a")
    hand.partition("ab", "c")
    hand.wait_together("ab")
    between = hand.changes("a", ConfKind.TRANSITIONAL)[-1].conf
    for name in "ab":
        told = tail(hand, name, old)
        change = told.index((ConfKind.TRANSITIONAL, (0, 1)))
        assert (b"1", old) in told[:change]
        assert all(conf == old for _, conf in told[:change])
        rest = told[change + 1 : -1]
        assert (b"3", between) in rest
        assert all(conf == between for _, conf in rest)
        assert told[-1] == (ConfKind.REGULAR, (0, 1))
    assert tail(hand, "a", old) == tail(hand, "b", old)


def test_step_6_is_one_local_action() -> None:
    """6: nothing is delivered out of place between the first change and the second, whatever arrives."""
    hand = started("abc")
    turns: list[list[Event]] = []
    for name in "abc":
        hand.submit(name, SAFE, name.encode())
    site = hand.sites["a"]
    flush = site.flush

    def recorded(now: int, effects: Effects | None = None) -> Effects:
        effects = flush(now, effects)
        turns.append(effects.events)
        return effects

    site.flush = recorded  # type: ignore[method-assign]
    hand.partition("ab", "c")
    hand.wait_together("ab")
    changes = [[e.kind for e in turn if isinstance(e, Changed)] for turn in turns]
    assert [kinds for kinds in changes if kinds] == [[ConfKind.TRANSITIONAL, ConfKind.REGULAR]]


@pytest.mark.parametrize("step", ["forming: states", "recovering: exchange", "recovering: wait"])
def test_a_failure_during_recovery_restarts_at_step_2(step: str) -> None:
    """Section 3, end: nothing is undone, and the next round has a higher number."""
    hand, _ = lost_at_b("atop")
    hand.lose += {
        "forming: states": [carries("state", to="b")],
        "recovering: exchange": [carries("rebroadcast")],
        "recovering: wait": [carries("progress", to="b")],
    }[step]
    hand.until(lambda: hand.sites["b"].step == step)
    round_ = hand.sites["b"].changes.round
    assert round_ is not None
    hand.crash("c")
    hand.lose.clear()
    hand.wait_together("ab")
    assert hand.sites["b"].current.number > round_.number
    assert hand.delivered("a") == hand.delivered("b") == [b"x"]


def test_termination_a_round_that_fails_is_followed_by_a_smaller_one() -> None:
    """Section 3.2: c's network passes only beacons, so c never answers; the membership shrinks until it succeeds."""
    hand = Hand("abc")
    hand.lose.append(lambda packet: packet.kind != "beacon" and "c" in (packet.source, packet.to))
    hand.wait_together("ab", ms=5_000)
    assert (0, 1, 2) in [conf.members for conf in hand.changes("a", ConfKind.HIDDEN)]


def test_numbers_of_two_components_differ() -> None:
    """Section 2: a configuration's identifier is unique; two components can't make the same one."""
    hand = started("abcd")
    hand.partition("ab", "cd")
    hand.wait_together("ab")
    hand.wait_together("cd")
    one, two = hand.sites["a"].current.number, hand.sites["c"].current.number
    assert one != two
    assert one == configuration_number(one >> 16, 0)
    assert two == configuration_number(two >> 16, 2)


def test_recovered_is_repeated_until_all_are_heard() -> None:
    """5.b: that a process has everything is itself a message that can be lost."""
    hand = started("abc")
    told: list[Progress] = []
    hand.on_send = lambda packet: told.append(packet.datagram) if isinstance(packet.datagram, Progress) else None
    hand.partition("ab", "c")
    hand.until(lambda: hand.sites["a"].step == "forming: states")
    hand.lose += [carries("progress", source="a"), carries("beacon", source="a", to="b")]
    hand.until(lambda: hand.sites["b"].step == "recovering: wait")
    hand.run(150)
    assert sum(one.recovered and one.site == 1 for one in told) >= 4
    hand.lose.clear()
    hand.wait_together("ab")
