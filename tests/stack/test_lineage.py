"""A layer that follows the line of used primary configurations: `Used` at its place, heirs, and what was brought."""

from collections.abc import Callable

import pytest
from msgspec import msgpack
from tests.core.hand import Packet
from tests.stack.following import KIND
from tests.stack.hand_stacks import HandStacks

from reconvene.core.effects import Changed, ConfKind
from reconvene.core.record import Record, replacement
from reconvene.ids import Service
from reconvene.wire.messages import Alive, Beacon, Frame, Nack


def test_sites_that_meet_first_have_no_heirs_and_bring_what_they_have() -> None:
    hand = HandStacks("abc")
    hand.settle()
    for layer in hand.layers.values():
        used = layer.used[-1]
        assert (used.members, used.heirs) == ((0, 1, 2), ())
        assert used.brought == {site: hand.layers[name].asked[-1][2] for site, name in enumerate("abc")}
        assert used.conf == str(used.number)


def test_what_a_site_brings_is_asked_after_it_was_handed_the_configuration() -> None:
    hand = HandStacks("abc")
    hand.settle()
    for layer in hand.layers.values():
        events, _, _ = layer.asked[-1]
        changed = layer.events[events - 1]
        assert isinstance(changed, Changed)
        assert (changed.kind, changed.conf) == (ConfKind.REGULAR, layer.used[-1].conf)
        assert layer.events[events] == layer.used[-1]


def test_what_a_site_brings_is_asked_after_the_unsent_came_back() -> None:
    hand = HandStacks("ab")
    layer = hand.layers["a"]
    hand.settle()
    hand.partition("a", "b")
    hand.settle_alone("a")
    hand.heal()
    while len(layer.asked) < 2:
        layer.to_send.append((Service.AGREED, bytes((KIND,)) + bytes(10_000)))
        hand.run(1)
    assert layer.came_back
    assert layer.asked[-1][1] == len(layer.came_back)


def test_those_that_stay_together_are_heirs_and_are_not_asked() -> None:
    hand = HandStacks("abc")
    hand.settle()
    asked = [len(hand.layers[name].asked) for name in "ab"]
    hand.partition("ab", "c")
    hand.settle("ab")
    for name in "ab":
        used = hand.layers[name].used[-1]
        assert (used.members, used.heirs, used.brought) == ((0, 1), (0, 1), None)
    assert asked == [len(hand.layers[name].asked) for name in "ab"]


def test_a_site_that_is_its_own_cluster_begins_anew() -> None:
    hand = HandStacks("a")
    hand.settle()
    assert hand.layers["a"].story == ["regular a", "used a by none"]
    assert hand.layers["a"].used[0].brought is None


def test_a_minority_that_comes_back_is_no_heir() -> None:
    hand = HandStacks("abc")
    hand.settle()
    hand.partition("ab", "c")
    hand.settle("ab")
    hand.settle_alone("c")
    assert hand.layers["c"].story[-1] == "regular c", "it is not used"
    hand.heal()
    hand.settle()
    for layer in hand.layers.values():
        assert layer.story[-1] == "used abc by ab"
        assert layer.used[-1].brought == {site: hand.layers[name].asked[-1][2] for site, name in enumerate("abc")}


def test_after_a_time_without_a_primary_component_there_is_no_heir() -> None:
    hand = HandStacks("abc")
    hand.settle()
    hand.partition("a", "b", "c")
    for name in "abc":
        hand.settle_alone(name)
    hand.heal()
    hand.settle()
    assert {layer.story[-1] for layer in hand.layers.values()} == {"used abc by none"}


def test_a_site_that_starts_again_is_no_heir() -> None:
    hand = HandStacks("abc")
    hand.settle()
    hand.crash("c")
    hand.settle("ab")
    hand.start("c")
    hand.settle()
    assert {layer.story[-1] for layer in hand.layers.values()} == {"used abc by ab"}


# -- sites that have started again, as witnesses


def stories(hand: HandStacks, names: str = "abc") -> set[str]:
    """The last thing that each of these was handed."""
    return {hand.layers[name].story[-1] for name in names}


def test_a_restarted_site_that_meets_one_other_first_ends_nothing() -> None:
    """One site fails and comes back, and meets a while b is cut off. a goes on: c's storage says that c was in no
    used configuration that a does not know of."""
    hand = HandStacks("abc")
    hand.settle()
    hand.crash("c")
    hand.settle("ab")
    hand.partition("ac", "b")
    hand.start("c")
    hand.settle("ac")
    assert stories(hand, "ac") == {"used ac by a"}
    hand.heal()
    hand.settle()
    assert stories(hand) == {"used abc by ac"}


def test_nor_does_one_that_starts_several_times_in_a_row() -> None:
    """Alone, it numbers its configurations on from start to start. None of them can have been used."""
    hand = HandStacks("abc")
    hand.settle()
    hand.crash("c")
    hand.settle("ab")
    for _ in range(4):
        hand.partition("ab", "c")
        hand.start("c")
        hand.run(300)
        hand.crash("c")
    hand.partition("ac", "b")
    hand.start("c")
    hand.settle("ac")
    assert stories(hand, "ac") == {"used ac by a"}
    hand.crash("c")
    hand.partition("bc", "a")
    hand.start("c")
    hand.settle("bc")
    assert stories(hand, "bc") == {"used bc by none"}, "b does not know what a and c have used"


def test_the_only_site_that_has_not_started_again_goes_on() -> None:
    hand = HandStacks("abc")
    hand.settle()
    hand.crash("b")
    hand.crash("c")
    hand.start("b")
    hand.start("c")
    hand.settle()
    assert stories(hand) == {"used abc by a"}


def test_but_not_where_the_others_may_have_used_a_later_one() -> None:
    """a stands still. b and c go on without it, and start again: a is not the last to have been in the line."""
    hand = HandStacks("abc")
    hand.settle()
    asleep = hand.sites.pop("a")
    hand.settle("bc")
    hand.crash("b")
    hand.crash("c")
    hand.start("b")
    hand.start("c")
    hand.sites["a"] = asleep
    hand.settle()
    assert hand.layers["a"].story[-3:] == ["transitional a", "regular abc", "used abc by none"], "it was not outside"
    assert stories(hand) == {"used abc by none"}


def test_an_attempt_that_nobody_else_knows_of_may_have_been_used() -> None:
    """a fails as soon as its storage has the number of a configuration that it proposes. b never hears of it."""
    hand = HandStacks("abc")
    hand.settle()
    hand.crash("a")
    hand.settle("bc")
    hand.lose.append(lambda packet: packet.source == "a" and not isinstance(packet.datagram, Beacon))
    hand.partition("ab", "c")
    hand.start("a")
    hand.until(lambda: hand.sites["a"].step.startswith("forming"))
    hand.crash("a")
    hand.lose.clear()
    assert line_of(hand, "a") > hand.layers["b"].used[-1].number
    hand.start("a")
    hand.settle("ab")
    assert stories(hand, "ab") == {"used ab by none"}


def line_of(hand: HandStacks, name: str) -> int:
    return msgpack.decode(hand.disk[name], type=Record).line


def _as_it_was(stored: bytes) -> bytes:
    return stored


def _of_an_older_program(stored: bytes) -> bytes:
    record = msgpack.decode(stored, type=Record)
    return msgpack.encode((record.incarnation, record.number, record.token, record.sites))


def _replaced(stored: bytes) -> bytes:
    record = msgpack.decode(stored, type=Record)
    return replacement(record.incarnation, record.number, record.sites)


def _emptied(stored: bytes) -> None:
    return None


@pytest.mark.parametrize("becomes", [_as_it_was, _of_an_older_program, _replaced, _emptied])
def test_what_its_storage_does_not_have_it_can_not_tell(becomes: Callable[[bytes], bytes | None]) -> None:
    """It can tell again after the next used configuration that it was in, also if it starts again."""
    hand = HandStacks("abc")
    hand.settle()
    hand.crash("c")
    hand.settle("ab")
    stored = becomes(hand.disk.pop("c"))
    if stored is not None:
        hand.disk["c"] = stored
    hand.partition("ac", "b")
    hand.start("c")
    hand.settle("ac")
    assert stories(hand, "ac") == {f"used ac by {'a' if becomes is _as_it_was else 'none'}"}
    hand.heal()
    hand.settle()
    hand.crash("c")
    hand.settle("ab")
    hand.partition("b", "ac")
    hand.start("c")
    hand.settle("ac")
    assert stories(hand, "ac") == {"used ac by a"}


def test_the_whole_cluster_starts_again() -> None:
    hand = HandStacks("abc")
    hand.settle()
    for name in "abc":
        hand.crash(name)
    for name in "abc":
        hand.start(name)
    hand.settle()
    assert stories(hand) == {"used abc by none"}


def test_used_stands_before_the_first_message_that_follows_it() -> None:
    hand = HandStacks("abc")
    hand.settle()
    layer = hand.layers["a"]
    layer.to_send = [(Service.SAFE, bytes((KIND,)) + b"x")]
    hand.flush("a")
    hand.until(lambda: all(layer.story[-1] == "x" for layer in hand.layers.values()))
    assert {layer.story[-2] for layer in hand.layers.values()} == {"used abc by none"}


# -- used only in the transitional configuration


def _lose_acks(hand: HandStacks, conf: int) -> None:
    """Of this configuration nothing arrives but each member's first messages, which are not safe then."""

    def lost(packet: Packet) -> bool:
        datagram = packet.datagram
        if isinstance(datagram, Frame):
            return datagram.conf == conf and (datagram.seq > 1 or not datagram.messages)
        return isinstance(datagram, Alive | Nack) and datagram.conf == conf

    hand.lose.append(lost)


def _install_without_acks(hand: HandStacks) -> None:
    """Until all sites have installed another configuration together, and the first frames of it have arrived."""
    before = {hand.sites[name].configuration for name in hand.names}
    lost: set[str] = set()

    def now_lost() -> bool:
        for name in hand.names:
            conf = hand.sites[name].configuration
            if conf not in before | lost and len(hand.sites[name].members) == len(hand.names):
                _lose_acks(hand, int(conf))
                lost.add(conf)
        return bool(lost)

    hand.until(now_lost)
    hand.wait_together()
    hand.run(10)


def test_used_only_in_the_transitional_configuration_by_all_that_came_together() -> None:
    hand = HandStacks("abc")
    hand.settle()
    assert hand.stacks["a"].site.renew(hand.now)
    hand.flush("a")
    _install_without_acks(hand)
    assert {layer.story[-1] for layer in hand.layers.values()} == {"regular abc"}
    hand.partition("ab", "c")
    hand.settle("ab")
    hand.settle_alone("c")
    for name in "ab":
        assert hand.layers[name].story[-5:] == [
            "regular abc", "transitional ab", "used abc by abc", "regular ab", "used ab by ab",
        ]  # fmt: skip
    # What c knows of its use is void: c is outside now.
    assert hand.layers["c"].story[-4:] == ["regular abc", "transitional c", "used abc by abc", "regular c"]
    hand.heal()
    hand.settle()
    assert {layer.story[-1] for layer in hand.layers.values()} == {"used abc by ab"}


def test_used_only_in_the_transitional_configuration_by_tables() -> None:
    hand = HandStacks("abc")
    _install_without_acks(hand)
    hand.partition("ab", "c")
    hand.settle("ab")
    for name in "ab":
        layer = hand.layers[name]
        assert layer.story[-5:] == [
            "regular abc", "transitional ab", "used abc by none", "regular ab", "used ab by ab",
        ]  # fmt: skip
        together, alone = layer.used[-2:]
        assert together.brought is not None
        assert sorted(together.brought) == [0, 1, 2]
        assert alone.brought is None


def test_a_configuration_that_ends_unused_is_passed_over() -> None:
    """All leave the used one for another, whose first message a sends and nobody gets. b and c go on: they left the
    used one together. What a knows is void."""
    hand = HandStacks("abc")
    hand.settle()
    before = hand.sites["a"].configuration
    hand.lose.append(lambda packet: isinstance(packet.datagram, Frame))
    assert hand.stacks["a"].site.renew(hand.now)
    hand.flush("a")
    hand.until(lambda: hand.together("abc") and hand.sites["a"].configuration != before)
    hand.partition("a", "bc")
    hand.wait_together("bc")
    hand.lose.clear()
    hand.settle("bc")
    hand.settle_alone("a")
    for name in "bc":
        assert hand.layers[name].story[-5:] == [
            "transitional abc", "regular abc", "transitional bc", "regular bc", "used bc by bc",
        ]  # fmt: skip
    assert hand.layers["a"].story[-4:] == ["regular abc", "transitional a", "used abc by abc", "regular a"]
    hand.heal()
    hand.settle()
    assert {layer.story[-1] for layer in hand.layers.values()} == {"used abc by bc"}
