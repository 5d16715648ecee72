"""The events of process groups with the filter (layer `vs`), in the form that the checks read.

A process is one identity: its id. For `Precedes` it takes a node's place, and a view (a group and its number) a
configuration's, so `node` and `conf` are the columns of processes and views here; `site` is where the row stands.
Events are numbered by process, then by place in the file. What is *lowest* goes by site, then by place in its file,
whichever process it is of: rows are added in that order, so what is met first is lowest.
"""

from dataclasses import dataclass, field
from typing import cast

from msgspec import UNSET

from reconvene.trace.events import Row
from reconvene.verify.codes import AGREED, CONF, DELIVER, FAIL, NONE, SEND, SERVICES

__all__ = ["Declared", "KnownView", "Processes"]

_NAMES = {code: name for name, code in SERVICES.items()}
_KINDS = {"view": CONF, "cast": SEND, "deliver": DELIVER, "stop": FAIL}


@dataclass(slots=True, frozen=True)
class Declared:
    """What one view event says of its view."""

    members: frozenset[int]
    primary: int
    conf: str


@dataclass(slots=True)
class KnownView:
    """A group's view as its lowest event describes it. One that no process installed has no members."""

    group: int
    number: int
    members: frozenset[int] = frozenset()
    primary: int = NONE
    entered: list[int] = field(default_factory=list)
    """Its view events, lowest first."""


class Processes:
    """One run's process groups. `sites` are the names of those that have a file, sorted."""

    def __init__(self, sites: list[str]) -> None:
        self.sites = sites
        self.names: list[str] = []
        """The id of each process."""
        self._process_index: dict[str, int] = {}
        self.groups: list[str] = []
        self._group_index: dict[str, int] = {}
        self.confs: list[KnownView] = []
        self._view_index: dict[tuple[int, int], int] = {}
        self.messages: list[str] = []
        self._msg_index: dict[str, int] = {}
        self.timestamps: list[tuple[int, ...]] = []
        self._ts_index: dict[tuple[int, ...], int] = {}
        self._member_sets: dict[tuple[str, ...], frozenset[int]] = {}

        self.first: list[int] = []
        """Process p's events are first[p] … first[p + 1] - 1."""
        self.node: list[int] = []
        self.site: list[int] = []
        self.n: list[int] = []
        self.kind: list[int] = []
        self.conf: list[int] = []
        self.msg: list[int] = []
        self.service: list[int] = []
        self.sender: list[int] = []
        self.ts: list[int] = []
        """Place among the run's distinct timestamps, in their order; NONE where there is none."""
        self.rank: list[int] = []
        """Of each event, its place among all, lowest first."""
        self.declared: dict[int, Declared] = {}
        self.late: set[int] = set()
        """Events of a process after it was over."""
        self.sent: list[int] = []
        """Of each message, its lowest cast, or NONE."""
        self.first_delivered: list[int] = []
        """Of each message, its lowest delivery, or NONE."""
        self.msg_service: list[int] = []
        """As it was cast; where no cast is known, as it was first delivered."""
        self.delivered: list[dict[int, set[int]]] = []
        """Of each view, by process: the messages that it delivered there."""
        self.home: list[int] = []
        """Of each message, the view of its lowest delivery; where nobody delivered it, that of its cast."""

        self._inc = [0] * len(sites)
        self._failed: set[tuple[int, int]] = set()
        self._stopped: set[tuple[int, int]] = set()
        """(process, group)"""
        self._home: dict[int, tuple[int, int]] = {}
        """Of each process that has events, (site, incarnation)."""
        self._down: set[int] = set()

    @property
    def nodes(self) -> int:
        """How many processes there are, those too that only others name."""
        return len(self.names)

    # -- building ---------------------------------------------------------------------------------------------

    def begin(self, site: int, inc: int) -> None:
        """The site has entered a configuration in this incarnation."""
        self._inc[site] = max(self._inc[site], inc)

    def fail(self, site: int, inc: int) -> None:
        """The site's incarnation is over, and with it all its processes."""
        self._failed.add((site, inc))

    def add(self, site: int, row: Row) -> None:
        """A row of the layer, with the fields that its kind requires; those of other kinds are passed over."""
        kind = _KINDS.get(row.kind)
        if kind is None:
            return
        event = len(self.node)
        process = self._process(cast(str, row.process))
        group = self._group(cast(str, row.group))
        view = self._view(group, cast(int, row.view))
        self._home[process] = (site, row.inc)
        if (site, row.inc) in self._failed or row.inc < self._inc[site] or (process, group) in self._stopped:
            self.late.add(event)
        msg = service = sender = stamp = NONE
        if kind == DELIVER:
            msg = self._message(cast(str, row.msg))
            service = SERVICES[cast(str, row.service)]
            sender = self._process(cast(str, row.sender))
            if row.ts is not UNSET and service >= AGREED:
                stamp = self._timestamp(tuple(row.ts))
            if self.first_delivered[msg] == NONE:
                self.first_delivered[msg] = event
        elif kind == SEND:
            msg = self._message(cast(str, row.msg))
            service = SERVICES[cast(str, row.service)]
            if self.sent[msg] == NONE:
                self.sent[msg] = event
        elif kind == CONF:
            self._declare(event, view, row)
        else:
            self._stopped.add((process, group))
        self.node.append(process)
        self.site.append(site)
        self.n.append(row.n)
        self.kind.append(kind)
        self.conf.append(view)
        self.msg.append(msg)
        self.service.append(service)
        self.sender.append(sender)
        self.ts.append(stamp)

    def _process(self, name: str) -> int:
        index = self._process_index.get(name)
        if index is None:
            index = self._process_index[name] = len(self.names)
            self.names.append(name)
        return index

    def _group(self, group: str) -> int:
        index = self._group_index.get(group)
        if index is None:
            index = self._group_index[group] = len(self.groups)
            self.groups.append(group)
        return index

    def _view(self, group: int, number: int) -> int:
        index = self._view_index.get((group, number))
        if index is None:
            index = self._view_index[group, number] = len(self.confs)
            self.confs.append(KnownView(group, number))
        return index

    def _message(self, msg: str) -> int:
        index = self._msg_index.get(msg)
        if index is None:
            index = self._msg_index[msg] = len(self.messages)
            self.messages.append(msg)
            self.sent.append(NONE)
            self.first_delivered.append(NONE)
        return index

    def _timestamp(self, ts: tuple[int, ...]) -> int:
        index = self._ts_index.get(ts)
        if index is None:
            index = self._ts_index[ts] = len(self._ts_index)
        return index

    def _declare(self, event: int, view: int, row: Row) -> None:
        names = tuple(cast("list[str]", row.members))
        members = self._member_sets.get(names)
        if members is None:
            # All processes have the same views: one set for all of them.
            members = self._member_sets[names] = frozenset(map(self._process, names))
        self.declared[event] = Declared(members, cast(int, row.primary), cast(str, row.conf))
        known = self.confs[view]
        if not known.entered:
            known.members, known.primary = members, cast(int, row.primary)
        known.entered.append(event)

    def finish(self, down: set[int]) -> None:
        """All rows have been added; the sites in `down` were down at the end."""
        self._down = down
        self._order_by_process()
        self._rank_timestamps()
        self.msg_service = [
            self.service[cast_ if cast_ != NONE else delivery]
            for cast_, delivery in zip(self.sent, self.first_delivered, strict=True)
        ]
        self.home = [
            self.conf[delivery if delivery != NONE else cast_]
            for cast_, delivery in zip(self.sent, self.first_delivered, strict=True)
        ]
        self.delivered = [{} for _ in self.confs]
        for event, kind in enumerate(self.kind):
            if kind == DELIVER:
                here = self.delivered[self.conf[event]]
                mine = here.get(self.node[event])
                if mine is None:
                    mine = here[self.node[event]] = set()
                mine.add(self.msg[event])
        self._member_sets.clear()

    def _order_by_process(self) -> None:
        """The processes of a site take turns in its file; here each one's events stand together."""
        process = self.node
        order = sorted(range(len(process)), key=process.__getitem__)
        place = [0] * len(order)
        for new, old in enumerate(order):
            place[old] = new
        self.rank = order
        counts = [0] * (self.nodes + 1)
        for index in process:
            counts[index + 1] += 1
        for index in range(self.nodes):
            counts[index + 1] += counts[index]
        self.first = counts
        for name in ("node", "site", "n", "kind", "conf", "msg", "service", "sender", "ts"):
            column = getattr(self, name)
            setattr(self, name, [column[old] for old in order])
        place.append(NONE)  # so that NONE, which is the last index, stays NONE
        self.sent = [place[event] for event in self.sent]
        self.first_delivered = [place[event] for event in self.first_delivered]
        self.late = {place[event] for event in self.late}
        self.declared = {place[event]: declared for event, declared in self.declared.items()}
        for view in self.confs:
            view.entered = [place[event] for event in view.entered]

    def _rank_timestamps(self) -> None:
        self.timestamps = sorted(self._ts_index)
        rank = [0] * len(self.timestamps)
        for place, ts in enumerate(self.timestamps):
            rank[self._ts_index[ts]] = place
        rank.append(NONE)
        self.ts = [rank[stamp] for stamp in self.ts]
        self._ts_index.clear()

    # -- asking -----------------------------------------------------------------------------------------------

    def is_over(self, process: int, group: int) -> bool:
        """At the end of the run: did the process leave the group, or its site fail?"""
        if (process, group) in self._stopped or process not in self._home:
            return True
        site, inc = self._home[process]
        return (site, inc) in self._failed or inc < self._inc[site] or site in self._down

    def lowest(self, events: list[int]) -> int:
        return min(events, key=self.rank.__getitem__)

    def where(self, event: int) -> tuple[str, int]:
        """Of a witness: the site and the row's number."""
        return self.sites[self.site[event]], self.n[event]

    def view_name(self, view: int) -> str:
        known = self.confs[view]
        return f"view {known.number} of {self.groups[known.group]}"

    def describe(self, event: int) -> str:
        """An event in a witness: where it is, whose, and what it is."""
        site, n = self.where(event)
        whose = f"{site}#{n} {self.names[self.node[event]]}"
        kind, view = self.kind[event], self.view_name(self.conf[event])
        if kind in (SEND, DELIVER):
            verb = "cast" if kind == SEND else "deliver"
            return f"{whose} {verb} {_NAMES[self.service[event]]} {self.messages[self.msg[event]]} in {view}"
        return f"{whose} stop in {view}" if kind == FAIL else f"{whose} {view}"
