"""Dynamic voting: which component may be the next primary one, where that depends on the one before it.

A *session* is an attempt at a primary component. Each of its members attempts it, then commits to it, then
establishes it, and keeps on stable storage how far it has come. A later component may go on if it holds a
*sub-quorum* of the last session that was established, and of each later one that may have been.

Given: what the replicas that are present keep, each as its stable storage has it. Promised: of two sessions that
could be established after the same one, both have a member in common. Replicas go by their numbers in the log: a site
that lost its disk is another replica. Why this is safe: docs/quorums.md.
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise

from msgspec import Struct

from reconvene.errors import Malformed
from reconvene.ids import MAX_SITES

__all__ = [
    "MOST_LATER",
    "Evidence",
    "Kept",
    "Own",
    "Session",
    "Voters",
    "check_kept",
    "default_minimum",
    "first_kept",
    "may_attempt",
    "weigh",
]

MOST_LATER = 64
"""Sessions that a replica keeps beside the established one. A replica with as many attempts none: it waits for a
component that settles some of them."""


class Session(Struct, array_like=True, frozen=True):
    """An attempt at a primary component."""

    epoch: int
    """Of the set of replicas; one more at each forced change."""
    number: int
    """Of the primary component."""
    members: tuple[tuple[int, int], ...]
    """(replica number, weight), by number: of everyone who took part. The weights are those of the attempt, so that
    everyone who counts this session later counts it alike."""

    @property
    def age(self) -> tuple[int, int]:
        return self.epoch, self.number

    def numbers(self) -> tuple[int, ...]:
        return tuple(number for number, _ in self.members)

    def sub_quorum(self, present: Collection[int]) -> bool:
        """Whether these hold more than half of it, or half of it with its lowest number."""
        total = here = 0
        for number, weight in self.members:
            total += weight
            if number in present:
                here += weight
        return 2 * here > total or (2 * here == total > 0 and self.members[0][0] in present)


class Own(Struct, array_like=True, frozen=True):
    """A session that the replica attempted, and does not know to be established."""

    session: Session
    committed: bool


class Kept(Struct, array_like=True, frozen=True):
    """What a replica keeps of sessions, and tells the others. Each of these returns what is to be kept next."""

    established: Session
    """The last one that it knows to be established."""
    later: tuple[Own, ...] = ()
    """Those that it attempted after that one, by age."""

    def committed_to(self, session: Session) -> bool:
        return any(own.committed and own.session == session for own in self.later)

    def learned(self, known: Session) -> "Kept":
        """Another replica knows that this one is established."""
        if known.age <= self.established.age:
            return self
        return Kept(known, tuple(own for own in self.later if own.session.age > known.age))

    def attempted(self, session: Session, evidence: "Evidence") -> "Kept":
        """It takes part in this attempt. To be written before anyone is told."""
        kept = self.learned(evidence.known)
        alive = tuple(own for own in kept.later if own.session in evidence.live)
        return Kept(kept.established, (*alive, Own(session, committed=False)))

    def commits(self, session: Session) -> "Kept":
        """All members have attempted it. To be written before anyone is told."""
        return Kept(
            self.established,
            tuple(Own(session, committed=True) if own.session == session else own for own in self.later),
        )

    def establishes(self, session: Session) -> "Kept":
        """All members have committed to it. To be written before anything becomes final in it."""
        return self.learned(session)


def first_kept(weights: Mapping[int, int], epoch: int = 0) -> Kept:
    """Of a set of replicas that begins, at the log's start or by force: all of them are session 0. The weights are by
    replica number."""
    return Kept(Session(epoch, 0, tuple(sorted(weights.items()))))


def check_kept(kept: Kept) -> None:
    """Of what came from outside. Raises Malformed where no replica keeps that."""
    sessions = [kept.established, *(own.session for own in kept.later)]
    if len(sessions) > MOST_LATER + 1:
        raise Malformed(f"sessions: expected at most {MOST_LATER} later ones, not {len(kept.later)}")
    if any(one.age >= other.age for one, other in pairwise(sessions)):
        raise Malformed("sessions: expected each to be later than the one before it")
    for session in sessions:
        numbers = session.numbers()
        if not 1 <= len(numbers) <= MAX_SITES or any(one >= other for one, other in pairwise((-1, *numbers))):
            raise Malformed(f"session {session.number}: expected 1 to {MAX_SITES} members by number")
        if session.epoch < 0 or session.number < 0 or any(weight < 1 for _, weight in session.members):
            raise Malformed(f"session {session.number}: expected weights of at least 1")


class Evidence(Struct, frozen=True):
    """What follows from all that the replicas present keep."""

    known: Session
    """The last session that any of them knows to be established."""
    live: tuple[Session, ...]
    """Later ones that may have been established, by age."""


def weigh(told: Mapping[int, Kept], others: Iterable[Kept] = ()) -> Evidence:
    """`told`: by replica number, of those whose storage is whole. `others`: of those present whose storage was begun
    anew under their number. Their word counts for what is established, but not for what was never committed."""
    known = max((kept.established for kept in told.values()), key=_rank, default=None)
    for kept in others:
        if known is None or kept.established.age > known.age:
            known = kept.established
    assert known is not None, "somebody is present"
    later = {own.session for kept in told.values() for own in kept.later if own.session.age > known.age}
    live = [session for session in later if not _dead(session, told)]
    return Evidence(known, tuple(sorted(live, key=_rank)))


def _rank(session: Session) -> tuple[tuple[int, int], tuple[tuple[int, int], ...]]:
    return session.age, session.members


def _dead(session: Session, told: Mapping[int, Kept]) -> bool:
    """Whether nobody has established it, and nobody will. A member that did not commit proves that: the others never
    had all the commits. All members together prove it too, as the session is later than what any of them knows to be
    established."""
    present = [number for number in session.numbers() if number in told]
    if any(not told[number].committed_to(session) for number in present):
        return True
    return len(present) == len(session.members)


class Voters(Struct, frozen=True):
    """A set of replicas that votes dynamically."""

    numbers: frozenset[int]
    minimum: int
    """No component with fewer replicas orders."""

    def lacks(self, present: Collection[int]) -> int:
        """How many replicas are missing to the minimum."""
        return max(0, self.minimum - len(self.numbers.intersection(present)))

    def escapes(self, present: Collection[int]) -> bool:
        """Whether they are so many that they meet every session there can have been, whatever became of it."""
        here, size = len(self.numbers.intersection(present)), len(self.numbers)
        return here > size - self.minimum and 2 * here > size


def may_attempt(present: Collection[int], voters: Voters, evidence: Evidence) -> bool:
    """Whether a component with these replicas may attempt the next session, as far as this set is concerned."""
    if voters.lacks(present):
        return False
    return voters.escapes(present) or all(session.sub_quorum(present) for session in (evidence.known, *evidence.live))


def default_minimum(size: int) -> int:
    """Of a set with so many replicas."""
    return 1 if size <= 2 else 2
