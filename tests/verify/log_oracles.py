"""The checks of the durable log as the sentences have them: slow, without an index, everything looked up anew."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reconvene.trace.events import Row, Run

Rows = dict[str, list[Row]]
ENDS = ("attempt", "commit", "adopt")


@dataclass
class Told:
    """One run. An event is a node and a place in its file."""

    run: Run
    rows: Rows

    def nodes(self) -> list[str]:
        return sorted(self.rows)

    def events(self, *kinds: str) -> list[tuple[str, int, Row]]:
        """Of the log, lowest first."""
        return [
            (node, place, row)
            for node in self.nodes()
            for place, row in enumerate(self.rows[node])
            if row.layer == "corel" and row.kind in kinds
        ]

    def accept(self, msg: Any) -> tuple[str, int] | None:
        return next(((node, place) for node, place, row in self.events("accept") if row.msg == msg), None)

    def position(self, msg: Any) -> float:
        return next((float(row.pos) for _, _, row in self.events("green") if row.msg == msg), float("inf"))  # type: ignore[arg-type]

    def covers(self, row: Row, msg: Any) -> bool:
        return row.kind == "snapshot" and self.position(msg) < row.pos  # type: ignore[operator]

    def had(self, node: str, msg: Any, place: int) -> bool:
        """Before this place."""
        return any(
            (row.kind == "log" and row.msg == msg) or self.covers(row, msg) for row in self.log_of(node, 0, place)
        )

    def green(self, node: str, msg: Any, place: int) -> bool:
        return any(
            (row.kind == "green" and row.msg == msg) or self.covers(row, msg) for row in self.log_of(node, 0, place)
        )

    def log_of(self, node: str, start: int, end: int) -> list[Row]:
        return [row for row in self.rows[node][start:end] if row.layer == "corel"]

    def past(self, msg: Any) -> set[Any]:
        """What the author accepted or had before it accepted this."""
        accepted = self.accept(msg)
        assert accepted is not None
        before = self.log_of(accepted[0], 0, accepted[1])
        known = {row.msg for row in before if row.kind in ("accept", "log")}
        every = {row.msg for _, _, row in self.events("green")}
        return known | {msg for msg in every if any(self.covers(row, msg) for row in before)}

    def leaves(self, node: str, place: int) -> bool:
        """Does the node leave its configuration with the row at this place?"""
        row = self.rows[node][place]
        if _moves(row):
            return True
        if row.layer != "corel":
            return False
        before = next((r for r in reversed(self.rows[node][:place]) if r.layer == "corel" or _moves(r)), None)
        return before is not None and before.inc != row.inc

    def fails(self, node: str, place: int) -> bool:
        """Does the row at this place tell that the node has failed?"""
        row = self.rows[node][place]
        if row.layer == "evs" and row.kind in ("fail", "stop"):
            return True
        if row.layer != "corel" and not _moves(row):
            return False
        before = next((r for r in reversed(self.rows[node][:place]) if r.layer == "corel" or _moves(r)), None)
        return before is not None and before.inc != row.inc

    def conf(self, node: str, place: int) -> str | None:
        """Where it is at this place; None if nothing told."""
        before = next((row for row in reversed(self.rows[node][:place]) if _moves(row)), None)
        if before is None:
            return None
        return str(before.conf) if before.kind == "conf" else ""

    def fresh(self, node: str, place: int) -> bool:
        return self.conf(node, place) in (None, self.rows[node][place].conf)


def _moves(row: Row) -> bool:
    return row.layer == "evs" and (row.kind in ("fail", "stop") or (row.kind == "conf" and row.conf_kind != "hidden"))


# -- service guarantees ---------------------------------------------------------------------------------------------


def integrity(told: Told) -> int:
    positions = {row.pos for _, _, row in told.events("green")}
    line = next(i for i in range(len(positions) + 1) if i not in positions)
    wrong = sum(row.pos > line for _, _, row in told.events("snapshot"))  # type: ignore[operator]
    for node, place, row in told.events("log", "green"):
        accepted = told.accept(row.msg)
        wrong += accepted is None or (accepted[0] == node and accepted[1] > place)
    return wrong


def once(told: Told) -> int:
    wrong = sum(told.accept(row.msg) != (node, place) for node, place, row in told.events("accept"))
    for node, place, row in told.events("log"):
        wrong += any(other.kind == "log" and other.msg == row.msg for other in told.log_of(node, 0, place))
    return wrong + sum(told.green(node, row.msg, place) for node, place, row in told.events("green"))


def _differing(found: list[tuple[Any, Any]]) -> int:
    return sum(
        next(m for m, p in found if p == position) != msg or next(p for m, p in found if m == msg) != position
        for msg, position in found
    )


def one_sequence(told: Told) -> int:
    found: list[tuple[Any, Any]] = []
    for node, place, row in told.events("green"):
        before = told.log_of(node, 0, place)
        last = max((i for i, other in enumerate(before) if other.kind == "snapshot"), default=None)
        base: Any = 0 if last is None else before[last].pos
        since = before if last is None else before[last:]
        found.append((row.msg, base + sum(other.kind == "green" for other in since)))
    return _differing(found)


def agreed(told: Told) -> int:
    return _differing([(row.msg, row.pos) for _, _, row in told.events("green")])


def green_in_order(told: Told) -> int:
    return sum(
        not all(told.green(node, msg, place) for msg in told.past(row.msg))
        for node, place, row in told.events("green")
        if told.accept(row.msg) is not None
    )


def all_green(told: Told) -> int:
    if not told.run.settled:
        return 0
    wrong = 0
    named = {name for component in told.run.components for name in component}
    for component in [*told.run.components, *([name] for name in told.rows if name not in named)]:
        up = [name for name in component if name not in told.run.down]
        if 2 * len(up) <= len(told.rows):
            continue
        every = {row.msg for _, _, row in told.events("accept", "log", "green")}
        for msg in every:
            in_it = any(
                told.had(name, msg, len(told.rows[name]))
                or any(row.kind == "accept" and row.msg == msg for row in told.rows[name])
                for name in up
            )
            wrong += sum(in_it and not told.green(name, msg, len(told.rows[name])) for name in up)
    return wrong


# -- invariants -----------------------------------------------------------------------------------------------------


def had_in_order(told: Told) -> int:
    return sum(
        not all(told.had(node, msg, place) for msg in told.past(row.msg))
        for node, place, row in told.events("log")
        if told.accept(row.msg) is not None
    )


def appended_only(told: Told) -> int:
    wrong = 0
    for node, place, row in told.events("green", "yellow", "red", "snapshot"):
        lines = [r for r in told.log_of(node, 0, place) if r.kind in ("green", "snapshot")]
        following: Any = 0
        if lines:
            following = lines[-1].pos + (lines[-1].kind == "green")  # type: ignore[operator]
        if row.kind == "green":
            wrong += row.pos != following or not told.had(node, row.msg, place)
        elif row.kind == "snapshot":
            wrong += row.pos < following
        else:
            wrong += told.green(node, row.msg, place)
    return wrong


def primary_of(told: Told, node: str, place: int) -> Any:
    """In the context of which primary component the event stands; None: of none."""
    for earlier in range(place, -1, -1):
        row = told.rows[node][earlier]
        if row.layer == "corel" and earlier < place:
            if row.kind == "establish":
                return row.primary if told.fresh(node, earlier) else None
            if row.kind in ENDS:
                return None
        if told.leaves(node, earlier):
            return None
    return None


def late_primary_of(told: Told, node: str, place: int) -> Any:
    """In the context of which primary component the event may have happened before it was recorded; None: of none."""
    rows = told.rows[node]
    phases = [i for i in range(place) if rows[i].layer == "corel" and rows[i].kind in (*ENDS, "establish")]
    if not phases or rows[phases[-1]].kind != "establish":
        return None
    since = range(phases[-1] + 1, place + 1)
    entered = sum(_moves(rows[i]) and rows[i].conf_kind == "regular" for i in since)
    return None if entered > 1 or any(told.fails(node, i) for i in since) else rows[phases[-1]].primary


def made_green(told: Told) -> dict[Any, Any]:
    """By message: the lowest component in which it was made green; or else the highest in which it may have been."""
    marked: dict[Any, Any] = {}
    for node, place, row in told.events("green"):
        primary = primary_of(told, node, place)
        if primary is not None:
            marked[row.msg] = min(primary, marked.get(row.msg, primary))
    certain = set(marked)
    for node, place, row in told.events("green"):
        primary = late_primary_of(told, node, place)
        if primary is not None and row.msg not in certain:
            marked[row.msg] = max(primary, marked.get(row.msg, primary))
    return marked


def made_late(told: Told, node: str, msg: Any, primary: Any) -> int | None:
    """Where the node itself recorded late that it made this green there, if nobody recorded that in time."""
    greens = [(where, place) for where, place, row in told.events("green") if row.msg == msg]
    if any(primary_of(told, where, place) is not None for where, place in greens):
        return None
    mine = (place for where, place in greens if where == node)
    return next((place for place in mine if late_primary_of(told, node, place) == primary), None)


def due(told: Told, node: str, primary: Any) -> int | None:
    """Where it must show that the node knows of this primary component."""
    rows = told.rows[node]
    members = next(row.members for _, _, row in told.events("establish") if row.primary == primary)
    knowing = [
        place
        for place, row in enumerate(rows)
        if row.layer == "corel" and row.kind in ("commit", "establish", "adopt") and row.primary >= primary
    ]
    attempts = [
        place
        for place, row in enumerate(rows)
        if row.layer == "corel" and row.kind == "attempt" and row.primary == primary
    ]
    own = bool(knowing) and rows[knowing[0]].primary == primary and rows[knowing[0]].kind != "adopt"
    if node in members and not own:  # type: ignore[operator]
        if attempts and (not knowing or attempts[0] < knowing[0]):
            knowing, own = attempts, True
        elif not knowing:
            return len(rows)
    if not knowing:
        return None
    for place in range(knowing[0] + 1, len(rows)):
        if rows[place].layer == "corel" and rows[place].kind in ENDS:
            return place
        if own and told.fresh(node, knowing[0]) and told.leaves(node, place):
            return place
    return len(rows)


def colored(told: Told, node: str, msg: Any, place: int) -> bool:
    """Is it yellow or green before this place?"""
    color = False
    for row in told.log_of(node, 0, place):
        if told.covers(row, msg) or (row.kind in ("yellow", "green") and row.msg == msg):
            color = True
        elif row.kind == "red" and row.msg == msg:
            color = False
    return color


def overtaken(told: Told, node: str, msg: Any, marked: dict[Any, Any]) -> bool:
    """Did one that is ordered after it become yellow before it, in a primary component that knows it as green?"""
    rows = told.rows[node]
    for place, row in enumerate(rows):
        if row.kind != "yellow" or row.msg != msg or row.layer != "corel" or told.green(node, msg, place):
            continue
        before: list[Any] = []
        for earlier in range(place, -1, -1):
            other = rows[earlier]
            if other.layer == "corel" and earlier < place:
                if other.kind == "commit":
                    known = told.fresh(node, earlier) and marked[msg] <= other.primary
                    if known and any(told.position(m) > told.position(msg) for m in before):
                        return True
                    break
                if other.kind in ("attempt", "adopt"):
                    break
                if other.kind == "yellow" and not told.green(node, other.msg, earlier):
                    before.append(other.msg)
            if told.leaves(node, earlier):
                break
    return False


def early(told: Told, node: str, place: int) -> bool:
    """A yellow or green event between an attempt and its commit, or a green one between commit and establish."""
    rows = told.rows[node]
    for earlier in range(place, -1, -1):
        if rows[earlier].layer == "corel" and earlier < place and rows[earlier].kind in (*ENDS, "establish"):
            phase = rows[earlier]
            if phase.kind not in ("attempt", "commit") or not told.fresh(node, earlier):
                return False
            if phase.kind == "commit" and rows[place].kind != "green":
                return False
            certain = any(_moves(row) for row in rows)
            wanted = {"attempt": "commit", "commit": "establish"}[str(phase.kind)]
            for later in range(place + 1, len(rows)):
                if told.leaves(node, later):
                    return certain and rows[later].kind == "conf" and rows[later].inc == phase.inc
                if rows[later].kind in (*ENDS, "establish"):
                    return certain or (rows[later].kind, rows[later].primary) == (wanted, phase.primary)
            return certain
        if told.leaves(node, earlier):
            return False
    return False


def yellow(told: Told) -> int:
    wrong = 0
    marked = made_green(told)
    for msg, primary in marked.items():
        for node in told.nodes():
            when = due(told, node, primary)
            if when is None:
                continue
            own = made_late(told, node, msg, primary)
            when = when if own is None else own
            always = all(colored(told, node, msg, place) for place in range(when, len(told.rows[node]) + 1))
            wrong += not told.had(node, msg, when) or not always or overtaken(told, node, msg, marked)
    for node, place, row in told.events("yellow", "red", "green"):
        if row.kind == "yellow" and not told.had(node, row.msg, place):
            wrong += 1
        elif row.kind == "red":
            last = [
                r for r in told.log_of(node, 0, place) if r.msg == row.msg and r.kind in ("yellow", "red", "green")
            ]
            wrong += not last or last[-1].kind != "yellow" or told.green(node, row.msg, place)
        else:
            wrong += early(told, node, place)
    return wrong


# -- phases and timestamps ------------------------------------------------------------------------------------------


def phases(told: Told) -> int:
    every = told.events("attempt", "commit", "establish")
    wrong = sum(_is_wrong_phase(told, every, event) for event in every)
    for position in {row.pos for _, _, row in told.events("green")}:
        wrong += not any(
            row.pos == position and late_primary_of(told, node, place) is not None
            for node, place, row in told.events("green")
        )
    return wrong


def _is_wrong_phase(told: Told, every: list[tuple[str, int, Row]], event: tuple[str, int, Row]) -> bool:
    node, place, row = event
    same = [other for other in every if other[2].primary == row.primary]
    own = [other.kind for where, at, other in same if where == node and at < place]
    if row.kind in own:
        return True
    if row.kind != "attempt" and {"commit": "attempt", "establish": "commit"}[row.kind] not in own:
        return True
    if next(other for _, _, other in same if other.conf == row.conf).members != row.members:
        return True
    decided = next((other for _, _, other in same if other.kind != "attempt"), None)
    if decided is not None and (decided.conf, decided.members) != (row.conf, row.members):
        commits = any(where == node and other.kind != "attempt" for where, _, other in same)
        if commits or node in decided.members:  # type: ignore[operator]
            return True
    return 2 * len(set(row.members)) <= len(told.rows)  # type: ignore[arg-type]


def one_timestamp(told: Told) -> int:
    wrong = 0
    for _, _, row in told.events("log"):
        lowest = next(other for _, _, other in told.events("log") if other.msg == row.msg)
        wrong += lowest.ts != row.ts and not _sent_again(told, row.msg)
    return wrong


def _sent_again(told: Told, msg: Any) -> bool:
    accepted = told.accept(msg)
    if accepted is None:
        return False
    author, place = accepted
    rows = told.rows[author]
    for later in range(place + 1, len(rows)):
        if told.fails(author, later):
            return True
        if rows[later].layer == "corel" and rows[later].kind == "log" and rows[later].msg == msg:
            return False
    return author in told.run.down


def incarnations(told: Told) -> int:
    """Of rows whose layer `evs` is right, but for what the other layers' rows make of it."""
    wrong = 0
    for rows in told.rows.values():
        for place, row in enumerate(rows):
            outlived = any(other.inc > row.inc for other in rows[:place])
            over = any(
                other.layer == "evs" and other.kind in ("fail", "stop") and other.inc == row.inc
                for other in rows[:place]
            )
            wrong += outlived or (over and row.layer != "evs")
    return wrong


ORACLES: dict[str, Callable[[Told], int]] = {
    "corel.3.1": integrity,
    "corel.3.2": once,
    "corel.3.6": one_sequence,
    "corel.3.7": green_in_order,
    "corel.3.8": all_green,
    "corel.causal": had_in_order,
    "corel.green": appended_only,
    "corel.agreed": agreed,
    "corel.yellow": yellow,
    "corel.phases": phases,
    "corel.ts": one_timestamp,
    "evs.2.2": incarnations,
}
