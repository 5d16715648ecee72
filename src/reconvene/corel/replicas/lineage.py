"""Whether a replica's storage is older than what others know of it: a directory that was put back.

Each start of a site draws a random token, which is synced before the site says anything. A replica keeps the tokens
of its own starts, and the last one that it has seen of each other replica. A storage that was put back forgets
starts, attempts and messages that others know of; or it has made another start under a number that was used before.

Given: the state messages of a configuration. Promised: the same answer at every member, since all have the same
messages. What is compared was on the replica's stable storage before it was sent.
"""

from collections.abc import Mapping

from reconvene.corel.keeping.layout import Record, Seen
from reconvene.corel.messages import State

__all__ = ["MOST_BOOTS", "add_boot", "behind", "seen_of"]

MOST_BOOTS = 64
"""Starts of its own that a replica remembers: the last ones."""


def add_boot(record: Record, incarnation: int, token: int) -> None:
    """A start of this storage's. It has to be synced before the replica says anything."""
    boots = {**record.boots, incarnation: token}
    record.boots = {one: boots[one] for one in sorted(boots)[-MOST_BOOTS:]}


def seen_of(state: State) -> Seen | None:
    """What is to be remembered of a replica that sent this; None: it says nothing of its starts."""
    if not state.boots:
        return None
    incarnation = max(state.boots)
    return Seen(state.identity, incarnation, state.boots[incarnation], state.last_attempted_primary)


def behind(states: Mapping[str, State]) -> dict[str, str]:
    """By name: the replicas that are, and why, in a few words."""
    found = {}
    for name in sorted(states):
        if states[name].keeps and states[name].admitted:  # an empty storage claims nothing
            for other in sorted(states):
                why = None if other == name else _compare(name, states[name], states[other])
                if why is not None:
                    found[name] = f"{other} {why}"
                    break
    return found


def _compare(name: str, state: State, other: State) -> str | None:
    number = state.replicas.number_of(name)
    if number is None or other.identities.get(number, state.identity) != state.identity:
        return None  # no replica, or another storage: that is known in another way
    return _own(state, other, number) or _ordered(state, other) or _starts(state, other, number)


def _own(state: State, other: State, number: int) -> str | None:
    """It sends what it has accepted only once that is on its disk."""
    had = other.has.get(number, 0)
    return f"has its message {had}, and it only knows of {state.authored}" if had > state.authored else None


def _ordered(state: State, other: State) -> str | None:
    """What is green in a primary component was on the disk of every replica that knows of the component. (After a
    forced change two components may have one number.)"""
    primary = state.last_committed_primary
    together = primary and primary == other.last_committed_primary >= other.heard_primary
    if together and state.replicas.epoch == other.replicas.epoch and other.green > state.yellow:
        return f"has {other.green} messages in order from primary component {primary}, and it has only {state.yellow}"
    return None


def _starts(state: State, other: State, number: int) -> str | None:
    seen = other.seen.get(number)
    if seen is None or seen.identity != state.identity or not state.boots:
        return None
    last, attempted = max(state.boots), state.last_attempted_primary
    if seen.incarnation > last:
        return f"has seen its start {seen.incarnation}, and it only knows of {last}"
    if state.boots.get(seen.incarnation, seen.token) != seen.token:
        return f"has seen another start {seen.incarnation} of it"
    if seen.attempted > attempted:
        return f"has seen it attempt primary component {seen.attempted}, and it only knows of {attempted}"
    return None
