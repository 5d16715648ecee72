"""Whether a component may order: the one object that everything asks, whatever kind of quorum the log has.

Given: what the replicas of a configuration keep of sessions (`reconvene.voting`), from their state messages.
Promised: the same answer at every participant once recovery is over. What a replica keeps changes with each phase of
establishing, and is written before the others are told: under every kind, so that a log can change its kind.

A component has to be a quorum of the set of replicas at the green line, and of each that a pending change would make.
Of a set that votes dynamically it has to be what `voting.may_attempt` asks for.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from reconvene.corel.keeping.layout import Record
from reconvene.corel.messages import State
from reconvene.corel.replicas.current import CurrentReplicas
from reconvene.corel.replicas.sets import ReplicaSet
from reconvene.voting import MOST_LATER, Evidence, Kept, Session, first_kept, may_attempt, weigh

__all__ = ["Told", "Voting", "kept_of", "tell"]


class Told(Struct, frozen=True):
    """What follows from the state messages of a configuration, for dynamic voting."""

    kept: dict[int, Kept]
    """By replica number: of those whose storage is whole."""
    others: tuple[Kept, ...]
    """Of those whose storage was begun anew under their number: no witness of what their site did before."""
    numbers: dict[str, int]
    """By name: of those present."""
    beyond: bool
    """Somebody has green messages of a primary component that nobody here knows. Then nothing is to be ordered here:
    a component that may order always has a member that knows it."""
    older: tuple[str, ...]
    """Those that run a program which knows no sessions."""

    def may_order(self, replicas: ReplicaSet, names: Collection[str]) -> bool:
        """Whether these, all of them present, may order as far as this set is concerned."""
        voters = replicas.voters()
        if voters is None:
            return replicas.quorum_holds(names)
        numbers = {self.numbers[name] for name in names if name in self.numbers}
        full = any(len(self.kept[number].later) >= MOST_LATER for number in numbers if number in self.kept)
        if self.beyond or full or not numbers:
            return False
        return may_attempt(numbers, voters, self.evidence())

    def evidence(self) -> Evidence:
        """What all know together: what anyone here knows of sessions counts, also of those that only follow."""
        return weigh(self.kept, self.others)


def tell(names: Iterable[str], replicas: ReplicaSet, states: Mapping[str, State]) -> Told:
    """`names`: the replicas of this set that are here."""
    kept, others, numbers, older = {}, [], {}, []
    here = [name for name in names if replicas.number_of(name) is not None]
    for name in here:
        number, state = replicas.number_of(name), states[name]
        assert number is not None
        numbers[name] = number
        told = state.kept
        if told is None:
            older.append(name)
            told = first_kept(state.replicas.weights(), state.replicas.epoch)
        if state.admitted:
            kept[number] = told
        else:
            others.append(told)
    known = max((states[name].last_committed_primary for name in here), default=0)
    beyond = any(states[name].heard_primary > known for name in here)
    return Told(kept, tuple(others), numbers, beyond, tuple(older))


def kept_of(record: Record) -> Kept:
    """Of a storage that an older program made: all replicas are the established session."""
    return record.kept or first_kept(record.replicas.weights(), record.replicas.epoch)


class Voting:
    def __init__(self, replicas: CurrentReplicas, record: Record) -> None:
        self._replicas = replicas
        self._record = record
        self.told: Told | None = None
        """Of this configuration, once all state messages are here."""
        self.session: Session | None = None
        """What this configuration attempts, or is."""

    def begin(self, told: Told | None) -> None:
        """The state messages of a configuration are here. None: a configuration begins."""
        self.told = told
        self.session = None

    # -- questions

    @property
    def dynamic(self) -> bool:
        """Whether a set of replicas votes dynamically, the present one or a pending one."""
        return any(replicas.voters() is not None for replicas in self._replicas.pending_sets())

    def may_order(self, voters: Sequence[str]) -> bool:
        """Recovery is over: these are a quorum of the present set, and of each that pending changes would make."""
        told = self.told
        return all(
            replicas.quorum_holds(voters) if told is None else told.may_order(replicas, voters)
            for replicas in self._replicas.pending_sets()
        )

    def may_change(self, participants: Sequence[str], *more: ReplicaSet) -> bool:
        """In a primary component: whether it may order the pending changes of the replicas, and this one besides."""
        return all(self._may_become(replicas, participants) for replicas in (*self._replicas.pending_sets(), *more))

    def _may_become(self, replicas: ReplicaSet, participants: Sequence[str]) -> bool:
        voters, session = replicas.voters(), self.session
        if voters is None or session is None:
            # A site that was removed in this configuration and is added again is another replica by then, and takes
            # no part before its change is green.
            numbers = {} if self.told is None else self.told.numbers
            stays = [name for name in participants if replicas.number_of(name) == numbers.get(name)]
            return replicas.quorum_holds(stays)
        here = session.numbers()
        # Those that stay have to be able to go on by themselves.
        stay = voters.numbers.intersection(here)
        return may_attempt(here, voters, Evidence(session, ())) and session.sub_quorum(stay)

    def may_begin(self, names: Collection[str]) -> bool:
        """Whether these may begin a new log."""
        replicas = self._replicas.set
        voters = replicas.voters()
        if voters is None:
            return replicas.quorum_holds(names)
        numbers = [number for name in names if (number := replicas.number_of(name)) is not None]
        return may_attempt(numbers, voters, Evidence(first_kept(replicas.weights()).established, ()))

    def would_order(self, lost: Collection[str]) -> bool:
        """Whether all replicas but these could order if they met now, as far as it is known here."""
        return all(
            self._would(replicas, [name for name in replicas.names() if name not in lost], (self.evidence(),))
            for replicas in self._replicas.pending_sets()
        )

    def without(self, here: Collection[str]) -> bool:
        """Whether replicas could have ordered anything while none of these took part. Any session that may have been
        established may be the one that they went on from."""
        known = self.evidence()
        starts = tuple(Evidence(session, ()) for session in (known.known, *known.live))
        return any(
            self._would(replicas, [name for name in replicas.names() if name not in here], starts)
            for replicas in self._replicas.pending_sets()
        )

    def _would(self, replicas: ReplicaSet, names: Collection[str], known: Iterable[Evidence]) -> bool:
        voters = replicas.voters()
        if voters is None:
            return replicas.quorum_holds(names)
        numbers = [number for name in names if (number := replicas.number_of(name)) is not None]
        return any(may_attempt(numbers, voters, evidence) for evidence in known)

    def sets(self) -> list[ReplicaSet]:
        """The set at the green line, and those that pending changes would make of it."""
        return self._replicas.pending_sets()

    def evidence(self) -> Evidence:
        """What is known here of sessions: established now, or as the replicas of this configuration reported."""
        kept = kept_of(self._record)
        if self.session is not None and kept.established == self.session:
            return Evidence(self.session, ())
        if self.told is not None:
            return self.told.evidence()
        return Evidence(kept.established, tuple(own.session for own in kept.later))

    # -- what is kept; the caller writes the record

    def learn(self) -> None:
        """Recovery, step 6: what is established, as the others know it."""
        if self.told is not None:
            self._record.kept = kept_of(self._record).learned(self.told.evidence().known)

    def attempt(self, number: int, participants: Iterable[str]) -> None:
        """The members are all who take part. They are replicas of the set at the green line; one that a pending
        change adds has no storage of that number yet."""
        assert self.told is not None, "recovery has the state messages"
        weights: dict[int, int] = {}
        for replicas in self._replicas.pending_sets():
            weights |= replicas.weights()
        members = sorted(self.told.numbers[name] for name in participants)
        epoch = self._replicas.set.epoch
        self.session = Session(epoch, number, tuple((one, weights.get(one, 1)) for one in members))
        self._record.kept = kept_of(self._record).attempted(self.session, self.told.evidence())

    def commit(self) -> None:
        if self.session is not None:
            self._record.kept = kept_of(self._record).commits(self.session)

    def establish(self) -> None:
        if self.session is not None:
            self._record.kept = kept_of(self._record).establishes(self.session)

    def force(self, replicas: ReplicaSet) -> None:
        """A set of a later epoch, by force: it is the established session, and all from before is gone. A replica
        that comes to it later takes over what the others have established since."""
        kept = first_kept(replicas.weights(), replicas.epoch)
        if self.told is not None and self.told.evidence().known.epoch == replicas.epoch:
            kept = kept.learned(self.told.evidence().known)
        self._record.kept = kept
