"""Groups are deleted in the midst of faults, for which scenarios have no verb: some GBCASTs and CBCASTs delete their
group instead. Its members join it again."""

from collections.abc import Iterable, Sequence

import pytest
from tests.sim.chunks import in_chunks

from reconvene.core.groups.events import Process
from reconvene.errors import Rejected
from reconvene.isis import labels
from reconvene.isis.events import CastId, IsisEvent, LeftGroup, Received, ViewShown
from reconvene.isis.isis import Isis
from reconvene.sim.isis_site import RealIsisCore
from reconvene.sim.node import Node
from reconvene.sim.profiles import random_scenario
from reconvene.sim.runner import Runner
from reconvene.verify.engine import verify
from reconvene.verify.history import History


class Deleting(Isis):
    """The same work otherwise. A scenario decides who asks, a site by itself whether it deletes."""

    asked = 0

    def gbcast(self, process: Process, group: str, payload: bytes) -> None:
        if self._deletes(2):
            self.delete(process, group)
        else:
            super().gbcast(process, group, payload)

    def cbcast(
        self,
        process: Process,
        to: str | Sequence[Process],
        payload: bytes,
        label: labels.Asked = None,
        replies: int = 0,
    ) -> None:
        if isinstance(to, str) and self._deletes(15):
            self.delete(process, to)
        else:
            super().cbcast(process, to, payload, label, replies)

    def _deletes(self, one_in: int) -> bool:
        self.asked += 1
        return self.asked % one_in == 0

    def finish(self, now: int) -> tuple[list[IsisEvent], list[tuple[tuple[int, ...], bytes]]]:
        events, datagrams = super().finish(now)
        for event in events:
            if isinstance(event, LeftGroup) and event.deleted:
                try:
                    self.join(event.process, event.group)
                except Rejected:
                    continue  # it is over, or has asked for that itself
        return events, datagrams


class Ends:
    """What members have received of a group in its last view, when it was deleted: the same, at all of them."""

    def __init__(self) -> None:
        self.count = 0
        self._views: dict[tuple[Process, str], int] = {}
        self._received: dict[tuple[Process, str], set[CastId]] = {}
        self._last: dict[tuple[str, int], frozenset[CastId]] = {}

    def see(self, node: Node, events: Iterable[IsisEvent]) -> None:
        for event in events:
            match event:
                case ViewShown():
                    self._views[event.process, event.group] = event.view
                    self._received[event.process, event.group] = set()
                case Received(group=str(group)):
                    self._received[event.process, group].add(event.id)
                case LeftGroup(deleted=True):
                    self.count += 1
                    key = (event.process, event.group)
                    received = frozenset(self._received[key])
                    assert self._last.setdefault((event.group, self._views[key]), received) == received


@pytest.mark.parametrize("first", in_chunks(24, 2))
def test_deletions_under_faults(first: int) -> None:
    count = 0
    for seed in range(first, first + 2):
        runner = Runner(random_scenario(9_000 + seed, "isis"), core=RealIsisCore(Deleting))
        once = Ends()
        runner.cluster.on_isis(once.see)
        result = runner.run()
        assert verify([History.of(result.meta, result.rows)]).violated() == [], seed
        count += once.count
    assert count > 5, "deletions took effect"
