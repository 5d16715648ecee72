"""The trace of a site that follows a log: what of the log is on its disk, and nothing else.

run.json is the replicas': who writes that names the followers too. Promised: as `runtime.site.trace`.
"""

from collections.abc import Callable

from reconvene.corel.following.follower import Follower
from reconvene.errors import Unavailable
from reconvene.runtime.config.settings import Config
from reconvene.runtime.site.journal import Journal
from reconvene.stack.turn import Turn
from reconvene.trace.log_past import LogPast, read_log_past
from reconvene.trace.log_recorder import LogRecorder
from reconvene.trace.recorder import Recorder

__all__ = ["FollowerTrace"]


class FollowerTrace:
    """Raises Unavailable if the trace can't be written, or if it shows that the site's directory is an older one."""

    def __init__(
        self,
        config: Config,
        incarnation: int,
        follower: Follower,
        author: Callable[[int], str],
        t: int,
        stopped: Callable[[str], None],
    ) -> None:
        directory = config.trace_dir
        assert directory is not None
        try:
            self.journal = Journal(directory, config.name, config.trace.max_bytes, stopped)
        except OSError as error:
            raise Unavailable(f"{directory}: can't keep a trace: {error}") from None
        past = self.journal.past
        try:
            self.journal.check_newer(incarnation, config.dir)
            first = past.incarnation == 0
            recorder = Recorder(config.name, (config.name,), self.journal.append, past.next_n)
            recorder.begin(incarnation)
            self._log = LogRecorder(recorder, author)
            self._log.catch_up_green(t, LogPast() if first else read_log_past(self.journal.path), follower)
            self.journal.flush()
        except OSError as error:
            self.journal.close()
            raise Unavailable(f"{directory}: can't continue the trace: {error}") from None
        except BaseException:
            self.journal.close()
            raise

    def turn(self, t: int, turn: Turn) -> None:
        self._log.events(t, turn.log)
        self.journal.flush()

    def close(self, t: int, left: bool) -> None:
        self.journal.close()

    def abandon(self) -> None:
        """Ends as a crash of the process would."""
        self.journal.close()

    def status(self) -> dict[str, object]:
        return {"bytes": self.journal.bytes, "stopped": self.journal.stopped}
