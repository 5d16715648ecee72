"""The green prefix: one sequence everywhere (property 3.6, Agreed Green), and it only grows (No Changes in Green).

Agreed Green goes by the positions that events name; property 3.6 by the order in which each node made messages green,
whatever positions it recorded for them.
"""

from collections.abc import Iterator

from reconvene.verify.corel.sums import LogCheck, prove_by_facts
from reconvene.verify.history import History
from reconvene.verify.log_history import GREEN, RED, SNAPSHOT, YELLOW
from reconvene.verify.report import Tally

__all__ = ["CHECKS"]

_Found = tuple[int, int, int]
"""A green event, by node and place, with the position that counts."""


def _one_sequence(h: History, tally: Tally) -> None:
    _compare(h, _counted(h), "the node's green message", tally)


def _agreed(h: History, tally: Tally) -> None:
    _compare(h, _positioned(h), "position", tally)


def _counted(h: History) -> Iterator[_Found]:
    for node, node_log in enumerate(h.log.node_logs):
        count = 0
        for place, kind in enumerate(node_log.kind):
            if kind == GREEN:
                yield node, place, count
                count += 1
            elif kind == SNAPSHOT:
                count = node_log.number[place]


def _positioned(h: History) -> Iterator[_Found]:
    for node, node_log in enumerate(h.log.node_logs):
        for place, kind in enumerate(node_log.kind):
            if kind == GREEN:
                yield node, place, node_log.number[place]


def _compare(h: History, found: Iterator[_Found], what: str, tally: Tally) -> None:
    log = h.log
    at: dict[int, _Found] = {}
    of: dict[int, _Found] = {}
    for event in found:
        node, place, position = event
        node_log = log.node_logs[node]
        message = node_log.msg[place]
        same_place = at.setdefault(position, event)
        same_message = of.setdefault(message, event)
        if log.node_logs[same_place[0]].msg[same_place[1]] != message:
            other = same_place
        elif same_message[2] != position:
            other = same_message
        else:
            continue
        detail = (
            f"{log.describe(node, place)}: as {what} {position}, but {log.describe(other[0], other[1])} as {other[2]}"
        )
        tally.violate(h.run.run, node_log.name, node_log.n[place], detail)


def _appended_only(h: History, tally: Tally) -> None:
    log = h.log
    for node, node_log in enumerate(log.node_logs):
        after = 0
        for place, kind in enumerate(node_log.kind):
            message, number = node_log.msg[place], node_log.number[place]
            problem = None
            if kind == GREEN:
                if number != after:
                    problem = f"the node's next position is {after}"
                elif node_log.had[message] > place:
                    problem = "the node does not have it"
                after = number + 1
            elif kind in (YELLOW, RED):
                if node_log.green[message] < place:
                    problem = f"it is green here since {log.describe(node, node_log.green[message])}"
            elif kind == SNAPSHOT:
                if number < after:
                    problem = f"the node's next position is {after}"
                after = number
            if problem:
                detail = f"{log.describe(node, place)}: {problem}"
                tally.violate(h.run.run, node_log.name, node_log.n[place], detail)


CHECKS = (
    LogCheck(
        id="corel.3.6",
        layer="corel",
        source="COReL, property 3.6",
        case="a `green`, with its count: how many `green`s the node had before it, or, after a snapshot, the last"
        " one's position plus how many since",
        violated="the lowest `green` of that count is of another message; or the message's lowest `green` has another"
        " count",
        cases=lambda n: n.greens,
        check=_one_sequence,
        prove=prove_by_facts,
        facts=("misplaced_green", "moved", "shared", "torn"),
        kinds=frozenset({"green"}),
        whole=True,
    ),
    LogCheck(
        id="corel.green",
        layer="corel",
        source="COReL, section 5.4, No Changes in Green",
        case="a `green`, a `yellow`, a `red`, a `snapshot`",
        violated="of a `green`: its position is not the node's next one, or the node does not have the message; of a"
        " `yellow` or `red`: the message is green at the node; of a snapshot: it is below the node's next position",
        cases=lambda n: n.greens + n.yellows + n.reds + n.snapshots,
        check=_appended_only,
        prove=prove_by_facts,
        facts=("misplaced", "taking_back", "green_unhad", "recoloured", "torn"),
        kinds=frozenset({"green", "yellow", "red", "snapshot"}),
        whole=True,
    ),
    LogCheck(
        id="corel.agreed",
        layer="corel",
        source="COReL, section 5.4, Agreed Green",
        case="a `green`",
        violated="the lowest `green` of that position is of another message; or the message's lowest `green` has"
        " another position",
        cases=lambda n: n.greens,
        check=_agreed,
        prove=prove_by_facts,
        facts=("moved", "shared", "torn"),
        kinds=frozenset({"green"}),
    ),
)
