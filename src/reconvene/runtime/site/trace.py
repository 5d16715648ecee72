"""A site's trace as it runs: the journal, and a recorder for each layer.

Promised: the trace of an earlier incarnation is completed first, with the rows of the log that storage has and the
file lacks, and with its `fail`. From then on each turn's rows are with the operating system when `turn` returns.
"""

from collections.abc import Callable, Sequence

from reconvene.corel.replica import Replica
from reconvene.domains.events import WideEvent
from reconvene.errors import Unavailable
from reconvene.runtime.config.settings import Config
from reconvene.runtime.site.journal import Journal, run_quorum, tell_changed, write_run
from reconvene.runtime.site.wide_rows import WideRows
from reconvene.stack.stack import Stack
from reconvene.stack.turn import Turn
from reconvene.trace.group_recorder import GroupRecorder
from reconvene.trace.isis_recorder import IsisRecorder
from reconvene.trace.log_past import LogPast, read_log_past
from reconvene.trace.log_recorder import LogRecorder
from reconvene.trace.recorder import Recorder

__all__ = ["SiteTrace", "stack_name"]


class SiteTrace:
    """Raises Unavailable if the trace can't be written, or if it shows that the site's directory is an older one."""

    def __init__(
        self,
        config: Config,
        names: tuple[str, ...],
        stack: Stack,
        log: tuple[Replica, Callable[[int], str]] | None,
        t: int,
        stopped: Callable[[str], None],
    ) -> None:
        """`log`: the site's replica, and the names of authors by their numbers; None where it takes no part."""
        directory = config.trace_dir
        assert directory is not None
        incarnation = stack.incarnation
        try:
            write_run(
                directory,
                config.cluster,
                tuple(sorted(names)),
                config.order.engine,
                stack_name(config),
                run_quorum(config.names, config.log.replicas, config.log.quorum),
            )
            self.journal = Journal(directory, config.name, config.trace.max_bytes, stopped)
            self._wide = None if config.domain is None else WideRows(config, stopped)
        except OSError as error:
            raise Unavailable(f"{directory}: can't keep a trace: {error}") from None
        past = self.journal.past
        try:
            self.journal.check_newer(incarnation, config.dir)
            next_n = past.next_n if self._wide is None else max(past.next_n, self._wide.journal.past.next_n)
            recorder = Recorder(config.name, names, self.journal.append, next_n)
            if not past.ended:
                recorder.resume(past.incarnation, past.conf)
            else:
                recorder.begin(incarnation)
            self._log = None if log is None else self._complete_log(recorder, t, *log)
            if self._wide is not None:
                self._wide.begin(recorder, t)
            if not past.ended:
                recorder.fail(t)
                recorder.begin(incarnation)
            self._flush()
        except OSError as error:
            self.abandon()
            raise Unavailable(f"{directory}: can't continue the trace: {error}") from None
        except BaseException:
            self.abandon()
            raise
        self._directory = directory
        self._replica = None if log is None else log[0]
        self._changed = False
        self._note_change()
        self._recorder = recorder
        self._groups = GroupRecorder(recorder)
        self._isis = IsisRecorder(recorder)
        self._isis.wide = None if self._wide is None else self._wide.recorder
        stack.groups.record()

    def _complete_log(
        self, recorder: Recorder, t: int, replica: Replica, author: Callable[[int], str]
    ) -> LogRecorder:
        """Records what storage holds of the log and the file lacks."""
        first = self.journal.past.incarnation == 0
        if first and replica.begun:
            # Rows come before writes: a log that has begun, without a trace, had one that was taken away.
            self.journal.stop("the log is older than the trace: without its start it can't be judged")
        log = LogRecorder(recorder, author)
        log.catch_up(t, LogPast() if first else read_log_past(self.journal.path), replica)
        return log

    def turn(self, t: int, turn: Turn) -> None:
        self._groups.turn(t, turn.events, turn.notes)
        if turn.log and self._log is not None:
            self._log.events(t, turn.log)
            self._note_change()
        if self._wide is not None and turn.wide:
            self._wide.events(t, turn.wide)  # first: what brought a cast comes before the cast
        if turn.isis:
            self._isis.events(t, turn.isis)
        self._flush()

    def wide(self, t: int, events: Sequence[WideEvent]) -> None:
        """What a gateway's site above reports of this one."""
        if self._wide is not None and events:
            self._wide.events(t, events)
            self._wide.journal.flush()

    def _flush(self) -> None:
        """The site's own file first: its rows come before those that depend on them."""
        self.journal.flush()
        if self._wide is not None:
            self._wide.journal.flush()

    def _note_change(self) -> None:
        """run.json has the quorum that the log began with. It says so once that is no longer the one that counts."""
        if self._replica is not None and not self._changed and self._replica.replicas.age > (0, 0):
            self._changed = True
            self._tell_changed()

    def _tell_changed(self) -> None:
        try:
            tell_changed(self._directory)
        except OSError as error:
            self.journal.stop(f"can't mark in run.json that the replicas have changed: {error}")

    def close(self, t: int, left: bool) -> None:
        """`left`: a clean stop, with everything recorded that storage has. Otherwise the next start records a
        failure."""
        if left:
            if self._wide is not None:
                self._wide.end(t)
            self._recorder.stop(t)
        pending = self._replica is not None and len(self._replica.pending_sets()) > 1
        if self._changed or pending:  # a component counts by the set that a pending change would make, too
            self._tell_changed()  # a site that wrote run.json at the same time may have missed it
        self.abandon()

    def abandon(self) -> None:
        """Ends as a crash of the process would."""
        self.journal.close()
        if self._wide is not None:
            self._wide.journal.close()

    def status(self) -> dict[str, object]:
        wide = None if self._wide is None else self._wide.journal
        return {
            "bytes": self.journal.bytes + (0 if wide is None else wide.bytes),
            "stopped": self.journal.stopped or (wide is not None and wide.stopped),
        }


def stack_name(config: Config) -> str:
    """For run.json. The log has most to say of a run; the rows of each layer are judged, whatever this says."""
    if config.log.enabled:
        return "corel"
    return "isis" if config.isis.enabled else "evs"
