"""Establishing a primary component (5.5.1, figure 3.6) after recovery: together the view-change handler (figure 3.5).

Given: the configuration's members, and their messages in the agreed order. Promised: when the configuration opens,
everyone has recovered, and, if a primary component was established, everything is green.

Every phase is synced before it is announced.
"""

from collections.abc import Callable

from reconvene.corel.after_sync import Finalize, Report
from reconvene.corel.events import Attempted, Color, Committed, Established, Recolored
from reconvene.corel.keeping.writes import Writes
from reconvene.corel.messages import COMMIT, READY, Commit, Ready
from reconvene.corel.outgoing import Outgoing
from reconvene.corel.paper.applying import Applying
from reconvene.corel.paper.phases import Phase
from reconvene.corel.paper.plan import Plan
from reconvene.corel.paper.queue import Queue
from reconvene.corel.paper.recovery import Recovery
from reconvene.corel.replicas.current import CurrentReplicas
from reconvene.corel.replicas.standing import Standing
from reconvene.corel.replicas.voting import Voting
from reconvene.corel.turn_share import Step, TurnShare
from reconvene.errors import Malformed

__all__ = ["Establishing"]


class Establishing(Recovery):
    def __init__(
        self,
        number: int,
        conf: str,
        members: tuple[str, ...],
        *,
        queue: Queue,
        writes: Writes,
        outgoing: Outgoing,
        turn: TurnShare,
        replicas: CurrentReplicas,
        standing: Standing,
        voting: Voting,
        applying: Applying,
        opened: Callable[[int, int], None],
    ) -> None:
        """`opened` is called with the number of the primary component that was established, 0: none; and with how
        many yellow batches become green once that is on stable storage."""
        super().__init__(
            number,
            conf,
            members,
            queue=queue,
            writes=writes,
            outgoing=outgoing,
            turn=turn,
            replicas=replicas,
            standing=standing,
            voting=voting,
            applying=applying,
        )
        self._opened = opened
        self._primary = 0
        """The primary component that is attempted; 0: none."""
        self._readys: dict[str, int] = {}
        self._commits: set[str] = set()

    def attempt(self) -> None:
        """Recovery is over, and all of it is on stable storage here."""
        plan, record = self._planned(), self._record
        if self._voting.may_order(plan.voters):
            self._primary = plan.next_primary
            self._voting.attempt(self._primary, plan.participants)
            record.admitted = True  # it has all that the voters know
            record.replaces = False
            record.last_attempted_primary = self._primary
            record.attempt_conf = self.conf
            record.attempt_members = plan.participants
            self._writes.touch()
            self._writes.after(Report((Attempted(self._primary, self.conf, tuple(sorted(plan.participants))),)))
        self._send_synced(READY, Ready(self._primary))

    def receive_ready(self, sender: str, message: Ready) -> None:
        plan = self._planned()
        self._readys[sender] = message.primary
        if self.phase is not Phase.ATTEMPT or any(name not in self._readys for name in plan.participants):
            return
        if set(self._readys.values()) != {self._primary}:
            raise Malformed(f"members attempt different primary components: {sorted(self._readys.values())}")
        if self._primary:
            self._commit(plan)
        else:
            self._open()

    def _commit(self, plan: Plan) -> None:
        self.phase = Phase.COMMIT
        record = self._record
        record.last_committed_primary = record.committed_here = self._primary
        record.commit_conf = self.conf
        record.commit_members = plan.participants
        self._voting.commit()
        self._writes.touch()
        self._writes.held = True
        self._turn.start(self._turn_yellow(plan))

    def _turn_yellow(self, plan: Plan) -> Step:
        """Everything becomes yellow, and is written together with the commit."""
        turned: list[Recolored] = []
        for entry in self._queue.turn_yellow():
            turned.append(Recolored(entry.heading, Color.YELLOW))
            self._turn.spend()
            yield
        self._writes.held = False
        committed = Committed(self._primary, self.conf, tuple(sorted(plan.participants)))
        self._writes.after(Report((committed, *turned)))
        self._send_synced(COMMIT, Commit(self._primary))

    def receive_commit(self, sender: str, message: Commit) -> None:
        plan = self._planned()
        if message.primary != self._primary or self.phase is not Phase.COMMIT:
            raise Malformed(f"{sender} commits to {message.primary}, which is not attempted here")
        self._commits.add(sender)
        if all(name in self._commits for name in plan.participants):
            self._establish(plan)

    def _establish(self, plan: Plan) -> None:
        """With dynamic voting nothing is final before the session is established on stable storage: as long as no
        member has that there, all of them together may go on as if it had never been. Else it goes with the next
        write."""
        established = Established(self._primary, self.conf, tuple(sorted(plan.participants)))
        self._voting.establish()
        if self._voting.dynamic:
            self._writes.touch()
            self._writes.after(Report((established,)))
            self._writes.after(Finalize(self._number))
            self._open(len(self._queue.yellow))
            return
        self._writes.note()
        self._turn.report(established)
        self._turn.start(self._turn_green())

    def _turn_green(self) -> Step:
        """A crash on the way leaves the rest yellow, which a recovery turns green: the commit is on stable storage
        everywhere."""
        while self._queue.yellow:
            self._applying.advance()
            yield
        self._open()

    def _open(self, yellow: int = 0) -> None:
        self.phase = Phase.OPEN
        self._opened(self._primary, yellow)
