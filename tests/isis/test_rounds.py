"""Rounds: which GBCASTs are concluded together, and what that saves."""

from random import Random

import pytest
from tests.isis.hand import Hand
from tests.sim.chunks import few

from reconvene.core.groups.events import Process
from reconvene.errors import Rejected
from reconvene.isis.messages import Action, Control, Ready
from reconvene.isis.rounds import rounds, start
from reconvene.isis.table import OpenGbcast

P = [Process(site, 1, 1) for site in range(6)]


def gbcasts(*places: tuple[str, str]) -> list[OpenGbcast]:
    """(group, sites of the processes that it concerns)"""
    return [
        OpenGbcast(number, Action("cast", group, P[0]), [P[int(site)] for site in sites])
        for number, (group, sites) in enumerate(places, 1)
    ]


def begun(*places: tuple[str, str], before: int = 0) -> dict[int, list[int]]:
    """The rounds that begin, where the first so many were announced and begun before."""
    made = gbcasts(*places)
    start(made[:before], [])
    start(made[before:], made[:before])
    return {number: [one.number for one in round_] for number, round_ in rounds(made).items()}


def test_those_that_meet_go_together() -> None:
    assert begun(("x", "01"), ("y", "23")) == {1: [1], 2: [2]}
    assert begun(("x", "01"), ("y", "12")) == {1: [1, 2]}
    assert begun(("x", "01"), ("y", "23"), ("z", "13")) == {1: [1, 2, 3]}
    assert begun(("x", ""), ("x", "")) == {1: [1, 2]}, "of a group that is empty"


def test_those_that_meet_one_that_is_under_way_wait() -> None:
    assert begun(("x", "01"), ("y", "12"), before=1) == {1: [1]}
    assert begun(("x", "01"), ("y", "23"), before=1) == {1: [1], 2: [2]}


def test_none_overtakes_one_that_waits() -> None:
    assert begun(("x", "01"), ("y", "12"), ("z", "23"), ("w", "45"), before=1) == {1: [1], 4: [4]}


def count_readies(hand: Hand) -> list[Ready]:
    readies: list[Ready] = []

    def hold(message: Control, site: str) -> bool:
        if isinstance(message, Ready) and site == "a":
            readies.append(message)
        return False

    hand.hold = hold
    return readies


def test_many_joins_at_once_take_two_rounds() -> None:
    hand = Hand("abcde")
    x = hand.begin(bank="a", till="a")
    readies = count_readies(hand)
    for name in "bcde":
        for group in ("bank", "till"):
            hand.sites[name].join(x[name], group)
    hand.run(20)
    assert len(hand.views(x["a"])[-1]) == 5
    assert len(readies) == 2
    for name in "bcde":
        assert hand.views(x[name])[-2:] == hand.views(x["a"])[-2:]
    assert hand.judge() == []


def test_a_member_s_cast_comes_before_all_of_a_round_that_lets_a_process_in() -> None:
    """A change of rank and a join are one round. The cast of the view that the join ends comes to c when c is ready
    for both: c may not wait for the change of rank, since b is not ready before the cast has its place."""
    hand = Hand("abcd")
    x = hand.begin(bank="abc")
    held = True
    hand.hold = lambda message, site: held and isinstance(message, Ready)
    hand.delay_ms["bc"] = 40
    hand.sites["b"].abcast(x["b"], "bank", b"before", "q", causal=True)
    hand.sites["a"].gbcast(x["a"], "bank", b"first")
    hand.run(5)
    hand.sites["d"].rank(x["d"], "bank", [x["c"], x["b"], x["a"]])
    hand.run(5)
    hand.sites["d"].join(x["d"], "bank")
    hand.run(5)
    held = False
    hand.run(2_000)
    assert not any(isis.table.open for isis in hand.sites.values())
    assert hand.views(x["d"]) == [(x["c"], x["b"], x["a"], x["d"])]
    assert hand.judge() == []


@pytest.mark.parametrize("seed", few(range(12), 4))
def test_rounds_in_the_midst_of_casts(seed: int) -> None:
    """Overlapping groups, slow links, and so many GBCASTs that most go in rounds; a site is lost meanwhile."""
    random = Random(f"rounds/{seed}")
    hand = Hand("abcde")
    x = hand.begin(one="abc", two="bcd", three="cde")
    for link in sorted(hand.links()):
        hand.delay_ms[link] = random.choice((1, 1, 5, 30))
    lost = random.choice("abcdef")
    for step in range(120):
        name, group = random.choice(sorted(hand.sites)), random.choice(("one", "two", "three"))
        isis, process = hand.sites[name], x[name]
        try:
            match random.randrange(8):
                case 0 | 1:
                    isis.gbcast(process, group, b"g%d" % step)
                case 2:
                    isis.join(process, group)
                case 3:
                    isis.leave(process, group)
                case 4:
                    isis.abcast(process, group, b"a%d" % step, random.choice("xy"))
                case 5 if random.random() < 0.3:
                    isis.delete(process, group)
                case _:
                    isis.cbcast(process, group, b"c%d" % step)
        except Rejected:
            pass
        hand.run(random.choice((0, 1, 1, 2)))
        if step == 60 and lost in hand.sites:
            hand.crash(lost)
            hand.install("abcde".replace(lost, ""))
    hand.run(3_000)
    assert not any(isis.table.open for isis in hand.sites.values())
    assert hand.judge() == []
