"""The log's replicas as dynamic voting sees them: what each has on stable storage, and what a configuration changes.

A configuration is one step: the sites that meet, how far each of them comes before the configuration ends, and
whether it crashes. Configurations that run at the same time have no site in common, so that one after the other they
do the same. What may be attempted, and what is kept, is decided by `reconvene.voting`, the code of the log itself.

`Oracle` judges what comes of it, and knows nothing of the rule: it looks for two primary components that one history
of the log should not have.

For tests a part of the design can be left out by its name (`LEFT_OUT`): the oracle must then find something.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise, product
from typing import NamedTuple

from reconvene.voting import Evidence, Kept, Own, Session, Voters, default_minimum, may_attempt, weigh

__all__ = [
    "ADDITIONS", "ATTEMPTED", "COMMITTED", "ESTABLISHED", "LEFT_OUT", "LOGGED", "NOTHING", "OPENED", "ORDERED",
    "RECOVERED", "Conflict", "Meeting", "Model", "Oracle", "Replica", "State",
]  # fmt: skip

NOTHING, RECOVERED, ATTEMPTED, COMMITTED, OPENED, ESTABLISHED, LOGGED, ORDERED = range(8)
"""How far a replica comes in a configuration, each on stable storage. OPENED: it opened the primary component, and
crashes before that is on stable storage. LOGGED, ORDERED: of a change of the replicas, proposed in the component."""

ADDITIONS = {
    "synced": "state messages tell only what is synced",
    "members-before": "the members of a session are those of pending sets too",
    "members-after": "the members of a session are those of the set at the green line too",
    "strangers": "only members of a session establish it",
    "yellow": "what a dead session made yellow stays yellow",
    "minimum": "the minimum changes through the log only",
    "numbers": "numbers of replicas count, not names",
    "weights": "minimum and escape count replicas, not weights",
}
"""What the rule needs besides its sentences; each can be left out."""
LEFT_OUT = {
    **ADDITIONS,
    "live": "sessions that may have been established are ignored",
    "committed-is-dead": "a session that a member only committed to counts as dead",
    "half": "half of a session is enough without its lowest number",
    "inclusive": "a set of n − minimum escapes",
    "pending": "sets that pending changes would make are not asked",
    "learned": "what is established is not written with the attempt",
}

Item = tuple[object, ...]
"""Of a log: ("s", number, members) for what a session orders; ("+", version, replica), ("-", version, replica)."""


class Replica(NamedTuple):
    kept: Kept
    told: Session | None
    """Established in memory, and told before it is on stable storage: with "synced" left out."""
    attempted: int
    committed: int
    log: tuple[Item, ...]
    """Green, then yellow."""
    green: int
    red: tuple[Item, ...]
    lost: bool
    """Its disk was lost: it is no replica any more."""


State = tuple[Replica, ...]
"""By number."""


class Meeting(NamedTuple):
    """What the replicas of a configuration come to, before anyone writes anything."""

    participants: tuple[int, ...]
    evidence: Evidence
    allowed: bool
    session: Session
    log: tuple[Item, ...]
    """Green and yellow for everyone after recovery."""
    green: int
    red: tuple[Item, ...]
    committed: int


class Conflict(Exception):
    """What the oracle found."""


class Oracle:
    """Knows what was final, and which primary components there were. Raises Conflict."""

    __slots__ = ("established", "final")

    def __init__(
        self, final: tuple[Item, ...] = (), established: tuple[tuple[int, frozenset[int]], ...] = ()
    ) -> None:
        self.final = final
        """The longest log that was final anywhere."""
        self.established = established
        """Number and members of each primary component, by number."""

    def orders(self, log: tuple[Item, ...]) -> "Oracle":
        shared = min(len(log), len(self.final))
        if log[:shared] != self.final[:shared]:
            raise Conflict(f"two orders: {log} and {self.final}")
        return Oracle(max(log, self.final, key=len), self.established)

    def establishes(self, number: int, members: frozenset[int]) -> "Oracle":
        if (number, members) in self.established:
            return self
        for other, them in self.established:
            if other == number:
                raise Conflict(f"two primary components {number}: {sorted(members)} and {sorted(them)}")
        chain = tuple(sorted((*self.established, (number, members)), key=lambda one: one[0]))
        for (one, them), (other, others) in pairwise(chain):
            if not them & others:
                raise Conflict(f"{one} and {other} have no member in common: {sorted(them)}, {sorted(others)}")
        return Oracle(self.final, chain)

    def key(self) -> tuple[object, ...]:
        return self.final, self.established


class Model:
    def __init__(
        self,
        size: int,
        minimum: int | None = None,
        weights: Sequence[int] | None = None,
        left_out: Collection[str] = (),
        first: Collection[int] | None = None,
    ) -> None:
        """`size`: how many sites there are; `first`: which of them are the log's first replicas, all by default.
        `minimum`: None for the default of each set."""
        self.size = size
        self.first = frozenset(range(size) if first is None else first)
        self._minimum = minimum
        self._weights = tuple(weights or (1,) * size)
        self._without = frozenset(left_out)
        assert self._without <= LEFT_OUT.keys(), left_out

    def start(self) -> tuple[State, Oracle]:
        kept = Kept(Session(0, 0, tuple((number, self._weights[number]) for number in sorted(self.first))))
        empty = Replica(kept, None, 0, 0, (), 0, (), lost=False)
        return (empty,) * self.size, Oracle(established=((0, self.first),))

    # -- sets of replicas

    def _sets(self, log: Sequence[Item], green: int, red: Sequence[Item] = ()) -> list[frozenset[int]]:
        """The set at the green line, and those that pending changes would make."""
        numbers, version = self.first, 0
        sets = [numbers]
        for place, item in enumerate((*log, *red)):
            kind, base, replica = item
            if kind in ("+", "-") and base == version and isinstance(replica, int):
                version += 1
                numbers = numbers | {replica} if kind == "+" else numbers - {replica}
                sets = [numbers] if place < green else [*sets, numbers]
        return sets

    def _voters(self, numbers: frozenset[int], asked: int) -> Voters:
        """`asked`: the lowest present replica, whose own file counts if the minimum is not the log's."""
        minimum = default_minimum(len(numbers)) if self._minimum is None else self._minimum
        if "minimum" in self._without:
            minimum = 1 + asked % 2
        return Voters(numbers, minimum)

    def _may(self, present: Collection[int], sets: Sequence[frozenset[int]], evidence: Evidence) -> bool:
        return all(self._may_by(present, numbers, evidence) for numbers in sets)

    def _may_by(self, present: Collection[int], numbers: frozenset[int], evidence: Evidence) -> bool:
        voters = self._voters(numbers, min(present))
        if "weights" in self._without:
            here = sum(self._weights[number] for number in numbers.intersection(present))
            sessions = (evidence.known, *evidence.live)
            enough = here >= voters.minimum and all(session.sub_quorum(present) for session in sessions)
            return enough or may_attempt(present, voters, evidence)
        if "inclusive" in self._without:
            here = len(numbers.intersection(present))
            if here >= max(voters.minimum, len(numbers) - voters.minimum) and 2 * here > len(numbers):
                return True
        if "half" in self._without and not voters.lacks(present):
            sessions = (evidence.known, *evidence.live)
            return all(2 * len(set(s.numbers()).intersection(present)) >= len(s.members) for s in sessions)
        return may_attempt(present, voters, evidence)

    # -- a configuration

    def meet(self, state: State, present: Collection[int], following: Collection[int] = ()) -> Meeting | None:
        """What these replicas come to. `following`: those of them that only follow. None: none of them takes part."""
        here = sorted(number for number in present if "numbers" in self._without or not state[number].lost)
        if not here:
            return None
        newest = max(here, key=lambda number: state[number].green)
        at_green = self._sets(state[newest].log, state[newest].green)[0]
        taking = [number for number in here if number in at_green and number not in following]
        if not taking:
            return None
        log, green, red, committed = self._recover(state, taking)
        sets = self._sets(log, green, red)
        union = [number for number in here if number not in following and any(number in each for each in sets)]
        if union != taking:
            taking = union
            log, green, red, committed = self._recover(state, taking)
            sets = self._sets(log, green, red)
        evidence = self._evidence(state, taking, [number for number in here if number in following])
        if "yellow" in self._without:
            dead = self._dead_items(state, taking, evidence, log[green:])
            red = tuple(sorted((*red, *dead), key=repr))
            log = tuple(item for item in log if item not in dead)
            sets = self._sets(log, green, red)
        asked = sets[:1] if "pending" in self._without else sets
        members = taking
        if "members-before" in self._without:
            members = [number for number in taking if number in sets[0]]
        elif "members-after" in self._without:
            members = [number for number in taking if number in sets[-1]]
        number = max(max(state[one].attempted for one in taking), evidence.known.number) + 1
        session = Session(0, number, tuple((one, self._weights[one]) for one in sorted(members)))
        allowed = bool(members) and self._may(taking, asked, evidence)
        return Meeting(tuple(sorted(members)), evidence, allowed, session, log, green, red, committed)

    def _recover(self, state: State, taking: Sequence[int]) -> tuple[tuple[Item, ...], int, tuple[Item, ...], int]:
        """The log that all of them have after recovery, its green line, what is red, and the last commit."""
        committed = max(state[number].committed for number in taking)
        representatives = [number for number in taking if state[number].committed == committed]
        green = max(state[number].green for number in taking)
        longest = max((state[number].log[: state[number].green] for number in taking), key=len)
        shared = min((state[number].log for number in representatives), key=len)
        log = shared if len(shared) > green else longest
        held = {item for number in taking for item in (*state[number].log, *state[number].red)}
        return log, green, tuple(sorted(held.difference(log), key=repr)), committed

    def _evidence(self, state: State, taking: Sequence[int], following: Sequence[int]) -> Evidence:
        told = {}
        for number in (*taking, *following):
            one = state[number]
            told[number] = one.kept if one.told is None else one.kept.establishes(one.told)
        if "committed-is-dead" in self._without:
            told = {
                number: Kept(kept.established, tuple(Own(own.session, committed=False) for own in kept.later))
                for number, kept in told.items()
            }
        evidence = weigh(told)
        return Evidence(evidence.known, ()) if "live" in self._without else evidence

    def _dead_items(
        self, state: State, taking: Sequence[int], evidence: Evidence, yellow: Sequence[Item]
    ) -> frozenset[Item]:
        found = set()
        for number in taking:
            for own in state[number].kept.later:
                if own.session.age > evidence.known.age and own.session not in evidence.live:
                    item = ("s", own.session.number, own.session.numbers())
                    if item in yellow:
                        found.add(item)
        return frozenset(found)

    def levels(self, meeting: Meeting, change: Item | None = None) -> Iterator[tuple[int, ...]]:
        """Every way in which the participants can be interrupted."""
        size = len(meeting.participants)
        if not meeting.allowed:
            yield from product((NOTHING, RECOVERED), repeat=size)
            return
        yield from product((NOTHING, RECOVERED, ATTEMPTED), repeat=size)
        yield from (each for each in product((ATTEMPTED, COMMITTED), repeat=size) if COMMITTED in each)
        last = [COMMITTED, ESTABLISHED]
        if "synced" in self._without:
            last.append(OPENED)
        if change is not None:
            last.append(LOGGED)
        yield from (each for each in product(last, repeat=size) if set(each) != {COMMITTED})
        if change is not None:
            done = product((LOGGED, ORDERED), repeat=size)
            yield from (each for each in done if ORDERED in each)

    def change(self, meeting: Meeting, replica: int) -> Item:
        """Removes a replica, or adds one that is none."""
        sets = self._sets((*meeting.log, *meeting.red), len(meeting.log) + len(meeting.red))
        version = sum(1 for item in (*meeting.log, *meeting.red) if item[0] != "s")
        return ("-" if replica in sets[-1] else "+", version, replica)

    def may_order(self, meeting: Meeting, change: Item) -> bool:
        """Whether a change may be proposed and made final in the primary component that this meeting establishes."""
        log = (*meeting.log, *meeting.red, _item(meeting.session), change)
        sets = self._sets(log, len(log) - 1)
        if len(sets) < 2 or not sets[-1]:
            return False
        stay = sets[-1].intersection(meeting.participants)
        evidence = Evidence(meeting.session, ())
        if "pending" in self._without:
            return True
        return self._may(meeting.participants, sets, evidence) and meeting.session.sub_quorum(stay)

    def end(
        self,
        state: State,
        oracle: Oracle,
        meeting: Meeting,
        levels: Sequence[int],
        present: Collection[int] = (),
        change: Item | None = None,
    ) -> tuple[State, Oracle]:
        """The configuration ends with each participant at its level. Raises Conflict."""
        session, after = meeting.session, list(state)
        whole = (*meeting.log, *meeting.red, _item(session))
        for number, level in zip(meeting.participants, levels, strict=True):
            after[number] = self._come_to(state[number], meeting, level, whole, change)
            if level >= ESTABLISHED:
                oracle = oracle.establishes(session.number, frozenset(session.numbers())).orders(whole)
            if level == ORDERED and change is not None:
                oracle = oracle.orders((*whole, change))
        if "strangers" in self._without and min(levels) >= COMMITTED and max(levels) >= COMMITTED:
            for number in present:
                if number not in meeting.participants:
                    after[number] = after[number]._replace(kept=after[number].kept.learned(session))
        return tuple(after), oracle

    def _come_to(
        self, one: Replica, meeting: Meeting, level: int, whole: tuple[Item, ...], change: Item | None
    ) -> Replica:
        one = one._replace(told=None)  # where it was told and not synced, it crashes
        if level == NOTHING:
            return one
        kept, session = one.kept, meeting.session
        if one.committed < meeting.committed:
            kept = kept.learned(meeting.evidence.known)
        green = max(one.green, meeting.green)
        one = one._replace(kept=kept, committed=meeting.committed, log=meeting.log, green=green, red=meeting.red)
        if level == RECOVERED:
            return one
        kept = one.kept.attempted(session, meeting.evidence)
        if "learned" in self._without:
            kept = Kept(one.kept.established, kept.later)
        one = one._replace(kept=kept, attempted=session.number)
        if level == ATTEMPTED:
            return one
        one = one._replace(kept=kept.commits(session), committed=session.number, log=whole, red=())
        if level == COMMITTED:
            return one
        if level == OPENED:
            return one._replace(told=session if "synced" in self._without else None)
        one = one._replace(kept=one.kept.establishes(session), green=len(whole))
        if level >= LOGGED and change is not None:
            one = one._replace(log=(*whole, change), green=len(whole) + (level == ORDERED))
        return one

    def lose(self, state: State, number: int) -> State:
        """A replica loses its disk. Its site comes back empty."""
        fresh = self.start()[0][number]
        return tuple(fresh._replace(lost=True) if place == number else one for place, one in enumerate(state))


def _item(session: Session) -> Item:
    return ("s", session.number, session.numbers())
