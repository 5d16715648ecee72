"""Recovery, steps 3 and 4, as a pure function: from the state messages of a configuration to what is to be done.

All members have the same state messages, so all make the same plan.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from reconvene.corel.batch import BatchId, Timestamp
from reconvene.corel.messages import State
from reconvene.corel.replicas.lineage import behind
from reconvene.corel.replicas.sets import ReplicaSet, encode_replicas
from reconvene.corel.replicas.voting import Told, tell

__all__ = ["FAR", "Plan", "forced_out", "make_plan"]

FAR = 100_000
"""A replica that is more messages than this behind the others' green line follows, if they can order without it:
recovery would delay everyone. The same at every site."""


class Plan(Struct, frozen=True):
    replicas: ReplicaSet
    """The newest set that a member knows."""
    participants: tuple[str, ...]
    """The members that take part: those that are replicas of this set, by number."""
    followers: tuple[str, ...]
    """Replicas here that are too far behind to take part …"""
    feeders: dict[str, str]
    """… and, for each, the participant that sends it what is green."""
    voters: tuple[str, ...]
    """Those of the participants that count for a quorum. An empty storage does not count before it has all that a
    quorum of others knows: the storage that its site had before may have promised something."""
    strangers: tuple[str, ...]
    """Sites that come under a replica's name with another storage."""
    max_committed: int
    representatives: tuple[str, ...]
    """Those of the participants that know of that primary component."""
    representative: str | None
    """The one that sends what it has green and yellow; None where every participant is a representative."""
    green: int
    """Everyone's green line, at least."""
    yellow: int
    """The yellow line: the lowest of the representatives'."""
    start: int
    """What is below is green for everyone."""
    sends_base: bool
    """A participant needs what the representative has truncated, or is new."""
    next_primary: int
    stable: dict[int, int]
    """By author: the counter up to which everyone has its messages."""
    union: dict[int, int]
    """By author: the counter up to which at least one participant has its messages."""
    senders: dict[int, str]
    """By author: the participant that sends those of its red messages again that not everyone has."""
    marked: dict[BatchId, Timestamp]
    """Marked red batches, with the lowest timestamp that was listed."""
    told: Told
    """What the replicas that are here keep of sessions, for dynamic voting."""


def make_plan(states: Mapping[str, State]) -> Plan | None:
    """None where no member keeps a replica."""
    late = behind(states)
    keepers = {name: state for name, state in states.items() if state.keeps and name not in late}
    if not keepers:
        return None
    newest = max(
        keepers.values(),
        key=lambda state: (state.replicas.age, state.last_committed_primary, encode_replicas(state.replicas)),
    ).replicas
    strangers = tuple(sorted(name for name in keepers if _strange(name, newest, keepers)))
    participants = [name for name in keepers if newest.number_of(name) is not None and name not in strangers]
    if not participants:
        return None
    number = {replica.name: replica.number for replica in newest.replicas}
    participants.sort(key=number.__getitem__)
    participants = _compatible(participants, newest, keepers)
    followers = _followers(participants, newest, keepers)
    participants = [name for name in participants if name not in followers]
    feeders = {
        name: min(participants, key=lambda one: (max(keepers[one].base, keepers[name].green), number[one]))
        for name in followers
    }
    here = [keepers[name] for name in participants]
    max_committed = max(state.last_committed_primary for state in here)
    representatives = [name for name in participants if keepers[name].last_committed_primary == max_committed]
    green = max(state.green for state in here)
    start = min(state.green for state in here)
    representative = None
    if len(representatives) < len(participants):
        # Preferably one that still has all that the others need.
        representative = min(representatives, key=lambda name: (max(keepers[name].base, start), number[name]))
    stable, union, senders = _sets(participants, keepers)
    marked: dict[BatchId, Timestamp] = {}
    for state in here:
        for stamped in state.marked:
            marked[stamped.id] = min(stamped.timestamp, marked.get(stamped.id, stamped.timestamp))
    return Plan(
        replicas=newest,
        participants=tuple(participants),
        voters=tuple(_voters(participants, newest, keepers)),
        followers=followers,
        feeders=feeders,
        strangers=strangers,
        max_committed=max_committed,
        representatives=tuple(representatives),
        representative=representative,
        green=green,
        yellow=max(green, min(keepers[name].yellow for name in representatives)),
        start=start,
        sends_base=representative is not None and start <= keepers[representative].base,
        next_primary=max(state.last_attempted_primary for state in here) + 1,
        stable=stable,
        union=union,
        senders=senders,
        marked=marked,
        told=tell((*participants, *followers), newest, keepers),
    )


def _compatible(present: list[str], newest: ReplicaSet, states: Mapping[str, State]) -> list[str]:
    """The replicas whose green lines can be compared with the others' yellow zones: all of them, as a rule.

    A replica that took green messages in a recovery that broke off before step 6, or as a follower, may have some
    from a primary component that it does not know of. If no member here knows of that component, these may be at
    positions where others have different ones yellow, from before that component. A quorum has a member that knows of
    every component that ordered anything. In any other case nothing is to be ordered here, and the replica with the
    highest green line continues by itself.
    """
    known = max(states[name].last_committed_primary for name in present)
    if max(states[name].heard_primary for name in present) <= known:
        return present
    if tell(present, newest, states).may_order(newest, _admitted(present, states)):
        return present
    return [max(present, key=lambda name: states[name].green)]


def _admitted(names: Iterable[str], states: Mapping[str, State]) -> list[str]:
    return [name for name in names if states[name].admitted]


def _voters(participants: list[str], newest: ReplicaSet, states: Mapping[str, State]) -> list[str]:
    """Those that are admitted; everyone where a new log begins."""
    return participants if _begins(participants, newest, states) else _admitted(participants, states)


def _begins(participants: list[str], newest: ReplicaSet, states: Mapping[str, State]) -> bool:
    """Nothing was ever ordered, every replica that is here may begin a log, and every other one was named as absent.

    A replica that is absent may hold a log. So a quorum is not enough: of three sites, two that lost their disks
    are a quorum, and are as empty as new ones.
    """
    here = [states[name] for name in participants]
    first = encode_replicas(newest)
    if any(state.yellow or state.last_committed_primary or state.heard_primary for state in here):
        return False
    if any(encode_replicas(state.replicas) != first for state in here):
        return False
    if any(not state.admitted and state.begin is None for state in here):
        return False
    absent = set(newest.names()).difference(participants)
    return all(absent.issubset(state.begin) for state in here if state.begin is not None)


def _followers(present: list[str], newest: ReplicaSet, states: Mapping[str, State]) -> tuple[str, ...]:
    green = max(states[name].green for name in present)
    far = tuple(name for name in present if green - states[name].green > FAR)
    near = [name for name in present if name not in far]
    return far if far and tell(present, newest, states).may_order(newest, _admitted(near, states)) else ()


def _strange(name: str, newest: ReplicaSet, keepers: Mapping[str, State]) -> bool:
    """Another member has seen another storage under its number, or messages that this one has not written; or it was
    removed by force, and holds messages from before."""
    number = newest.number_of(name)
    if number is None:
        return False
    if forced_out(name, newest, keepers[name].replicas) and (
        keepers[name].green > 0 or keepers[name].last_committed_primary > 0
    ):
        return True
    own = keepers[name]
    if any(state.identities.get(number, own.identity) != own.identity for state in keepers.values()):
        return True
    if own.admitted:
        return False
    if own.replaces:
        # Even if no member has seen the lost one: its number is not to be used again.
        return all(state.identities.get(number) != own.identity for state in keepers.values())
    return any(state.has.get(number, 0) > own.authored for state in keepers.values())


def forced_out(name: str, newest: ReplicaSet, before: ReplicaSet) -> bool:
    """Whether a replica of an earlier epoch is none of the forced set, or another one under its name."""
    number = before.number_of(name)
    return before.epoch < newest.epoch and number is not None and number != newest.number_of(name)


def _sets(
    participants: list[str], states: Mapping[str, State]
) -> tuple[dict[int, int], dict[int, int], dict[int, str]]:
    authors = sorted({author for name in participants for author in states[name].has})
    stable: dict[int, int] = {}
    union: dict[int, int] = {}
    senders: dict[int, str] = {}
    for author in authors:
        had = [states[name].has.get(author, 0) for name in participants]
        stable[author], union[author] = min(had), max(had)
        senders[author] = participants[had.index(union[author])]
    return stable, union, senders
