"""From what an outpost accepted to its rows in the trace: one `accept` for each message that is on stable storage."""

from collections.abc import Collection, Iterable

from reconvene.ids import message_id
from reconvene.trace.events import Row
from reconvene.trace.recorder import Recorder

__all__ = ["OutpostRecorder"]

Run = tuple[int, int, int]
"""Messages that follow each other: the first one's counter, how many, and the incarnation that accepted them."""


class OutpostRecorder:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def accepted(self, t: int, accepted: Iterable[Run], known: Collection[str] = ()) -> None:
        """`known`: ids that have a row. At a restart some lack one: those that were synced just before the crash."""
        recorder = self._recorder
        node, incarnation = recorder.node, recorder.incarnation
        for first, count, of in accepted:
            for counter in range(first, first + count):
                msg = message_id(node, of, counter)
                if msg not in known:
                    n = recorder.next_number()
                    recorder.add(Row(node=node, inc=incarnation, n=n, t=t, layer="corel", kind="accept", msg=msg))
