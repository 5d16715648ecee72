"""Casts of lost sites that become complete while the other sites exchange what they have.

a's cast M reaches b and d. b's cast N follows M, and reaches only c, which is told to wait for M. a and b are lost.
c counts what it has, without N; then d brings M, so that N is complete at c, and nowhere else.
"""

import pytest
from tests.isis.hand import Hand

from reconvene.core.groups.events import Process
from reconvene.isis.events import CastId
from reconvene.isis.messages import FlushedSite
from reconvene.isis.pool import Entry, Pool


def lost(hand: Hand, x: dict[str, Process], to: str | list[Process], *, causal: bool = False) -> None:
    """`causal`: N is a causal ABCAST."""
    hand.cut.add("ac")
    hand.sites["a"].cbcast(x["a"], to, b"M")
    hand.run(3)
    hand.cut |= {"bd", "be"}
    if causal:
        hand.sites["b"].abcast(x["b"], to, b"N", causal=True)
    else:
        hand.sites["b"].cbcast(x["b"], to, b"N")
    hand.run(3)
    hand.crash("a")
    hand.crash("b")
    hand.install("cde")
    hand.run(300)
    assert hand.received(x["d"]) == hand.received(x["e"]) == [b"M"]


def count_and_go_on(self: Pool) -> dict[CastId, Entry]:
    return {entry.id: entry for entry in self.of_departed()}


@pytest.mark.parametrize("causal", [False, True])
def test_a_cast_that_nobody_had_when_it_counted_is_dropped(causal: bool) -> None:
    hand = Hand("abcde")
    x = hand.begin(bank="abcde")
    lost(hand, x, "bank", causal=causal)
    assert hand.received(x["c"]) == [b"M"]
    hand.sites["d"].abcast(x["d"], "bank", b"later")
    hand.run(50)
    assert hand.received(x["c"])[-1] == b"later"
    assert hand.judge() == []


def test_else_one_member_receives_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pool, "count_departed", count_and_go_on)
    hand = Hand("abcde")
    x = hand.begin(bank="abcde")
    lost(hand, x, "bank")
    assert hand.received(x["c"]) == [b"M", b"N"]
    assert "isis.atomic" in hand.judge()


def test_a_process_without_groups_receives_nothing_that_is_dropped() -> None:
    hand = Hand("abcde")
    x = hand.begin()
    lost(hand, x, list(x.values()))
    assert hand.received(x["c"]) == [b"M"]
    assert hand.judge() == []


def test_what_another_site_has_counted_is_received() -> None:
    """d has both: it brings them to all."""
    hand = Hand("abcde")
    x = hand.begin(bank="abcde")
    hand.cut.add("ac")
    hand.sites["a"].cbcast(x["a"], "bank", b"M")
    hand.run(3)
    hand.cut.add("be")
    hand.sites["b"].cbcast(x["b"], "bank", b"N")
    hand.run(3)
    hand.crash("a")
    hand.crash("b")
    hand.install("cde")
    hand.run(300)
    for name in "cde":
        assert hand.received(x[name]) == [b"M", b"N"]
    assert hand.judge() == []


def test_a_site_view_meanwhile_makes_all_count_again() -> None:
    """e is lost before it has said what it has. c has N by then, and brings it to the others."""
    hand = Hand("abcdefg")
    x = hand.begin(bank="abcdefg")
    hand.hold = lambda message, site: site == "e" and isinstance(message, FlushedSite)
    hand.cut.add("ac")
    hand.sites["a"].cbcast(x["a"], "bank", b"M")
    hand.run(3)
    hand.cut |= hand.links(of="b", to="defg")
    hand.sites["b"].cbcast(x["b"], "bank", b"N")
    hand.run(3)
    hand.crash("a")
    hand.crash("b")
    hand.install("cdefg")
    hand.run(50)
    assert list(hand.sites["c"].pool.late)
    hand.crash("e")
    hand.install("cdfg")
    hand.run(300)
    for name in "cdfg":
        assert hand.received(x[name]) == [b"M", b"N"]
    assert hand.judge() == []
