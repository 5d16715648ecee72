"""Dynamic voting, judged from the phases of primary components alone: each goes on from the one before it, and where
the rule allows a component to order, it does so in the end.

What a replica had learned from others is in no row. So the second check asks only for what the rule allows whatever
was learned: see `_allowed`.
"""

from collections.abc import Iterator

from reconvene.errors import Malformed
from reconvene.verify.check import Proof
from reconvene.verify.corel.sums import LogCheck, LogSums, prove_by_facts
from reconvene.verify.history import History
from reconvene.verify.live import components
from reconvene.verify.log_history import ADOPT, ATTEMPT, COMMIT, ESTABLISH, Component, NodeLog
from reconvene.verify.quorums import Votes, votes_of
from reconvene.verify.report import Tally
from reconvene.voting import Evidence, Session, may_attempt

__all__ = ["CHECKS", "counted_votes", "ended_votes", "stopped_votes", "wrong_votes"]


def _judged(h: History) -> Votes | None:
    try:
        return votes_of(h.run)
    except Malformed:
        return None  # of a settled run that is refused


# -- each primary component goes on from the one before it


def _goes_on(h: History, tally: Tally) -> None:
    votes = _judged(h)
    if votes is None:
        return
    tally.cases += counted_votes(h)
    log = h.log
    for node, place, problem in wrong_votes(h):
        node_log = log.node_logs[node]
        tally.violate(h.run.run, node_log.name, node_log.n[place], f"{log.describe(node, place)}: {problem}")


def counted_votes(h: History) -> int:
    """Attempts, and primary components that all their members attempted."""
    if _judged(h) is None:
        return 0
    attempts = sum(node_log.kind[place] == ATTEMPT for node_log in h.log.node_logs for place in node_log.named)
    return attempts + len(_attempted_by_all(h))


def wrong_votes(h: History) -> Iterator[tuple[int, int, str]]:
    """The attempts that are violated, lowest first: node, place, and what is wrong. Of a primary component that all
    attempted, its lowest attempt stands for it."""
    votes = _judged(h)
    if votes is None:
        return
    whole = _attempted_by_all(h)
    established = {0: votes.first()}
    for node_log in h.log.node_logs:
        for place, component in node_log.named.items():
            number = node_log.number[place]
            if node_log.kind[place] == ESTABLISH and number > 0:
                established.setdefault(number, votes.session(number, component.members))
    for node, node_log in enumerate(h.log.node_logs):
        for place, component in node_log.named.items():
            if node_log.kind[place] != ATTEMPT:
                continue
            number, session = node_log.number[place], votes.session(node_log.number[place], component.members)
            here = session.numbers()
            lacks = votes.voters.lacks(here)
            if lacks:
                yield node, place, f"{len(here)} replicas, below the minimum of {votes.voters.minimum}"
            elif whole.get((number, component)) == (node, place) and not votes.voters.escapes(here):
                before = max((one for one in established if one < number), default=0)
                if not established[before].sub_quorum(here):
                    yield (
                        node,
                        place,
                        (
                            f"{_shown(component)} is no sub-quorum of primary {before},"
                            f" {_named(votes, established[before])}, the last established below it"
                        ),
                    )


def _attempted_by_all(h: History) -> dict[tuple[int, Component], tuple[int, int]]:
    """By number and component: its lowest attempt, of those that all their members attempted."""
    lowest: dict[tuple[int, Component], tuple[int, int]] = {}
    by: dict[tuple[int, Component], set[str]] = {}
    for node, node_log in enumerate(h.log.node_logs):
        for place, component in node_log.named.items():
            if node_log.kind[place] == ATTEMPT:
                key = node_log.number[place], component
                lowest.setdefault(key, (node, place))
                by.setdefault(key, set()).add(node_log.name)
    return {key: first for key, first in lowest.items() if key[1].members and by[key] >= key[1].members}


def _shown(component: Component) -> str:
    return ",".join(sorted(component.members)) or "nobody"


def _named(votes: Votes, session: Session) -> str:
    names = {number: name for name, number in votes.numbers.items()}
    return ",".join(names[number] for number in session.numbers())


# -- where the rule allows it, a component orders in the end


def _orders(h: History, tally: Tally) -> None:
    tally.cases += len(ended_votes(h))
    for node, place, problem in stopped_votes(h):
        node_log = h.log.node_logs[node]
        n = node_log.n[place] if place < len(node_log.n) else 0
        tally.violate(h.run.run, node_log.name, n, problem)


def ended_votes(h: History) -> list[list[int]]:
    """Where settled: the replicas of each component that the rule allows to order."""
    votes = _judged(h)
    if votes is None or not h.run.settled:
        return []
    found = []
    for component in components(h):
        nodes = [node for node in component if h.names[node] in votes.numbers]
        if nodes and _allowed(h, votes, nodes):
            found.append(nodes)
    return found


def stopped_votes(h: History) -> Iterator[tuple[int, int, str]]:
    """Those of them that did not establish themselves last: a node, the place of its last phase, what is wrong."""
    for nodes in ended_votes(h):
        names = frozenset(h.names[node] for node in nodes)
        last: tuple[int, frozenset[str]] | None = None
        for node in nodes:
            node_log = h.log.node_logs[node]
            for place, component in node_log.named.items():
                if node_log.kind[place] == ESTABLISH and (last is None or node_log.number[place] > last[0]):
                    last = node_log.number[place], component.members
        if last is None or last[1] != names:
            known = "none" if last is None else f"primary {last[0]} of {','.join(sorted(last[1]))}"
            detail = f"{','.join(sorted(names))} may order, and established last: {known}"
            place = max(h.log.node_logs[nodes[0]].named, default=1 << 62)
            yield nodes[0], place, detail


def _allowed(h: History, votes: Votes, nodes: list[int]) -> bool:
    """Whether the rule allows these, whatever they have learned from others. What they know to be established is what
    they established themselves, or something that anyone established later, up to the highest number that they know.
    What they attempted after that may have been established, unless the rows show that it was not."""
    logs = [h.log.node_logs[node] for node in nodes]
    present = {votes.numbers[node_log.name] for node_log in logs}
    if votes.voters.lacks(present):
        return False
    if votes.voters.escapes(present):
        return True
    known = max((number for node_log in logs for number in _numbers(node_log, ESTABLISH)), default=0)
    highest = max(
        (number for node_log in logs for number in _numbers(node_log, ATTEMPT, COMMIT, ESTABLISH, ADOPT)), default=0
    )
    asked = {votes.first()} if known == 0 else set()
    for node_log in h.log.node_logs:
        for place, component in node_log.named.items():
            number = node_log.number[place]
            if node_log.kind[place] == ESTABLISH and known <= number <= highest:
                asked.add(votes.session(number, component.members))
    asked |= set(_live(votes, logs, known))
    return all(may_attempt(present, votes.voters, Evidence(session, ())) for session in asked)


def _live(votes: Votes, logs: list[NodeLog], known: int) -> Iterator[Session]:
    """What these attempted after `known` and may have been established."""
    committed = {
        (node_log.name, node_log.number[place], component)
        for node_log in logs
        for place, component in node_log.named.items()
        if node_log.kind[place] == COMMIT
    }
    here = {node_log.name for node_log in logs}
    for node_log in logs:
        for place, component in node_log.named.items():
            number = node_log.number[place]
            if node_log.kind[place] != ATTEMPT or number <= known:
                continue
            witnesses = here & component.members
            if all((name, number, component) in committed for name in witnesses) and witnesses != component.members:
                yield votes.session(number, component.members)


def _numbers(node_log: NodeLog, *kinds: int) -> Iterator[int]:
    return (number for kind, number in zip(node_log.kind, node_log.number, strict=True) if kind in kinds)


def _prove_goes_on(run: LogSums, proof: Proof) -> None:
    proof.cases += run.votes
    prove_by_facts(run, proof)


def _prove_orders(run: LogSums, proof: Proof) -> None:
    proof.cases += run.ended_votes
    prove_by_facts(run, proof)


CHECKS = (
    LogCheck(
        id="corel.dynamic.subquorum",
        layer="corel",
        source="dynamic voting",
        case="with `dynamic`: an `attempt`; a primary component that all its members attempted",
        violated="it has fewer replicas than the minimum; it is no sub-quorum of the highest established one below"
        " it, and has no more than max(n - minimum, n/2) of all n",
        check=_goes_on,
        prove=_prove_goes_on,
        facts=("wrong_vote",),
        kinds=frozenset({"attempt"}),
    ),
    LogCheck(
        id="corel.dynamic.live",
        layer="corel",
        source="dynamic voting",
        case="with `dynamic`, where settled: a component that the rule allows to order",
        violated="the last primary component that its nodes established is not of just these nodes",
        check=_orders,
        prove=_prove_orders,
        facts=("stopped_vote",),
        kinds=frozenset({"attempt", "commit", "establish", "adopt"}),
    ),
)
