"""The Yellow invariant (section 5.4): what was made green in a primary component is yellow or green, in the same
place, wherever that component is known of.

In which component a message was made green is worked out by `made`. Nothing shows when one node's event happened at
another. But a node that makes a message green in a primary component has the acknowledgement of every member, given
when it had the message yellow; so a member has it yellow before it leaves. A node that comes to know of the component
later has got all that from one that knew.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import chain

from reconvene.verify.check import Proof
from reconvene.verify.codes import NONE
from reconvene.verify.corel.made import TERM, Made, MadeGreen, made_green
from reconvene.verify.corel.sums import LogCheck, LogSums, prove_by_facts
from reconvene.verify.history import History
from reconvene.verify.log_history import (
    ADOPT,
    ATTEMPT,
    COMMIT,
    ESTABLISH,
    GREEN,
    LEAVE,
    NEVER,
    RED,
    YELLOW,
    LogHistory,
    NodeLog,
)
from reconvene.verify.report import Tally

__all__ = ["CHECKS", "Knowledge", "due_of", "early_events", "knowledge_of"]

_PHASES = frozenset({ATTEMPT, COMMIT, ESTABLISH, ADOPT})
_NEXT = {ATTEMPT: COMMIT, COMMIT: ESTABLISH}


def _known(h: History, tally: Tally) -> None:
    """Of a message that was made green in a primary component, and a node that knows of that: see `_judge`. Of a
    yellow, red or green event: see `_judge_events`."""
    made = h.once(made_green)
    by_primary: dict[int, list[int]] = {}
    for message, (primary, _, _) in made.by_message.items():
        by_primary.setdefault(primary, []).append(message)
    for node, node_log in enumerate(h.log.node_logs):
        _judge(h, node, made, by_primary, tally)
        _judge_events(h, node_log, tally)


# -- which node knows of what, and until when it has to show ------------------------------------------------------


@dataclass(slots=True)
class Knowledge:
    """What a node knows of primary components."""

    numbers: list[int] = field(default_factory=list)
    """Of its commit, establish and adopt events, those with a higher number than all before; and their places."""
    places: list[int] = field(default_factory=list)
    attempts: dict[int, int] = field(default_factory=dict)
    """Its attempts by number, the first of each."""
    left: dict[int, int] = field(default_factory=dict)
    """Where what begins with such an event ends: with leaving the configuration, or the next attempt, commit or
    adoption."""
    over: dict[int, int] = field(default_factory=dict)
    """The same, but leaving the configuration does not end it."""


def knowledge_of(node_log: NodeLog) -> Knowledge:
    found = Knowledge()
    highest: int | None = None
    for place, kind in enumerate(node_log.kind):
        if kind not in _PHASES:
            continue
        number = node_log.number[place]
        if kind == ATTEMPT:
            found.attempts.setdefault(number, place)
        elif highest is None or number > highest:
            highest = number
            found.numbers.append(number)
            found.places.append(place)
    left = over = len(node_log.kind)
    for place in range(len(node_log.kind) - 1, -1, -1):
        kind = node_log.kind[place]
        if kind in _PHASES:
            found.left[place], found.over[place] = left, over
        if kind in TERM:
            left = over = place
        elif kind == LEAVE:
            left = place
    return found


def due_of(node_log: NodeLog, knows: Knowledge, primary: int, members: frozenset[str]) -> tuple[int, int] | None:
    """Where the node comes to know of this primary component, and where it must show; None if it does not know.

    It knows from its first commit, establish or adopt event of this number or a higher one. A member whose first one
    is not its commit or establish of this very number knows from its attempt of it, and, without that, at the end.
    """
    index = bisect_left(knows.numbers, primary)
    place = knows.places[index] if index < len(knows.places) else NEVER
    inside = place != NEVER and node_log.number[place] == primary and node_log.kind[place] != ADOPT
    if node_log.name in members and not inside:
        attempt = knows.attempts.get(primary, NEVER)
        if attempt < place:
            place, inside = attempt, True
        elif place == NEVER:
            return len(node_log.kind) - 1, len(node_log.kind)
    if place == NEVER:
        return None
    return place, knows.left[place] if inside and place not in node_log.stale else knows.over[place]


# -- judging --------------------------------------------------------------------------------------------------------


def _judge(h: History, node: int, made: MadeGreen, by_primary: dict[int, list[int]], tally: Tally) -> None:
    """Violation: when it is due the node does not have the message, or has it neither yellow nor green, or has it
    red at any time after; or among the messages that became yellow at the node in a primary component that it
    committed to, one that has a higher position or none became so before this one. Where the node itself made the
    message green, and recorded that late, it is due when it did."""
    log, marked = h.log, made.by_message
    node_log = log.node_logs[node]
    knows = knowledge_of(node_log)
    wrong: dict[int, tuple[int, str]] = {}
    told: set[int] = set()
    reddened = {message: place for place, message in enumerate(node_log.msg) if node_log.kind[place] == RED}
    for primary, messages in by_primary.items():
        due = due_of(node_log, knows, primary, log.members[primary])
        if due is None:
            continue
        place, last = due
        told.add(primary)
        tally.cases += len(messages)
        for message in messages:
            end = made.late.get((node, message), last)
            if node_log.had[message] >= end:
                wrong[message] = (place, "does not have it")
            elif node_log.steady[message] >= end:
                since = reddened.get(message, NEVER)
                wrong[message] = (since, "has it red") if place < since < NEVER else (place, "has it red")
    for message, place in _overtaken(log, node_log, marked):
        if marked[message][0] in told:
            wrong.setdefault(message, (place, "has it yellow after one that is ordered after it or not at all"))
    for message, (place, problem) in wrong.items():
        primary, maker, where = marked[message]
        detail = f"{node_log.name} knows of primary {primary}, in which {log.describe(maker, where)}, and {problem}"
        n = node_log.n[place] if place >= 0 else 0
        tally.violate(h.run.run, node_log.name, n, detail)


def _overtaken(log: LogHistory, node_log: NodeLog, marked: dict[int, Made]) -> list[tuple[int, int]]:
    """Messages that became yellow, in a primary component that the node committed to, after one with a higher
    position or none, though green in that component or an earlier one: with the event."""
    found: list[tuple[int, int]] = []
    inside: int | None = None
    highest = -1
    for place, kind in enumerate(node_log.kind):
        if kind == YELLOW and inside is not None and node_log.green[node_log.msg[place]] > place:
            message = node_log.msg[place]
            position = log.position[message]
            if highest > position and message in marked and marked[message][0] <= inside:
                found.append((message, place))
            highest = max(highest, position)
        elif kind == COMMIT:
            inside, highest = (None if place in node_log.stale else node_log.number[place]), -1
        elif kind in (ATTEMPT, ADOPT, LEAVE):
            inside = None
    return found


def _judge_events(h: History, node_log: NodeLog, tally: Tally) -> None:
    """Violation: a yellow event whose message the node does not have; a red one whose message is not yellow there;
    one that comes too early, see `early_events`."""
    problems = early_events(node_log)
    yellow: set[int] = set()
    for place, kind in enumerate(node_log.kind):
        if kind not in (YELLOW, GREEN, RED):
            continue
        message = node_log.msg[place]
        if kind == YELLOW and node_log.had[message] > place:
            problems[place] = "the node does not have it"
        elif kind == RED and (message not in yellow or node_log.green[message] < place):
            problems[place] = "it was not yellow here"
        if kind == YELLOW:
            yellow.add(message)
        else:
            yellow.discard(message)
    for place, problem in problems.items():
        detail = f"{node_log.describe(place, h.log.messages)}: {problem}"
        tally.violate(h.run.run, node_log.name, node_log.n[place], detail)


def early_events(node_log: NodeLog) -> dict[int, str]:
    """Yellow or green events between an attempt and its commit, and green ones between a commit and its establish;
    by place, with what is wrong.

    An attempt or commit lasts until the node goes on to another phase, leaves the configuration, or its file ends. A
    node that failed may record late what its storage holds, and not what it had established; and where no event of
    the layer `evs` shows configurations, a phase that was given up can't be recognized. Then it counts only if its
    commit or establish follows.
    """
    found: dict[int, str] = {}
    waiting: list[int] = []
    phase, number = NONE, NONE
    for place, kind in chain(enumerate(node_log.kind), [(len(node_log.kind), LEAVE)]):
        if kind == GREEN or (kind == YELLOW and phase == ATTEMPT):
            waiting.append(place)
        elif kind in _PHASES or kind == LEAVE:
            follows = kind == _NEXT.get(phase) and node_log.number[place] == number
            failed = kind == LEAVE and place < len(node_log.kind) and node_log.number[place] == 1
            if phase != NONE and (follows or (node_log.conf is not None and not failed)):
                what = "commits to" if phase == ATTEMPT else "establishes"
                found.update((early, f"before the node {what} primary {number}") for early in waiting)
            waiting.clear()
            phase = NONE
            if kind in _NEXT and place not in node_log.stale:
                phase, number = kind, node_log.number[place]
    return found


def _prove_known(run: LogSums, proof: Proof) -> None:
    proof.cases += run.knows
    prove_by_facts(run, proof)


CHECKS = (
    LogCheck(
        id="corel.yellow",
        layer="corel",
        source="COReL, section 5.4, Yellow",
        case="a message that has a primary component, and a node that knows of that; a `yellow`, a `red`, a `green`",
        violated="see below",
        cases=lambda n: n.yellows + n.reds + n.greens,
        check=_known,
        prove=_prove_known,
        facts=("wrongly_yellow", "never_yellow", "wrong_stay", "tangled", "torn"),
    ),
)
