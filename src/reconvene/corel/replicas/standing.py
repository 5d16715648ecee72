"""Whether this storage takes part as a replica of the log: what was decided about it, and about the others here.

A storage takes no part where the site keeps no log, where it was removed by force, where it is older than what others
know of it, or where another storage is known under its name. Promised: what was decided once holds after a restart.
"""

from collections.abc import Iterable, Mapping

from reconvene.corel.after_sync import Renumbered
from reconvene.corel.clients.sessions import Sessions
from reconvene.corel.keeping.layout import Record
from reconvene.corel.keeping.writes import Writes
from reconvene.corel.messages import State
from reconvene.corel.paper.plan import Plan, forced_out
from reconvene.corel.paper.queue import Queue
from reconvene.corel.replicas.current import CurrentReplicas
from reconvene.corel.replicas.lineage import behind, seen_of
from reconvene.corel.replicas.sets import ReplicaSet
from reconvene.corel.replicas.voting import Voting

__all__ = ["Standing"]


class Standing:
    def __init__(
        self,
        name: str,
        replicas: CurrentReplicas,
        voting: Voting,
        queue: Queue,
        sessions: Sessions,
        writes: Writes,
        *,
        keeps: bool,
        begin: bool,
    ) -> None:
        """`keeps`: the site's file says that it keeps the log. `begin`: a new log may begin here."""
        self.name = name
        self._record = writes.record
        self.keeps = keeps and not self._record.outcast and not self._record.behind
        """It keeps the log at all."""
        self.begin: tuple[str, ...] | None = () if begin else None
        """An operator has said that a new log may begin here, without these replicas if they are absent."""
        self.behind: dict[str, str] = {}
        """By name: replicas of this configuration whose storage is older than what others know of it, and why."""
        self.strangers: tuple[str, ...] = ()
        """Sites of this configuration that came under a replica's name with another storage."""
        self.replacing: dict[str, bytes] = {}
        """By name: storages of this configuration that take the place of lost ones, and wait for a number."""
        self.removed = False
        """A later set of replicas is known here, without this site."""
        self._replicas = replicas
        self._voting = voting
        self._queue = queue
        self._sessions = sessions
        self._writes = writes

    @property
    def record(self) -> Record:
        return self._record

    # -- answers

    @property
    def accepts(self) -> bool:
        """It is a replica, and accepts messages: it is not left out, and does not wait."""
        keeps = self.keeps and self._queue.own is not None and not self.removed
        return keeps and self._record.admitted and self.name not in self.strangers

    @property
    def left_out(self) -> str | None:
        """Why the log goes on without what this site holds, if it does: then it should not be read here either."""
        name, record = self.name, self._record
        if record.behind:
            rest = sum(heading.count for heading in self._queue.headings() if heading.author == self._queue.own)
            return (
                f"site {name}: its storage is older than what others know of it ({record.behind}): was its"
                f" directory put back? {rest} messages that it accepted have no place here: `reconvene log rescue`"
                " prints them, and `reconvene replace` makes the site a new replica"
            )
        if record.outcast:
            return (
                f"site {name} was given up as lost, and the log went on without it: replace it,"
                " or read at another site"
            )
        if name in self.strangers and record.replaces:
            return f"site {name} was replaced: it waits for a quorum of the log's other replicas to take it in"
        if name in self.strangers:
            return (
                f"site {name} has another storage than the log's replica {name}: replace it, or read at another site"
            )
        if self.keeps and self._queue.own is not None and not self.removed:
            return None
        return f"site {name} keeps no replica of the log"

    def waits(self, participants: tuple[str, ...]) -> str | None:
        """Why it accepts nothing yet, where it is a replica: its storage is empty, and belongs to no log so far."""
        if self.left_out is not None or self._record.admitted:
            return None
        if self.begin is None:
            return "the log here is empty: it waits for `reconvene log init`, or for a log's replicas to bring it in"
        absent = [name for name in self._record.replicas.names() if name not in participants]
        return f"the log here is empty: it begins when all of its replicas are here; absent: {', '.join(absent)}"

    # -- decisions

    def judge(self, states: Mapping[str, State], plan: Plan | None) -> bool:
        """All state messages of a configuration are here. Returns False where this one's state message was not true,
        so that all have to recover again."""
        self.behind = behind(states)
        if self.name in self.behind:
            self.refuse(self.behind[self.name])
        self.strangers = () if plan is None else plan.strangers
        self.replacing = {name: states[name].identity for name in self.strangers if states[name].replaces}
        self.removed = plan is not None and plan.replicas.number_of(self.name) is None
        if plan is not None and plan.replicas.epoch > self._record.replicas.epoch:
            # A set that was forced is not in the log. Changes that were made before it do not apply after it.
            self.force(plan.replicas)
        return not self._disown(state.identities for state in states.values())

    def refuse(self, why: str) -> None:
        """This storage is older than what others know of it: it takes no part from now on."""
        if not self._record.behind:
            self._record.behind = why
            self.keeps = False
            self._writes.touch()

    def force(self, replicas: ReplicaSet) -> None:
        """Takes a set of a later epoch. A replica that is removed by it stays out of every later configuration."""
        record = self._record
        history = self._queue.green > 0 or record.last_committed_primary > 0
        if forced_out(self.name, replicas, record.replicas) and history:
            record.outcast = True
            self.keeps = False
        self._replicas.replace(replicas)
        self._voting.force(replicas)
        record.forced = True

    def remember(self, number: int, state: State) -> None:
        """Notes the storage of another replica, and its starts. What it attempted since goes with the next write."""
        record = self._record
        if record.identities.get(number) != state.identity:
            record.identities[number] = state.identity
            self._writes.touch()
        seen = seen_of(state)
        known = record.seen.get(number)
        if seen is None or seen == known or state.identity == record.identity:
            return
        record.seen[number] = seen
        if known is None or (known.identity, known.incarnation) != (seen.identity, seen.incarnation):
            self._writes.touch()

    def number_replacements(self, replicas: ReplicaSet) -> None:
        """The set has changed: storages that wait for a number may have got it."""
        for name, identity in self.replacing.items():
            number = replicas.number_of(name)
            if number is not None:
                self._record.identities.setdefault(number, identity)

    def _disown(self, known: Iterable[Mapping[int, bytes]]) -> bool:
        """`known`: by replica number, the storage that others have seen under it. Where that is not this one, the
        replica lost its disk, and while it was alone took itself for the old one. Nothing that it did as such counts,
        but what it accepted waits for a number of its own. Returns whether it had logged any of that."""
        record, queue, mine = self._record, self._queue, self._record.identity
        seen = list(known)
        own = {number for number, identity in record.identities.items() if identity == mine}
        own |= {waiting.heading.author for waiting in queue.accepted}
        false = [number for number in sorted(own) if any(others.get(number, mine) != mine for others in seen)]
        logged = any(entry.heading.author in false for entry in queue.pending())
        for number in false:
            record.identities.pop(number, None)
            queue.disown(number)
            self._writes.touch()
        return logged

    def enter(self) -> bool:
        """Recovery is over: a new replica learns its number. Returns whether it is another one than before.

        What it accepted under an earlier number keeps that author, and is sent: others may have some of it. But where
        its storage is not the one that had that number, it only thought so; then it gets this one."""
        queue, record = self._queue, self._record
        number = record.replicas.number_of(self.name)
        if number is None or number == queue.own:
            return False
        authors = {waiting.heading.author for waiting in queue.accepted}
        if any(record.identities.get(author) != record.identity for author in authors):
            queue.renumber(number)
            self._writes.after(Renumbered(tuple(queue.accepted)))
        self._sessions.restart(queue.headings())
        queue.own = number
        return True
