"""COReL, section 5.2.1: figure 3.3, and what follows from it, figure 3.4.

P and Q are a majority, R is cut off. 1 and 2 are green everywhere; 3 and 4 are green at P, and green or yellow at Q;
5 and 6 are yellow at P, which does not know whether Q has them; x is red at R. The tests make every such state.
"""

import pytest
from tests.corel.by_hand import Replicas, Said

from reconvene.corel.events import Adopted, Established
from reconvene.corel.messages import Ack

STATES = [(green, more) for green in (0, 1, 2) for more in (0, 1, 2)]
"""How many of 3 and 4 are green at Q, and how many of 5 and 6 Q has."""


def figure_3_3(green: int, more: int) -> Replicas:
    world = Replicas("pqr")
    world.view("p", "q", "r")
    world.run()
    world.append("p", "1", "2")
    world.run()
    world.view("r")  # first, so that its message has the lower timestamp
    world.view("p", "q")
    world.run()
    world.append("r", "x")
    world.run()
    world.slow |= {"p", "q"}
    world.held |= {"p", "q"}
    _say(world, "3", "4")
    world.deliver("p", green)
    world.sync("p")
    _say(world, "5", "6")
    world.deliver("q", 2)
    world.sync("q")
    world.deliver("q", green + more)
    world.sync("q")
    world.deliver_until("p", lambda said: _acknowledged(said, "q") > 2)
    world.sync("p")
    return world


def _say(world: Replicas, *texts: str) -> None:
    for text in texts:
        world.append("p", text)
        world.sync("p")


def _acknowledged(said: Said, sender: str) -> int:
    content = said.content
    return content.acknowledged if said.sender == sender and isinstance(content, Ack) else 0


def _joined(*texts: str) -> str:
    return " ".join(text for text in texts if text)


@pytest.mark.parametrize(("green", "more"), STATES)
def test_figure_3_3(green: int, more: int) -> None:
    """5.2.1: green at P by Order Rule 1 implies yellow or green at Q; yellow at P implies nothing for Q."""
    world = figure_3_3(green, more)
    assert world.queue("p") == "1 2 3 4 | 5 6 | "
    zones = [("1 2", "3 4"), ("1 2 3", "4"), ("1 2 3 4", "")][green]
    assert world.queue("q") == f"{zones[0]} | {_joined(zones[1], *'56'[:more])} | "
    assert world.queue("r") == "1 2 |  | x"


@pytest.mark.parametrize(("green", "more"), STATES)
def test_figure_3_4(green: int, more: int) -> None:
    """5.2.1: P is alone, and Q merges with R. Q and R order Q's yellow messages before x, and all become green. P
    learns nothing of it."""
    world = figure_3_3(green, more)
    world.slow.clear()
    world.held.clear()
    world.view("p")
    world.view("q", "r")
    world.run()
    assert world.queue("p") == "1 2 3 4 | 5 6 | "
    assert world.queue("q") == world.queue("r") == f"{_joined('1 2 3 4', *'56'[:more], 'x')} |  | "
    assert any(isinstance(event, Adopted) and event.primary == 2 for event in world.events["r"])
    assert world.log("q").primary == world.log("r").primary == 3
    assert not world.log("p").primary


@pytest.mark.parametrize(("green", "more"), STATES)
def test_and_when_p_comes_back(green: int, more: int) -> None:
    """5.5: a message that was yellow at P alone becomes red, is ordered after x, and becomes green: nothing is
    lost."""
    world = figure_3_3(green, more)
    world.slow.clear()
    world.held.clear()
    world.view("p")
    world.view("q", "r")
    world.run()
    world.view("p", "q", "r")
    world.run()
    order = _joined("1 2 3 4", *"56"[:more], "x", *"56"[more:])
    assert [world.queue(name) for name in "pqr"] == [f"{order} |  | "] * 3
    assert [event.primary for event in world.events["p"] if isinstance(event, Established)] == [1, 2, 4]
