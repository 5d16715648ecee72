"""The table of groups: the same at every site of the site view, at the same place of the order of control messages.

It is what the paper calls the cache: a site addresses casts to a group by it. Views of a group are numbered without
gaps, also where the group was empty meanwhile.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain

from msgspec import structs

from reconvene.core.groups.events import Process
from reconvene.isis.here import SiteView
from reconvene.isis.last_to_fail import last_to_fail
from reconvene.isis.local import Outcome
from reconvene.isis.messages import (
    Action,
    GroupEntry,
    MemberEntry,
    OpenEntry,
    Priority,
    Ready,
    StoredView,
    encoded_size,
)
from reconvene.isis.messages import Table as Piece

__all__ = ["GROUP_PROPERTIES_BYTES", "PROPERTIES_BYTES", "Group", "OpenGbcast", "Table"]

GROUP_PROPERTIES_BYTES = 64 << 10
"""Of all properties of a group, names and values."""
PROPERTIES_BYTES = 4 << 20
"""Of the properties of all groups. All sites decide alike what is too much: so neither is a setting."""
_PIECE_BYTES = 256 << 10
"""A newcomer gets the table in pieces of about this size. One entry is never divided: a group with all its properties
takes 64 KiB and some bytes for each member."""


class OpenGbcast:
    """A GBCAST that is announced and not concluded."""

    __slots__ = ("action", "concerned", "number", "ready", "round")

    def __init__(self, number: int, action: Action, concerned: Iterable[Process]) -> None:
        self.number = number
        self.action = action
        self.concerned = frozenset(concerned)
        """Processes that have a gate for it."""
        self.round = 0
        """The first GBCAST of those that it is concluded with; 0: it waits for others."""
        self.ready: dict[int, Ready] = {}
        """By site; of the first of a round, for all of it."""

    @property
    def grows(self) -> bool:
        return self.action.kind == "join"

    @property
    def locks(self) -> bool:
        """Casts of members belong to the view that it ends: new ones wait."""
        return self.action.kind in ("join", "delete")


class Group:
    __slots__ = (
        "barrier", "deleted", "gained", "name", "number", "open", "properties", "ranked", "stored", "view", "waiting",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.view = 0
        self.gained = 0
        """The last view that gained a member."""
        self.number = 0
        """Of the site view in which its last view was decided."""
        self.barrier: Priority = (0, 0)
        """Of the last GBCAST. Barriers of a group never go back."""
        self.ranked: list[MemberEntry] = []
        self.properties: dict[str, bytes] = {}
        self.open: list[OpenGbcast] = []
        """In the order of their announcements."""
        self.waiting: list[Action] = []
        """Joins to a group without members, until it is known who failed last; …"""
        self.stored: dict[int, StoredView] = {}
        """… and what sites have stored of it, also those that are lost again."""
        self.deleted = (0, 0)
        """(number, view) when it was last deleted: what sites have stored of it up to then counts no more."""

    @property
    def is_empty(self) -> bool:
        """There is nobody in it, and nothing to come of it."""
        return not (self.ranked or self.open or self.waiting or self.stored)

    def members(self) -> list[Process]:
        return [member.process for member in self.ranked]

    def knows(self, process: Process) -> bool:
        """It is a member, or has asked to be one."""
        return process in self.prospective() or any(join.process == process for join in self.waiting)

    def prospective(self) -> list[Process]:
        """The members, and those that an open GBCAST adds."""
        joining = [gbcast.action.process for gbcast in self.open if gbcast.grows]
        return [*self.members(), *[process for process in joining if process not in self.members()]]


class Table:
    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.open: list[OpenGbcast] = []
        """Of all groups, in the order of their announcements."""
        self.announced = 0
        self.number = 0
        """Of the site view."""

    def reset(self) -> None:
        self.groups.clear()
        self.open.clear()
        self.announced = 0

    # -- GBCASTs

    def announce(self, action: Action) -> list[OpenGbcast]:
        """Returns the GBCASTs that it opens: none where it means nothing, or has to wait; several where a process has
        failed, or joins have waited."""
        if action.kind == "failed":
            groups = [self.groups[name] for name in sorted(self.groups)]
            for one in groups:
                one.waiting = [join for join in one.waiting if join.process != action.process]
            return [
                self._open(group, Action("failed", group.name, action.process))
                for group in groups
                if action.process in group.prospective()
            ]
        group = self.groups.get(action.group)
        if group is None:
            if action.kind != "join":
                return []
            group = self.groups[action.group] = Group(action.group)
        known = action.process in group.prospective()
        if (action.kind == "join" and group.knows(action.process)) or (action.kind == "leave" and not known):
            return []
        if action.kind == "join" and not group.prospective():
            return self._begin(group, action)
        return [self._open(group, action)]

    def _begin(self, group: Group, join: Action) -> list[OpenGbcast]:
        """A process joins a group without members. Those that failed last go first."""
        waiting = [*group.waiting, join]
        if join.lasting:
            if join.stored is not None:
                self._note(group, join.process.site, join.stored)
            last = last_to_fail({waits.process.site for waits in waiting}, group.stored)
            if last is None:
                group.waiting = waiting
                return []
            waiting.sort(key=lambda waits: waits.process.site not in last)  # else as they came
            waiting = [
                structs.replace(waits, last=sorted(last)) if not last or waits.process.site in last else waits
                for waits in waiting
            ]
        else:
            waiting = [join, *group.waiting]
        group.waiting = []
        group.stored = {}
        return [self._open(group, waits) for waits in waiting]

    def note_stored(self, stored: Mapping[int, Mapping[str, StoredView]]) -> None:
        """What the sites of a new site view have stored of groups; it counts for those that have no members."""
        for site in sorted(stored):
            for name, view in stored[site].items():
                group = self.groups.setdefault(name, Group(name))
                if not group.prospective():
                    self._note(group, site, view)

    def _note(self, group: Group, site: int, view: StoredView) -> None:
        if (view.number, view.view) > group.deleted:
            group.stored[site] = view

    def release_waiting(self, group: Group) -> list[Action]:
        """The group was deleted: those that waited to join it may begin it anew."""
        waiting, group.waiting = group.waiting, []
        return [structs.replace(join, stored=None) for join in waiting]

    def forget_waiting(self, view: SiteView) -> None:
        """Processes of lost sites join no more; what their sites have stored is still known."""
        for group in self.groups.values():
            group.waiting = [join for join in group.waiting if view.has(join.process)]

    def _open(self, group: Group, action: Action) -> OpenGbcast:
        self.announced += 1
        concerned = group.prospective()
        if action.kind == "join":
            concerned.append(action.process)
        gbcast = OpenGbcast(self.announced, action, concerned)
        group.open.append(gbcast)
        self.open.append(gbcast)
        return gbcast

    def locking(self, group: str) -> list[OpenGbcast]:
        """Those under way by which the group grows or ends."""
        return [gbcast for gbcast in self.open if gbcast.locks and gbcast.action.group == group]

    def sites(self, gbcast: OpenGbcast) -> set[int]:
        """Those that have to be ready before it is concluded."""
        sites = {member.process.site for member in self.groups[gbcast.action.group].ranked}
        if gbcast.grows:
            sites.add(gbcast.action.process.site)
        return sites

    def conclude(self, gbcast: OpenGbcast) -> Outcome:
        """It takes effect. Views and ranks are refused alike everywhere where they are none."""
        action = gbcast.action
        group = self.groups[action.group]
        assert group.open[0] is gbcast, "GBCASTs of a group are concluded in their order"
        group.open.pop(0)
        self.open.remove(gbcast)
        outcome = Outcome()
        members = group.members()
        match action.kind:
            case "join" if action.process not in members:
                group.ranked.append(MemberEntry(action.process, action.answers, action.state, action.lasting))
                group.gained = group.view + 1
                self._next_view(group, outcome)
                outcome.last_to_fail = () if members else tuple(action.last or ())
            case "leave" | "failed" if action.process in members:
                if action.kind == "failed":
                    self._note_lost(group, (action.process,))
                group.ranked = [member for member in group.ranked if member.process != action.process]
                self._next_view(group, outcome)
                if action.kind == "leave":
                    outcome.leaver = action.process
                else:
                    outcome.lost = (action.process,)
            case "rank" if sorted(action.order) == sorted(members):
                by_process = {member.process: member for member in group.ranked}
                group.ranked = [by_process[process] for process in action.order]
                self._next_view(group, outcome)
            case "delete" if not group.is_empty:
                group.deleted = (group.number, group.view)
                group.ranked, group.properties, group.stored = [], {}, {}
                self._next_view(group, outcome)
                outcome.deleted = True
            case "set" if members and self.has_room(group, action.properties):
                group.properties = {**group.properties, **action.properties}
                self._next_view(group, outcome)
            case "cast" if action.id is not None:
                outcome.cast = (action.id, action.process, action.view, action.payload)
            case _:
                pass
        return outcome

    def has_room(self, group: Group | None, properties: Mapping[str, bytes]) -> bool:
        """The group may have these properties too. None: one that this site does not know."""
        size = _size({**group.properties, **properties} if group is not None else properties)
        others = sum(_size(other.properties) for other in self.groups.values() if other is not group)
        return size <= GROUP_PROPERTIES_BYTES and size + others <= PROPERTIES_BYTES

    def fail(self, group: Group, lost: Iterable[Process]) -> Outcome:
        """Members were lost with their sites."""
        gone = tuple(lost)
        self._note_lost(group, gone)
        group.ranked = [member for member in group.ranked if member.process not in gone]
        outcome = Outcome()
        self._next_view(group, outcome)
        outcome.lost = gone
        return outcome

    def _note_lost(self, group: Group, lost: Collection[Process]) -> None:
        """Where no member is left: the last ones may have stored the last view."""
        if all(member.process in lost for member in group.ranked):
            sites = sorted({member.process.site for member in group.ranked if member.lasting})
            group.stored = {site: StoredView(group.number, group.view, sites) for site in sites}

    def is_premature(self, gbcast: OpenGbcast, view: SiteView) -> bool:
        """A join that was to follow members, all of which have failed since: it has to wait for those that failed
        last, as if it were announced now."""
        action = gbcast.action
        if not (gbcast.grows and action.lasting and action.last is None):
            return False
        return not any(view.has(member) for member in self.groups[action.group].members())

    def has_failed(self, process: Process, group: str) -> bool:
        """It was announced that the process, which was to join the group, has died: nobody will announce it again."""
        actions = [gbcast.action for gbcast in self.groups[group].open]
        return any(action.kind == "failed" and action.process == process for action in actions)

    def drop(self, gbcast: OpenGbcast) -> None:
        """It is void: whoever asked for it is lost, and nobody has to do with it any more."""
        self.groups[gbcast.action.group].open.remove(gbcast)
        self.open.remove(gbcast)

    def _next_view(self, group: Group, outcome: Outcome) -> None:
        group.view += 1
        group.number = self.number
        outcome.view = group.view
        outcome.ranked = tuple(group.ranked)
        outcome.properties = group.properties
        outcome.gained = group.gained

    # -- for newcomers

    def pieces(self, view: int, clock: int, *, changing: bool, most: int = _PIECE_BYTES) -> list[Piece]:
        """The table in messages of about so many bytes, at least one."""
        pieces = [Piece(view, [], [], self.announced, clock, changing)]
        size = 0
        entries: Iterator[GroupEntry | OpenEntry] = chain(self._group_entries(), self._open_entries())
        for entry in entries:
            weight = encoded_size(entry)
            if size and size + weight > min(most, _PIECE_BYTES):
                pieces[-1] = structs.replace(pieces[-1], last=False)
                pieces.append(Piece(view, [], [], self.announced, clock, changing))
                size = 0
            size += weight
            if isinstance(entry, GroupEntry):
                pieces[-1].groups.append(entry)
            else:
                pieces[-1].open.append(entry)
        return pieces

    def _group_entries(self) -> Iterator[GroupEntry]:
        for name in sorted(self.groups):
            group = self.groups[name]
            yield GroupEntry(
                group.name,
                group.view,
                group.gained,
                list(group.ranked),
                group.properties,
                group.number,
                group.waiting,
                group.stored,
                group.barrier,
                group.deleted,
            )

    def _open_entries(self) -> Iterator[OpenEntry]:
        for gbcast in self.open:
            action = structs.replace(gbcast.action, payload=b"")
            ready = [(site, structs.replace(said, casts=[])) for site, said in sorted(gbcast.ready.items())]
            yield OpenEntry(gbcast.number, action, ready, sorted(gbcast.concerned), gbcast.round)

    def load(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            self._load(piece.groups, piece.open, piece.announced)

    def _load(self, groups: Iterable[GroupEntry], open_: Iterable[OpenEntry], announced: int) -> None:
        self.announced = announced
        for entry in groups:
            group = self.groups[entry.name] = Group(entry.name)
            group.view, group.gained, group.barrier = entry.view, entry.gained, entry.barrier
            group.deleted = entry.deleted
            group.ranked, group.properties = list(entry.ranked), dict(entry.properties)
            group.number, group.waiting, group.stored = entry.number, list(entry.waiting), dict(entry.stored)
        for opened in open_:
            if opened.action.group not in self.groups:
                continue  # a lie
            gbcast = OpenGbcast(opened.number, opened.action, opened.concerned)
            gbcast.ready, gbcast.round = dict(opened.ready), opened.round
            self.groups[opened.action.group].open.append(gbcast)
            self.open.append(gbcast)

    def invariants(self) -> None:
        assert [g.number for g in self.open] == sorted(g.number for g in self.open)
        assert sum(len(group.open) for group in self.groups.values()) == len(self.open)
        for group in self.groups.values():
            members = group.members()
            assert len(set(members)) == len(members)
            assert group.gained <= group.view


def _size(properties: Mapping[str, bytes]) -> int:
    return sum(len(name.encode()) + len(value) for name, value in properties.items())
