"""The three phases of a primary component (section 5.5.1), and that nothing becomes green but in such a component."""

from collections.abc import Iterator

from reconvene.errors import Malformed
from reconvene.quorum import Quorum
from reconvene.verify.corel.made import MadeGreen
from reconvene.verify.history import History
from reconvene.verify.log_history import ATTEMPT, COMMIT, ESTABLISH, GREEN, Component, LogHistory, Replica
from reconvene.verify.quorums import quorum_of
from reconvene.verify.report import Tally

__all__ = ["gone_through", "wrong_phases"]

_BEFORE = {COMMIT: ATTEMPT, ESTABLISH: COMMIT}
_NAMES = {ATTEMPT: "attempt", COMMIT: "commit", ESTABLISH: "establish"}


def gone_through(h: History, made: MadeGreen, tally: Tally) -> None:
    """Case: an attempt, commit or establish event; a position that a green event has. Violation: of an event, see
    `wrong_phases`; of a position, none of its green events was, or may have been, made in a primary component."""
    log = h.log
    tally.cases += sum(len(replica.named) for replica in log.replicas)
    for node, place, problem in wrong_phases(h):
        replica = log.replicas[node]
        tally.violate(h.run.run, replica.name, replica.n[place], f"{log.describe(node, place)}: {problem}")
    positions = {
        number
        for replica in log.replicas
        for kind, number in zip(replica.kind, replica.number, strict=True)
        if kind == GREEN
    }
    tally.cases += len(positions)
    lacking = positions - made.positions
    for node, replica in enumerate(log.replicas if lacking else ()):
        for place, kind in enumerate(replica.kind):
            if kind == GREEN and replica.number[place] in lacking:
                lacking.discard(replica.number[place])
                detail = f"{log.describe(node, place)}: nobody made it green in a primary component"
                tally.violate(h.run.run, replica.name, replica.n[place], detail)


def wrong_phases(h: History) -> Iterator[tuple[int, int, str]]:
    """The attempt, commit and establish events that are violated, lowest first: node, place, and what is wrong.

    Violation: the node had the same phase of this number before; it did not have the phase before this one; others
    went through this number with another configuration or other members; the members hold no quorum.
    """
    quorum = _judged_quorum(h)
    decided, tried = _described(h.log)
    for node, replica in enumerate(h.log.replicas):
        commits = {replica.number[place] for place in replica.named if replica.kind[place] != ATTEMPT}
        gone: set[tuple[int, int]] = set()
        for place, component in replica.named.items():
            kind, number = replica.kind[place], replica.number[place]
            problem = None
            if (kind, number) in gone:
                problem = f"the node had its {_NAMES[kind]} of primary {number} before"
            elif kind in _BEFORE and (_BEFORE[kind], number) not in gone:
                problem = f"without the node's {_NAMES[_BEFORE[kind]]} of primary {number} before it"
            else:
                # An attempt that comes to nothing binds nobody but its node: others may give its number again.
                binds = kind != ATTEMPT or number in commits
                other = _other(replica, binds, component, decided.get(number), tried[number, component.conf])
                if other is not None:
                    problem = f"as {component}, but primary {number} is {other}"
                elif quorum is not None and not quorum.holds(component.members):
                    problem = f"{','.join(sorted(component.members)) or 'nobody'} hold no quorum"
            gone.add((kind, number))
            if problem is not None:
                yield node, place, problem


def _judged_quorum(h: History) -> Quorum | None:
    """None where the run does not tell which sets are quorums."""
    try:
        return quorum_of(h.run)
    except Malformed:
        return None  # of a settled run that is refused


def _described(log: LogHistory) -> tuple[dict[int, Component], dict[tuple[int, str], Component]]:
    """By number: the component of the lowest commit or establish event. By number and configuration: that of the
    lowest event of any phase."""
    decided: dict[int, Component] = {}
    tried: dict[tuple[int, str], Component] = {}
    for replica in log.replicas:
        for place, component in replica.named.items():
            number = replica.number[place]
            tried.setdefault((number, component.conf), component)
            if replica.kind[place] != ATTEMPT:
                decided.setdefault(number, component)
    return decided, tried


def _other(
    replica: Replica, binds: bool, component: Component, decided: Component | None, tried: Component
) -> Component | None:
    """The description of the same primary component that differs from this one, if there is one."""
    if tried != component:
        return tried
    if decided is None or decided == component:
        return None
    return decided if binds or replica.name in decided.members else None
