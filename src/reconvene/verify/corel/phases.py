"""The three phases of a primary component (section 5.5.1), and that nothing becomes green but in such a component."""

from collections.abc import Iterator

from reconvene.errors import Malformed
from reconvene.quorum import Quorum
from reconvene.verify.corel.made import made_green
from reconvene.verify.corel.sums import LogCheck, prove_by_facts
from reconvene.verify.counts import green_positions
from reconvene.verify.history import History
from reconvene.verify.log_history import ATTEMPT, COMMIT, ESTABLISH, GREEN, Component, LogHistory, NodeLog
from reconvene.verify.quorums import quorum_of
from reconvene.verify.report import Tally

__all__ = ["CHECKS", "wrong_phases"]

_BEFORE = {COMMIT: ATTEMPT, ESTABLISH: COMMIT}
_NAMES = {ATTEMPT: "attempt", COMMIT: "commit", ESTABLISH: "establish"}


def _gone_through(h: History, tally: Tally) -> None:
    log = h.log
    for node, place, problem in wrong_phases(h):
        node_log = log.node_logs[node]
        tally.violate(h.run.run, node_log.name, node_log.n[place], f"{log.describe(node, place)}: {problem}")
    lacking = h.once(green_positions) - h.once(made_green).positions
    for node, node_log in enumerate(log.node_logs if lacking else ()):
        for place, kind in enumerate(node_log.kind):
            if kind == GREEN and node_log.number[place] in lacking:
                lacking.discard(node_log.number[place])
                detail = f"{log.describe(node, place)}: nobody made it green in a primary component"
                tally.violate(h.run.run, node_log.name, node_log.n[place], detail)


def wrong_phases(h: History) -> Iterator[tuple[int, int, str]]:
    """The attempt, commit and establish events that are violated, lowest first: node, place, and what is wrong.

    Violation: the node had the same phase of this number before; it did not have the phase before this one; others
    went through this number with another configuration or other members; the members hold no quorum.
    """
    quorum = _judged_quorum(h)
    decided, tried = _described(h.log)
    for node, node_log in enumerate(h.log.node_logs):
        commits = {node_log.number[place] for place in node_log.named if node_log.kind[place] != ATTEMPT}
        gone: set[tuple[int, int]] = set()
        for place, component in node_log.named.items():
            kind, number = node_log.kind[place], node_log.number[place]
            problem = None
            if (kind, number) in gone:
                problem = f"the node had its {_NAMES[kind]} of primary {number} before"
            elif kind in _BEFORE and (_BEFORE[kind], number) not in gone:
                problem = f"without the node's {_NAMES[_BEFORE[kind]]} of primary {number} before it"
            else:
                # An attempt that comes to nothing binds nobody but its node: others may give its number again.
                binds = kind != ATTEMPT or number in commits
                other = _other(node_log, binds, component, decided.get(number), tried[number, component.conf])
                if other is not None:
                    problem = f"as {component}, but primary {number} is {other}"
                elif quorum is not None and not quorum.holds(component.members):
                    problem = f"{','.join(sorted(component.members)) or 'nobody'} hold no quorum"
            gone.add((kind, number))
            if problem is not None:
                yield node, place, problem


def _judged_quorum(h: History) -> Quorum | None:
    """None where run.json does not say which sets are quorums."""
    try:
        return quorum_of(h.run)
    except Malformed:
        return None  # of a settled run that is refused


def _described(log: LogHistory) -> tuple[dict[int, Component], dict[tuple[int, str], Component]]:
    """By number: the component of the lowest commit or establish event. By number and configuration: that of the
    lowest event of any phase."""
    decided: dict[int, Component] = {}
    tried: dict[tuple[int, str], Component] = {}
    for node_log in log.node_logs:
        for place, component in node_log.named.items():
            number = node_log.number[place]
            tried.setdefault((number, component.conf), component)
            if node_log.kind[place] != ATTEMPT:
                decided.setdefault(number, component)
    return decided, tried


def _other(
    node_log: NodeLog, binds: bool, component: Component, decided: Component | None, tried: Component
) -> Component | None:
    """The description of the same primary component that differs from this one, if there is one."""
    if tried != component:
        return tried
    if decided is None or decided == component:
        return None
    return decided if binds or node_log.name in decided.members else None


CHECKS = (
    LogCheck(
        id="corel.phases",
        layer="corel",
        source="COReL, section 5.5.1",
        case="an `attempt`, a `commit`, an `establish`; a position that a `green` has",
        violated="see below",
        cases=lambda n: n.phases + n.positions,
        check=_gone_through,
        prove=prove_by_facts,
        facts=("wrong_phase", "unmade", "moved", "shared", "tangled", "torn"),
        kinds=frozenset({"attempt", "commit", "establish", "green"}),
    ),
)
