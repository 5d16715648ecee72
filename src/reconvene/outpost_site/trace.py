"""An outpost's trace: one `accept` for each message, once it is on stable storage and before a program is answered.

At a restart, what storage holds and the file lacks is recorded first. run.json is the sites' (`local` adds the
outposts to it, or whoever puts a trace together).
"""

from collections.abc import Callable, Iterable

from reconvene.errors import Unavailable
from reconvene.ids import message_id
from reconvene.outpost.outpost import Outpost, OutpostTurn
from reconvene.runtime.config.settings import Config
from reconvene.runtime.site.journal import Journal
from reconvene.trace.events import Row
from reconvene.trace.log_past import read_log_past

__all__ = ["OutpostTrace", "accept_rows"]


def accept_rows(
    name: str, incarnation: int, n: Iterable[int], t: int, accepted: Iterable[tuple[int, int, int]]
) -> Iterable[Row]:
    """`accepted`: (first, count, incarnation in which they were accepted) …"""
    numbers = iter(n)
    for first, count, of in accepted:
        for counter in range(first, first + count):
            msg = message_id(name, of, counter)
            yield Row(node=name, inc=incarnation, n=next(numbers), t=t, layer="corel", kind="accept", msg=msg)


class OutpostTrace:
    def __init__(self, config: Config, outpost: Outpost, t: int, stopped: Callable[[str], None]) -> None:
        directory = config.trace.dir
        assert directory is not None
        self._name = config.name
        self._incarnation = outpost.incarnation
        try:
            self.journal = Journal(directory, config.name, config.trace.max_bytes, stopped)
            self._n = self.journal.past.next_n
            known = read_log_past(self.journal.path).accepted
            queue = outpost.queue
            lacking = (
                (counter, 1, batch.incarnation)
                for batch in queue.batches
                for counter in range(max(batch.first, queue.green + 1), batch.last + 1)
                if message_id(config.name, batch.incarnation, counter) not in known
            )
            self._record(t, lacking)
            self.journal.flush()
        except OSError as error:
            raise Unavailable(f"{directory}: can't keep a trace: {error}") from None

    def _numbers(self) -> Iterable[int]:
        while True:
            self._n += 1  # before it is handed out: nobody asks for another one after the last
            yield self._n - 1

    def _record(self, t: int, accepted: Iterable[tuple[int, int, int]]) -> None:
        for row in accept_rows(self._name, self._incarnation, self._numbers(), t, accepted):
            self.journal.append(row)

    def turn(self, t: int, turn: OutpostTurn) -> None:
        if turn.accepted:
            self._record(t, turn.accepted)
            self.journal.flush()

    def close(self) -> None:
        self.journal.close()

    def status(self) -> dict[str, object]:
        return {"bytes": self.journal.bytes, "stopped": self.journal.stopped}
