"""The events of process groups in the manner of ISIS (layer `isis`), in the form that the checks read.

A row becomes an `Event`. Its `place` grows by site, then by place in the site's file: the *lowest* event has the
lowest place, and of one site's events the earlier one has the lower. A process is one identity: its id. A cast is one
message with all its attempts. Rows are added site by site; `finish` works out what needs all of them.
"""

import json
from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import cast

from msgspec import UNSET

from reconvene.trace.events import Row

__all__ = ["NEVER", "Adopted", "Attempt", "Cast", "Event", "IsisHistory", "Leave", "Process", "Shown"]

NEVER = 1 << 62
"""The place of what does not happen."""
_CASTS = ("cbcast", "abcast", "gbcast")


@dataclass(slots=True, eq=False)
class Event:
    """One row of a process."""

    place: int
    site: int
    n: int
    kind: str
    process: int
    sender: int = -1
    """Of receive, reject, answer and failed: the other process."""
    msg: "Cast | None" = None
    attempt: int = 0
    group: str | None = None
    view: int = 0
    ts: tuple[int, ...] | None = None
    inside: "Shown | None" = None
    """Of what names a group: the process's view of that group at this event; None where it is no member."""


@dataclass(slots=True, eq=False)
class Attempt:
    """One cast row."""

    event: Event
    dests: tuple[int, ...]
    label: dict[str, int]
    """Of a CBCAST; of others it is empty."""
    text: str
    """Of an ABCAST: its label."""
    causal: bool
    """A CBCAST, or a causal ABCAST."""
    replies: int


@dataclass(slots=True, eq=False)
class Cast:
    """One message, by its lowest row of each attempt."""

    name: str
    attempts: dict[int, Attempt] = field(default_factory=dict)
    receives: list[Event] = field(default_factory=list)
    rejects: list[Event] = field(default_factory=list)
    lowest: int = -1
    last_attempt: int = -1
    dests: tuple[int, ...] = ()
    """Its destinations: those of the last attempt; of a GBCAST, the members of the view in which it was received."""
    accepted_in: int | None = None
    """The lowest number of a view of its group that a process received it in."""
    got: dict[int, Event] = field(default_factory=dict)
    """By process: its first receive."""

    @property
    def first(self) -> Attempt:
        """The attempt of the lowest number."""
        return self.attempts[self.lowest]

    @property
    def last(self) -> Attempt:
        return self.attempts[self.last_attempt]

    @property
    def kind(self) -> str:
        return self.first.event.kind

    @property
    def sender(self) -> int:
        return self.first.event.process


@dataclass(slots=True, eq=False)
class Shown:
    """A view row."""

    event: Event
    group: str
    number: int
    members: tuple[int, ...]
    """As the row lists them."""
    ranked: tuple[int, ...]
    primary: int
    line: int = 0
    """Which line of site views it is of. A later line may number a group's views from 1 again."""

    @property
    def key(self) -> tuple[str, int, int]:
        return self.group, self.line, self.number


@dataclass(slots=True, frozen=True)
class Leave:
    event: Event
    view: int
    """The last view of the group that the process had."""


@dataclass(slots=True, eq=False)
class Adopted:
    """A site row."""

    place: int
    site: int
    inc: int
    n: int
    primary: int
    conf: str
    members: tuple[str, ...]
    """SITE:BORN, sorted."""


@dataclass(slots=True, eq=False)
class Process:
    name: str
    site: int
    """-1 where the id names no site of the run."""
    inc: int
    events: list[Event] = field(default_factory=list)
    over: int = NEVER
    """The place from which on it is over."""
    leaves: dict[str, list[Leave]] = field(default_factory=dict)
    views: dict[str, list[Shown]] = field(default_factory=dict)
    unsure_from: int = NEVER
    """Of one that is gone: the place of its last `view` or `site`. Others may not know what it received after it."""


class IsisHistory:
    """One run's process groups. `sites` are the names of those that have a file, sorted."""

    def __init__(self, sites: list[str]) -> None:
        self.sites = sites
        self._site_index = {name: index for index, name in enumerate(sites)}
        self.rows = 0
        self._places = 0
        self.processes: list[Process] = []
        self._process_index: dict[str, int] = {}
        self.casts: dict[str, Cast] = {}
        """By id, in the order of their lowest row."""
        self.adopted: list[Adopted] = []
        """Lowest first."""
        self.site_views: list[Adopted] = []
        """By number: the lowest row of each."""
        self.shown: list[Shown] = []
        """View rows, lowest first."""
        self._of_row: dict[Event, Shown] = {}
        self.described: dict[tuple[str, int, int], Shown] = {}
        """By group, line and number: the lowest row of a view."""
        self._failed: dict[tuple[int, int], int] = {}
        """By site and incarnation: the place from which on it is over."""
        self._began: list[dict[int, int]] = [{} for _ in sites]
        """Of each site, by incarnation: the place of its first configuration."""
        self._ended: dict[int, int] = {}
        self._line_starts: list[int] = []
        self._down: set[int] = set()
        self._stand: set[int] = set()
        self._gone: set[int] = set()

    # -- building ---------------------------------------------------------------------------------------------

    def begin(self, site: int, inc: int) -> None:
        """The site entered a configuration in this incarnation."""
        self._places += 1
        self._began[site].setdefault(inc, self._places)

    def fail(self, site: int, inc: int) -> None:
        """The site's incarnation is over, and with it all its processes."""
        self._places += 1
        self._failed.setdefault((site, inc), self._places)

    def add(self, site: int, row: Row) -> None:
        """A row of the layer, with the fields that its kind requires."""
        self.rows += 1
        self._places += 1
        if row.kind == "site":
            members = tuple(sorted(cast("list[str]", row.members)))
            number, conf = cast(int, row.primary), cast(str, row.conf)
            self.adopted.append(Adopted(self._places, site, row.inc, row.n, number, conf, members))
            return
        event = Event(self._places, site, row.n, row.kind, self._process(cast(str, row.process)))
        if row.sender is not UNSET:
            event.sender = self._process(row.sender)
        if row.attempt is not UNSET:
            event.attempt = row.attempt
        if row.group is not UNSET:
            event.group = row.group
        if row.view is not UNSET:
            event.view = row.view
        if row.ts is not UNSET:
            event.ts = tuple(row.ts)
        if row.msg is not UNSET:
            event.msg = self._cast(row.msg)
        self.processes[event.process].events.append(event)
        self._note(event, row)

    def _note(self, event: Event, row: Row) -> None:
        kind, message = event.kind, event.msg
        if kind in _CASTS:
            assert message is not None
            self._add_attempt(message, event, row)
        elif kind == "receive":
            assert message is not None
            message.receives.append(event)
        elif kind == "reject":
            assert message is not None
            message.rejects.append(event)
        elif kind == "view":
            members, ranked = (
                tuple(map(self._process, cast("list[str]", names))) for names in (row.members, row.dests)
            )
            shown = Shown(event, cast(str, row.group), event.view, members, ranked, cast(int, row.primary))
            self.shown.append(shown)
            self._of_row[event] = shown
        elif kind == "end":
            self._ended.setdefault(event.process, event.place)

    def _add_attempt(self, message: Cast, event: Event, row: Row) -> None:
        if event.attempt in message.attempts:
            return
        dests = tuple(dict.fromkeys(map(self._process, cast("list[str]", row.dests))))
        text = "" if row.label is UNSET else row.label
        label: dict[str, int] = json.loads(text) if event.kind == "cbcast" else {}
        causal = event.kind == "cbcast" or (event.kind == "abcast" and row.service == "safe")
        replies = 0 if row.replies is UNSET else row.replies
        message.attempts[event.attempt] = Attempt(event, dests, label, text, causal, replies)

    def _process(self, name: str) -> int:
        index = self._process_index.get(name)
        if index is None:
            index = self._process_index[name] = len(self.processes)
            site, _, rest = name.rpartition(":")[0].rpartition(":")
            inc = int(rest) if rest.isdecimal() else 0
            self.processes.append(Process(name, self._site_index.get(site, -1), inc))
        return index

    def _cast(self, name: str) -> Cast:
        message = self.casts.get(name)
        if message is None:
            message = self.casts[name] = Cast(name)
        return message

    # -- indexing ---------------------------------------------------------------------------------------------

    def finish(self, down: Collection[int], standing_sites: Collection[int], settled: bool) -> None:
        """All rows have been added. `down`: the sites that were down at the end. `standing_sites`: where the run is
        settled, those that are up and in the component that holds a quorum."""
        self._down = set(down)
        for message in self.casts.values():
            if message.attempts:
                message.lowest, message.last_attempt = min(message.attempts), max(message.attempts)
        self._find_lines()
        for shown in self.shown:
            shown.line = bisect_right(self._line_starts, shown.primary)
            self.described.setdefault(shown.key, shown)
        for index, process in enumerate(self.processes):
            process.over = self._over(index, process)
            self._follow(process)
        for message in self.casts.values():
            self._address(message)
        self._find_standing(set(standing_sites), settled)

    def _find_lines(self) -> None:
        """A new line begins with a site view that has no SITE:BORN in common with the one before it."""
        by_number: dict[int, Adopted] = {}
        for row in self.adopted:
            by_number.setdefault(row.primary, row)
        self.site_views = [by_number[number] for number in sorted(by_number)]
        before: frozenset[str] = frozenset()
        for row in self.site_views:
            if before and before.isdisjoint(row.members):
                self._line_starts.append(row.primary)
            before = frozenset(row.members)

    def _over(self, index: int, process: Process) -> int:
        places = [self._ended.get(index, NEVER)]
        if process.site >= 0:
            places.append(self._failed.get((process.site, process.inc), NEVER))
            places += (place for inc, place in self._began[process.site].items() if inc > process.inc)
        return min(places)

    def _follow(self, process: Process) -> None:
        """Goes through a process's events: its views, its leaves, and in which view each event happens."""
        current: dict[str, Shown] = {}
        for event in process.events:
            group = event.group
            if event.kind == "view":
                shown = self._of_row[event]
                process.views.setdefault(shown.group, []).append(shown)
                event.inside = current.get(shown.group)
                current[shown.group] = shown
            elif group is not None:
                event.inside = current.get(group)
                if event.kind == "leave":
                    view = current.pop(group, None)
                    process.leaves.setdefault(group, []).append(Leave(event, view.number if view else 0))

    def _address(self, message: Cast) -> None:
        for event in message.receives:
            message.got.setdefault(event.process, event)
        insides = [event.inside for event in message.receives if event.inside is not None]
        if insides:
            message.accepted_in = min(view.number for view in insides)
        if message.attempts:
            message.dests = message.last.dests
            if message.kind == "gbcast" and insides:
                message.dests = insides[0].members

    def _find_standing(self, sites: set[int], settled: bool) -> None:
        last = self.site_views[-1].members if self.site_views else ()
        for index, process in enumerate(self.processes):
            lives = bool(process.events) and process.over == NEVER and process.site not in self._down
            if settled and lives and process.site in sites:
                self._stand.add(index)
            elif settled or not lives or self._is_cut_off(process, last):
                self._gone.add(index)
                process.unsure_from = self._last_mark(process)

    def _is_cut_off(self, process: Process, last: tuple[str, ...]) -> bool:
        """Is its site, as it was when it last adopted a site view, not in the run's last site view?"""
        born = self.born_of(process)
        return born is not None and born not in last

    def _last_mark(self, process: Process) -> int:
        marks = [view.event.place for views in process.views.values() for view in views]
        marks += (row.place for row in self.adopted if (row.site, row.inc) == (process.site, process.inc))
        return max((mark for mark in marks if mark < process.over), default=0)

    def _site_of(self, member: str) -> int:
        return self._site_index.get(member.rpartition(":")[0], -1)

    # -- asking -----------------------------------------------------------------------------------------------

    def born_of(self, process: Process) -> str | None:
        """Its site, as SITE:BORN, by the last site view that its site adopted in its life. None: there was none."""
        if not process.events:
            return None
        mine = [
            row
            for row in self.adopted
            if (row.site, row.inc) == (process.site, process.inc) and row.place < process.over
        ]
        return self._own(mine[-1], process.site) if mine else None

    def _own(self, row: Adopted, site: int) -> str | None:
        return next((member for member in row.members if self._site_of(member) == site), None)

    def site_view_at(self, number: int) -> tuple[str, ...]:
        """The members of the site view of this number, or of the last one below it."""
        place = bisect_right(self.site_views, number, key=lambda row: row.primary)
        return self.site_views[place - 1].members if place else ()

    def died_alone(self, process: Process) -> bool:
        """Has it an `end`, after which its site did not come to the line anew? Then its site did not kill it."""
        index = self._process_index[process.name]
        if index not in self._ended or self._ended[index] != process.over:
            return False
        later = next((r for r in self.adopted if r.site == process.site and r.place > process.over), None)
        return later is None or self._own(later, process.site) == self.born_of(process)

    def stands(self, process: int) -> bool:
        """Is it not over at the end of a settled run, at a site that is up and in the component with a quorum?"""
        return process in self._stand

    def is_gone(self, process: int) -> bool:
        """Is it over at the end, or cut off from those that go on? Nothing more is expected of it."""
        return process in self._gone

    def is_excused(self, message: Cast, process: int, until: int = NEVER) -> bool:
        """Had this destination left the group before `until`, so that it need not receive the cast?"""
        attempt = message.last.event
        if attempt.group is None:
            return False
        here = self.processes[process]
        accepted = -1 if message.accepted_in is None else message.accepted_in
        for leave in here.leaves.get(attempt.group, ()):
            if leave.event.place < until and leave.view >= attempt.view:
                # It may have joined again before the cast was accepted.
                back = any(
                    leave.event.place < view.event.place < until and view.number <= accepted
                    for view in here.views.get(attempt.group, ())
                )
                if not back:
                    return True
        return False

    def is_never_sent(self, message: Cast) -> bool:
        """A cast that was rejected, and whose sender is over, counts as never sent."""
        return bool(message.rejects) and not message.receives and self.is_gone(message.sender)

    def where(self, event: Event) -> tuple[str, int]:
        """Of a witness: the site and the row's number."""
        return self.sites[event.site], event.n

    def name(self, process: int) -> str:
        return self.processes[process].name

    def describe(self, event: Event) -> str:
        """An event in a witness: where it is, whose, and what it is."""
        site, n = self.where(event)
        words = [f"{site}#{n}", self.name(event.process), event.kind]
        if event.msg is not None:
            words.append(event.msg.name)
        if event.attempt:
            words.append(f"(attempt {event.attempt})")
        if event.sender >= 0:
            words.append(f"of {self.name(event.sender)}")
        if event.kind in ("view", "state"):
            words.append(f"{event.view} of {event.group}")
        elif event.group is not None:
            words.append(f"in {event.group}")
        return " ".join(words)
