"""Every Rejected and Unavailable of the layer, and its limits."""

from collections.abc import Callable

import pytest
from tests.isis.hand import Hand

from reconvene.core.groups.events import Process
from reconvene.core.intersite.limits import ChannelLimits
from reconvene.errors import Rejected, Unavailable
from reconvene.isis.events import ALL, CastId, JoinAsked, Received
from reconvene.isis.isis import Isis
from reconvene.isis.limits import IsisLimits

SMALL = IsisLimits(
    open_casts=4, open_bytes=1_000, held_casts=3, destinations=2, open_calls=2, processes=3, groups=2, group_bytes=8,
    payload_bytes=600,
)  # fmt: skip


@pytest.fixture
def hand() -> Hand:
    made = Hand("ab", limits=SMALL)
    made.install("ab")
    return made


Request = Callable[[Isis, Process], None]


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (lambda isis, p: isis.cbcast(p, "nowhere", b""), "no such group"),
        (lambda isis, p: isis.gbcast(p, "nowhere", b""), "no such group"),
        (lambda isis, p: isis.set_properties(p, "nowhere", {}), "no such group"),
        (lambda isis, p: isis.cbcast(p, [], b""), "nobody"),
        (lambda isis, p: isis.cbcast(p, [Process(7, 1, 1)], b""), "nobody"),
        (lambda isis, p: isis.cbcast(p, [p, Process(1, 1, 1), Process(1, 1, 2)], b""), "3 processes"),
        (lambda isis, p: isis.cbcast(p, "bank", b"", {"x": -1}), "label component"),
        (lambda isis, p: isis.abcast(p, "bank", b"", "x" * 256), "256 bytes"),
        (lambda isis, p: isis.cbcast(p, "bank", b"", replies=2), "2 replies of 1"),
        (lambda isis, p: isis.cbcast(p, "bank", b"", replies=-2), "-2 replies"),
        (lambda isis, p: isis.cbcast(p, "bank", b"x" * 601), "601 bytes"),
        (lambda isis, p: isis.gbcast(p, "bank", b"x" * 601), "601 bytes"),
        (lambda isis, p: isis.set_properties(p, "bank", {"mode": b"x" * 600}), "'mode' of 604 bytes"),
        (lambda isis, p: isis.set_properties(p, "bank", {str(n): b"" for n in range(65)}), "65 properties"),
        (lambda isis, p: isis.reply(p, CastId(0, 1, 1), b"x" * 601), "601 bytes"),
        (lambda isis, p: isis.give(p, "bank", 1, p, 0, b"x" * 601, True), "601 bytes"),
        (lambda isis, p: isis.reply(p, CastId(0, 1, 1), b""), "a reply to what asks for none"),
        (lambda isis, p: isis.give(p, "bank", 1, p, 0, b"", True), "nobody wants"),
        (lambda isis, p: isis.join(p, "bank"), "is in it"),
        (lambda isis, p: isis.join(p, ""), "1 to 8 bytes"),
        (lambda isis, p: isis.join(p, "x" * 9), "1 to 8 bytes"),
        (lambda isis, p: isis.leave(p, "till"), "is not in it"),
        (lambda isis, p: isis.rank(p, "bank", []), "permutation"),
        (lambda isis, p: isis.rank(p, "bank", [p, p]), "permutation"),
        (lambda isis, p: isis.cbcast(Process(0, 1, 99), "bank", b""), "over, or never was"),
    ],
)
def test_rejected(hand: Hand, request_: Request, why: str) -> None:
    process = hand.open("a", "bank")
    hand.take()
    with pytest.raises(Rejected, match=why):
        request_(hand.sites["a"], process)
    hand.run(5)
    assert hand.take() == {"a": [], "b": []}, "nothing has happened"


def test_a_second_reply(hand: Hand) -> None:
    asker, member = hand.open("a"), hand.open("b", "bank", answers=True)
    hand.at(asker).cbcast(asker, "bank", b"?", replies=1)
    hand.run()
    (question,) = hand.of(Received, member)
    hand.at(member).reply(member, question.id, b"!")
    with pytest.raises(Rejected, match="a second reply"):
        hand.at(member).reply(member, question.id, b"!")


def test_what_is_over_asks_for_nothing(hand: Hand) -> None:
    process = hand.open("a", "bank")
    hand.at(process).kill(process)
    with pytest.raises(Rejected, match="over"):
        hand.at(process).kill(process)


@pytest.mark.parametrize(
    "request_",
    [
        lambda isis, p: isis.cbcast(p, "bank", b""),
        lambda isis, p: isis.abcast(p, "bank", b""),
        lambda isis, p: isis.gbcast(p, "bank", b""),
        lambda isis, p: isis.rank(p, "bank", [p]),
        lambda isis, p: isis.flush(p),
        lambda isis, p: isis.set_properties(p, "bank", {}),
    ],
)
def test_a_blocked_site_is_unavailable(hand: Hand, request_: Request) -> None:
    process = hand.open("a", "bank")
    hand.install("a")
    with pytest.raises(Unavailable, match="primary component"):
        request_(hand.sites["a"], process)


def test_limits_of_a_site(hand: Hand) -> None:
    process = hand.open("a", "a")
    hand.open("a", "b")
    hand.open("a")
    with pytest.raises(Unavailable, match="3 processes"):
        hand.open("a")
    with pytest.raises(Unavailable, match="2 groups"):
        hand.at(process).join(process, "c")


def test_open_calls(hand: Hand) -> None:
    asker, _ = hand.open("a"), hand.open("b", "bank", answers=True)
    for _ in range(2):
        hand.at(asker).cbcast(asker, "bank", b"?", replies=ALL)
    with pytest.raises(Unavailable, match="2 calls"):
        hand.at(asker).cbcast(asker, "bank", b"?", replies=ALL)
    hand.at(asker).cbcast(asker, "bank", b"no question")


@pytest.mark.parametrize("size", [1, 500])
def test_casts_wait_for_room_and_then_are_refused(hand: Hand, size: int) -> None:
    """4 casts, or 1,000 bytes: 2 of 500."""
    sender, member = hand.open("a"), hand.open("b", "bank")
    hand.cut = hand.links()
    room = 4 if size == 1 else 2
    for number in range(room + 3):
        hand.at(sender).cbcast(sender, [member], bytes([number]) * size)
    assert len(hand.at(sender).own.open) == room
    with pytest.raises(Unavailable, match="3 casts of this process wait"):
        hand.at(sender).cbcast(sender, [member], b"")
    hand.cut.clear()
    hand.run(2_000)
    assert [payload[0] for payload in hand.received(member)] == list(range(room + 3))
    assert not hand.at(sender).own.open


def test_a_join_that_is_refused_was_never_asked_for(hand: Hand) -> None:
    """There is no room for it behind the casts that wait. When there is, the process can join."""
    sender, member = hand.open("a"), hand.open("b", "bank")
    hand.cut = hand.links()
    for number in range(7):
        hand.at(sender).cbcast(sender, [member], bytes([number]))
    with pytest.raises(Unavailable, match="3 casts of this process wait"):
        hand.at(sender).join(sender, "till")
    hand.cut.clear()
    hand.run(2_000)
    assert hand.of(JoinAsked, sender) == []
    hand.join(sender, "till")
    assert hand.views(sender) == [(sender,)]
    assert hand.judge() == []


def test_a_gbcast_waits_for_room_too(hand: Hand) -> None:
    sender, member = hand.open("a"), hand.open("b", "bank")
    hand.cut = hand.links()
    for number in range(4):
        hand.at(sender).cbcast(sender, [member], bytes([number]))
    hand.at(sender).gbcast(sender, "bank", b"later")
    hand.run(20)
    hand.cut.clear()
    hand.run(2_000)
    assert hand.received(member)[-1] == b"later"


def test_casts_that_wait_can_be_taken_back(hand: Hand) -> None:
    sender, member = hand.open("a"), hand.open("b", "bank")
    hand.cut = hand.links()
    for _ in range(6):
        hand.at(sender).cbcast(sender, [member], b"")
    assert hand.at(sender).withdraw() == 2
    assert hand.at(sender).withdraw() == 0


def test_a_label_below_an_earlier_one_is_counted(hand: Hand) -> None:
    sender, member = hand.open("a"), hand.open("b")
    hand.at(sender).cbcast(sender, [member], b"", {"x": 5})
    hand.at(sender).cbcast(sender, [member], b"", {"x": 4})
    hand.at(sender).cbcast(sender, [member], b"", {"y": 4})
    assert hand.at(sender).casting.unordered == 1


def test_a_site_with_too_many_casts_under_way_is_suspected() -> None:
    """It keeps to another limit than the others."""
    hand = Hand("abc", limits=IsisLimits(open_casts=40))
    hand.sites["a"] = Isis(0, 1)
    hand.install("abc")
    sender, member = hand.open("a"), hand.open("b")
    gone = hand.open("c")
    hand.cut = hand.links(to="c")
    for _ in range(60):
        hand.at(sender).cbcast(sender, [member, gone], b"")
    hand.run()
    assert not hand.suspected, "up to twice the limit it may only be late"
    for _ in range(140):
        hand.at(sender).cbcast(sender, [member, gone], b"")
    hand.run()
    assert "ba" in hand.suspected
    assert hand.sites["b"].excess.counted == hand.suspected.count("ba")


def test_the_same_with_abcasts_and_bytes() -> None:
    hand = Hand("ab", limits=IsisLimits(open_bytes=1_000, payload_bytes=500))
    hand.sites["a"] = Isis(0, 1)
    hand.install("ab")
    sender, member = hand.open("a"), hand.open("b")
    hand.cut = hand.links(to="a")
    for _ in range(80):
        hand.at(sender).abcast(sender, [member], b"x" * 100)
    hand.run()
    assert "ba" in hand.suspected


def test_a_peer_for_which_too_much_waits_is_given_up_and_comes_back() -> None:
    hand = Hand("abc", channels=ChannelLimits(queue_records=50))
    hand.install("abc")
    sender, member = hand.open("a"), hand.open("b")
    hand.cut = hand.links()
    for _ in range(60):
        hand.at(sender).cbcast(sender, [member], b"lost")
    hand.run(1)
    assert "ab" in hand.suspected
    assert hand.sites["a"].here.broken == {1}
    hand.install("ac")
    hand.cut.clear()
    hand.install("abc")
    hand.run()
    assert not hand.sites["a"].here.broken
    again = next(iter(hand.sites["b"].delivery.locals))
    hand.at(sender).cbcast(sender, [again], b"anew")
    hand.run()
    assert hand.received(again) == [b"anew"]


def test_more_properties_than_a_group_may_have_are_rejected() -> None:
    hand = Hand("ab")
    x = hand.begin(bank="ab")
    with pytest.raises(Rejected, match="no room for these properties: expected at most 65536 bytes of a group"):
        hand.sites["a"].set_properties(x["a"], "bank", {"mode": bytes(65_537)})
