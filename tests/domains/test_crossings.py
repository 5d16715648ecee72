"""What waits at home behind a message that crosses, and crossings that may have been sent before."""

import pytest
from msgspec import Struct

from reconvene.core.effects import Changed, ConfKind, Delivered
from reconvene.domains.gateway import Gateway, Launch
from reconvene.domains.home import Home, Waiting
from reconvene.domains.messages import Crossing, Message, Wide, encode
from reconvene.domains.seen import Seen, SenderId
from reconvene.domains.tree import Domain, Tree
from reconvene.ids import Service

TREE = Tree([Domain("berlin", ("a", "b"), ("a", "b")), Domain("paris", ("p",), ("p",))])


def waiting(counter: int, service: Service) -> Waiting:
    return Waiting((0, 1, counter), Wide(counter, service, "bank", True, b""), (counter,), True)


def test_a_causal_message_waits_for_those_before_it_only() -> None:
    """It waited until it came back itself, at those sites alone that had it before the one that it waited for. So
    others delivered it, and what they sent after it, earlier."""
    home = Home()
    agreed, causal = waiting(1, Service.AGREED), waiting(2, Service.CAUSAL)
    assert not home.take(agreed)
    assert not home.take(causal)
    assert home.back(agreed.key, Service.AGREED) == [causal]
    assert list(home.crossing) == [causal.key], "it crosses all the same"
    assert home.back(causal.key, Service.CAUSAL) == []


def crossing(again: bool) -> Crossing:
    return Crossing("berlin", "65536", 1, 1, again, [Message("a", 1, 1, Service.AGREED, "bank", b"x")])


def formed(number: int) -> Gateway:
    """Gateway `a` of berlin, alone above."""
    gateway = Gateway(TREE, "berlin")
    gateway.elected = number
    _form(gateway, number)
    return gateway


def _form(gateway: Gateway, number: int) -> None:
    gateway.take([Changed(ConfKind.REGULAR, str(number), (0,))])
    seen = gateway.next()
    assert seen is not None
    gateway.sent()
    gateway.take([_delivered(number, 1, seen[1])])
    assert gateway.formed


def _delivered(number: int, counter: int, payload: bytes) -> Delivered:
    return Delivered(str(number), 0, 1, Service.SAFE, counter, [payload], (number, 0, counter))


def test_what_may_have_crossed_before_gets_no_place_in_a_transitional_configuration() -> None:
    """Where the configuration parted, others may have the first crossing: they had the message at another place."""
    for again, entries in ((False, 1), (True, 0)):
        gateway = formed(65537)
        gateway.take([Changed(ConfKind.TRANSITIONAL, "65537+131073", (0,))])
        before = gateway.end
        gateway.take([_delivered(65537, 2, encode(crossing(again)))])
        assert gateway.end - before == entries


def test_a_crossing_is_encoded_once_and_not_to_answer_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[Struct] = []

    def counting(message: Struct) -> bytes:
        encoded.append(message)
        return encode(message)

    gateway = formed(65537)
    monkeypatch.setattr("reconvene.domains.gateway.encode", counting)
    assert not gateway.wants_turn
    gateway.launch(Launch(crossing(False), ("a", 1, 1)))
    assert gateway.wants_turn
    assert encoded == [], "its cluster asks in each turn"
    assert gateway.next() == gateway.next()
    gateway.sent()
    assert encoded == [crossing(False)]
    assert not gateway.wants_turn
    gateway.left("b")
    assert gateway.wants_turn


def test_it_crosses_once_more_in_the_next_one() -> None:
    gateway = formed(65537)
    gateway.launch(Launch(crossing(True), ("a", 1, 1)))
    launched = gateway.next()
    assert launched is not None
    gateway.sent()
    assert gateway.next() is None
    gateway.take([Changed(ConfKind.TRANSITIONAL, "65537+131073", (0,)), _delivered(65537, 2, launched[1])])
    gateway.elected = 131073
    _form(gateway, 131073)
    assert gateway.next() == launched
    gateway.sent()
    gateway.take([_delivered(131073, 2, launched[1])])
    assert gateway.next() is None


@pytest.mark.parametrize("resigns", [False, True])
def test_only_crossings_of_its_present_term_are_sent_again_after_a_change_above(resigns: bool) -> None:
    """After a local change the cluster carries all of them on, in order. An earlier one was dropped with the last
    configuration above; a later one came back unsent, got a place first, and the earlier one never got any."""
    gateway = formed(65537)
    gateway.launch(Launch(crossing(False), ("a", 1, 1)))
    launched = gateway.next()
    assert launched is not None
    gateway.sent()
    if resigns:
        gateway.resign()
    gateway.take_back([launched])
    gateway.elected = 131073
    _form(gateway, 131073)
    assert gateway.next() == (None if resigns else launched)


def test_of_each_sender_the_newest_incarnations_count_as_told() -> None:
    """SEEN tells of no others, so another configuration above would not tell of them either."""
    gateway = formed(65537)
    gateway.take([_delivered(65537, 2, encode(crossing(False)))])
    for born in range(3, 7):
        newer = Crossing("berlin", "65536", born, 1, False, [Message("a", born, 1, Service.AGREED, "bank", b"x")])
        gateway.take([_delivered(65537, born, encode(newer))])
    older, later = Seen(), Seen()
    older.add(SenderId("berlin", "a"), 2, Service.AGREED, 9)
    assert gateway.has_been_told(older)
    later.add(SenderId("berlin", "a"), 6, Service.AGREED, 2)
    assert not gateway.has_been_told(later)
