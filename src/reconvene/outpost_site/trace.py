"""An outpost's trace: one `accept` for each message, once it is on stable storage and before a program is answered.

At a restart, what storage holds and the file lacks is recorded first. run.json is the sites' (`local` adds the
outposts to it, or whoever puts a trace together).
"""

from collections.abc import Callable

from reconvene.errors import Unavailable
from reconvene.outpost.outpost import Outpost, OutpostTurn
from reconvene.runtime.config.settings import Config
from reconvene.runtime.site.journal import Journal
from reconvene.trace.log_past import read_log_past
from reconvene.trace.outpost_recorder import OutpostRecorder
from reconvene.trace.recorder import Recorder

__all__ = ["OutpostTrace"]


class OutpostTrace:
    def __init__(self, config: Config, outpost: Outpost, t: int, stopped: Callable[[str], None]) -> None:
        directory = config.trace.dir
        assert directory is not None
        try:
            self.journal = Journal(directory, config.name, config.trace.max_bytes, stopped)
            recorder = Recorder(config.name, (config.name,), self.journal.append, self.journal.past.next_n)
            recorder.begin(outpost.incarnation)
            self._recorder = OutpostRecorder(recorder)
            self._recorder.accepted(t, outpost.queue.waiting(), read_log_past(self.journal.path).accepted)
            self.journal.flush()
        except OSError as error:
            raise Unavailable(f"{directory}: can't keep a trace: {error}") from None

    def turn(self, t: int, turn: OutpostTurn) -> None:
        if turn.accepted:
            self._recorder.accepted(t, turn.accepted)
            self.journal.flush()

    def close(self) -> None:
        self.journal.close()

    def status(self) -> dict[str, object]:
        return {"bytes": self.journal.bytes, "stopped": self.journal.stopped}
