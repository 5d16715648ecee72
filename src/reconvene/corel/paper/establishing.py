"""The view-change handler (figure 3.5) for one configuration: recovery, then establishing (5.5.1, figure 3.6).

Given: the configuration's members, and their messages in the agreed order. Promised: when it opens, everyone has
recovered, and, if a primary component was established, everything is green.

Every phase is synced before it is told: `durable.after` stands before each `send`.
"""

from collections.abc import Callable

from reconvene.corel.events import Attempted, Color, Committed, Established, Recolored
from reconvene.corel.home import Home
from reconvene.corel.messages import COMMIT, READY, Commit, Ready
from reconvene.corel.pace import Step
from reconvene.corel.paper.plan import Plan
from reconvene.corel.paper.queue import Entry
from reconvene.corel.paper.recovery import Phase, Recovery
from reconvene.errors import Malformed

__all__ = ["Handler", "Phase"]


class Handler(Recovery):
    def __init__(self, home: Home, conf: str, members: tuple[str, ...], opened: Callable[[int], None]) -> None:
        """`opened` is told the number of the primary component that was established; 0: none."""
        super().__init__(home, conf, members, lambda: self._attempt())
        self._opened = opened
        self._primary = 0
        """The primary component that is attempted; 0: none."""
        self._readys: dict[str, int] = {}
        self._commits: set[str] = set()

    def _attempt(self) -> None:
        home, plan = self.home, self._planned()
        if home.may_order(plan.voters):
            self._primary = plan.next_primary
            home.record.admitted = True  # it has all that the voters know
            home.record.replaces = False
            home.record.last_attempted_primary = self._primary
            home.record.attempt_conf = self.conf
            home.record.attempt_members = plan.participants
            home.touch()
            event = Attempted(self._primary, self.conf, tuple(sorted(plan.participants)))
            home.durable.after(lambda: home.tell(event))
        self._after_sync(lambda: home.send(READY, Ready(self._primary)))

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
        home = self.home
        self.phase = Phase.COMMIT
        record = home.record
        record.last_committed_primary = record.committed_here = self._primary
        record.commit_conf = self.conf
        record.commit_members = plan.participants
        home.touch()
        home.durable.held = True
        home.start(self._turn_yellow(plan))

    def _turn_yellow(self, plan: Plan) -> Step:
        """Everything becomes yellow, and is written together with the commit."""
        home = self.home
        turned: list[Entry] = []
        for entry in home.queue.turn_yellow():
            turned.append(entry)
            home.pace.spend()
            yield
        home.durable.held = False
        event = Committed(self._primary, self.conf, tuple(sorted(plan.participants)))

        def told() -> None:
            home.tell(event)
            for entry in turned:
                home.tell(Recolored(entry.heading, Color.YELLOW))

        home.durable.after(told)
        self._after_sync(lambda: home.send(COMMIT, Commit(self._primary)))

    def receive_commit(self, sender: str, message: Commit) -> None:
        plan = self._planned()
        if message.primary != self._primary or self.phase is not Phase.COMMIT:
            raise Malformed(f"{sender} commits to {message.primary}, which is not attempted here")
        self._commits.add(sender)
        if all(name in self._commits for name in plan.participants):
            self._establish(plan)

    def _establish(self, plan: Plan) -> None:
        home = self.home
        home.tell(Established(self._primary, self.conf, tuple(sorted(plan.participants))))
        home.start(self._turn_green())

    def _turn_green(self) -> Step:
        """A crash on the way leaves the rest yellow, which a recovery turns green: the commit is on stable storage
        everywhere."""
        home = self.home
        while home.queue.yellow:
            home.green(*home.queue.advance())
            yield
        self._open()

    def _open(self) -> None:
        self.phase = Phase.OPEN
        self._opened(self._primary)
