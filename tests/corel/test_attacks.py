"""Ways in which the log could be broken, each tried."""

import pytest
from tests.corel.by_hand import Replicas

from reconvene.corel import feeding, plan, recent


def test_a_follower_is_fed_in_order_while_its_feeder_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was recent at the feeder when it began to read is on stable storage alone when it comes there."""
    monkeypatch.setattr(plan, "FAR", 100)
    monkeypatch.setattr(recent, "_MOST", 32)
    monkeypatch.setattr(feeding, "_BYTES", 400)
    replicas = Replicas("abc")
    replicas.view(*"abc")
    replicas.run()
    replicas.view("c")
    replicas.view("a", "b")
    for number in range(150):
        replicas.append("a", f"m{number}")
        replicas.run()
    conf = replicas.view(*"abc")
    replicas.run("a", "b")
    for number in range(150, 300):
        replicas.append("a", f"m{number}")
        replicas.run("a", "b")
        replicas.deliver("c", min(6, len(conf.stream) - conf.places["c"]))
    replicas.run()
    assert replicas.log("c").step == "log: follow"
    assert replicas.green("c") == [f"m{number}" for number in range(300)] == replicas.green("a")
