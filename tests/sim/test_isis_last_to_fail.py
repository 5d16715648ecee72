"""All members of a group fail in the simulator, and the last to fail decides: stored views, crashes at syncs."""

from pathlib import Path

import pytest

from reconvene.core.groups.events import Process
from reconvene.isis.events import IsisEvent, ViewShown
from reconvene.isis.isis import Isis
from reconvene.isis.last_to_fail import StoredViews
from reconvene.sim.isis_site import RealIsisCore
from reconvene.sim.node import Node
from reconvene.sim.parse import load_scenario
from reconvene.sim.runner import Runner
from reconvene.verify.engine import verify
from reconvene.verify.history import History

SCENARIO = Path(__file__).parent.parent.parent / "scenarios" / "isis-all-crash.toml"


class Lasting(Isis):
    """Every process joins with the option."""

    def join(self, process: Process, group: str, *, vector: bool = False, last_to_fail: bool = False) -> None:
        super().join(process, group, vector=vector, last_to_fail=True)


@pytest.mark.parametrize("seed", range(5))
def test_the_last_to_fail_begins_the_group_again(seed: int) -> None:
    """a fails first. c is the last, alone, without a quorum; so b and c have stored the same view."""
    runner = Runner(load_scenario(SCENARIO), seed, core=RealIsisCore(Lasting), check_every=1)
    shown: list[tuple[int, str, ViewShown]] = []

    def seen(node: Node, events: list[IsisEvent]) -> None:
        shown.extend((runner.cluster.now, node.name, event) for event in events if isinstance(event, ViewShown))

    runner.cluster.on_isis(seen)
    result = runner.run()
    again = [(time, name, event) for time, name, event in shown if event.process.incarnation == 2]
    assert again[0][0] > 6_000_000_000, "c came back then: b and a have waited for it"
    _, name, first = min(again, key=lambda shown: shown[2].view)
    assert name in ("b", "c")
    assert first.last_to_fail == (1, 2)
    assert [len(event.ranked) for _, who, event in again if who == "a"][-1] == 3
    stored = [StoredViews(node.disk).of("bank") for node in runner.cluster.nodes]
    assert len({view.view for view in stored if view is not None}) == 1
    assert verify([History.of(result.meta, result.rows)]).violated() == []
