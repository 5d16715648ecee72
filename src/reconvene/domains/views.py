"""What a site knows of wide groups and of lost sites, and what it reports of them.

Given: joins and leaves of this cluster's processes at their places in its order, and rosters at their places above.
Promised: a wide view at a place above has the same members wherever it is reported, as far as the domains' rules let
the group pass. A view is reported once this cluster's own roster has come back: so a process finds itself in it.

Losses (paper: ISIS, 4.6): that a site has failed is decided by a majority of its own cluster alone, and others learn
it from there. A cluster that can't be reached any more has lost nobody.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from reconvene.domains.events import Lost, WideEvent, WideView
from reconvene.domains.messages import MOST_MEMBERS, Joined, Line, Loss, Member, News, Roster
from reconvene.domains.rosters import Local, Rosters, size_of
from reconvene.domains.tree import Domain
from reconvene.errors import Rejected, Unavailable

__all__ = ["Views"]

_REPORTED = 4_096
"""Losses that are remembered, so that each is reported once."""


class Views:
    def __init__(self, domain: Domain, ordinal: int, most_bytes: int = 1 << 20) -> None:
        """`most_bytes`: of the cluster's roster."""
        self.version = 0
        """How often the cluster's roster has changed in this local configuration."""
        self._domain = domain
        self._ordinal = ordinal
        self._conf = 0
        self._members: tuple[int, ...] = ()
        self._wanted: set[Joined] = set()
        """What this site's processes have asked for."""
        self._wanted_bytes = 0
        self._under_way: set[tuple[Joined, bool]] = set()
        self._is_due = False
        """Perhaps not all of it is sent."""
        self._most_bytes = most_bytes
        self._local = Local(most_bytes)
        self._rosters = Rosters()
        self._told: tuple[int, ...] = ()
        """The place up to which `_rosters` goes."""
        self._reported: dict[str, tuple[str, ...]] = {}
        """By group, the last view in this wide configuration."""
        self._lost: dict[str, int] = {}
        """By site, the configuration that went on without it: what the others are not known to have heard."""
        self._losses: deque[tuple[str, str, int]] = deque(maxlen=_REPORTED)
        self._entered: deque[int] = deque(maxlen=_REPORTED)
        """The local configurations that this site was in."""

    # -- requests

    def join(self, group: str, process: str) -> None:
        if not self._domain.passes_out(group):
            raise Rejected(f"group {group!r} does not leave domain {self._domain.name}: join it without wide=True")
        if len(self._wanted) >= MOST_MEMBERS:
            raise Unavailable(f"processes of this site are in {MOST_MEMBERS} wide groups already")
        one = Joined(self._ordinal, group, process)
        if one not in self._wanted:
            if self._wanted_bytes + size_of(one) > self._most_bytes:
                raise Unavailable(f"the names in wide groups of this site exceed {self._most_bytes} bytes")
            self._wanted.add(one)
            self._wanted_bytes += size_of(one)
        self._is_due = True

    def leave(self, group: str, process: str) -> None:
        one = Joined(self._ordinal, group, process)
        if one in self._wanted:
            self._wanted.remove(one)
            self._wanted_bytes -= size_of(one)
        self._is_due = True

    def due(self) -> Member | None:
        """The next join or leave that is to be sent; `sent` follows, if it is."""
        if not self._is_due:
            return None
        for one in sorted(self._wanted.symmetric_difference(self._local.of_site(self._ordinal))):
            joins = one in self._wanted
            if (one, joins) not in self._under_way:
                return Member(one.group, one.process, joins)
        self._is_due = False
        return None

    def sent(self, member: Member) -> None:
        self._under_way.add((Joined(self._ordinal, member.group, member.process), member.joins))

    # -- the local configuration

    def line(self, part: Sequence[int]) -> tuple[list[int], list[Loss], list[Joined]]:
        """What this part brings into the next configuration: the members that it had, and what it knows."""
        lost = [Loss(site, conf) for site, conf in sorted(self._lost.items())]
        return list(self._members), lost, self._local.of_part(part)

    def begin(self, conf: int, members: tuple[int, ...]) -> None:
        self._conf, self._members = conf, members
        self._entered.append(conf)
        self.version = 0
        self._under_way.clear()
        self._is_due = True
        self._reported.clear()

    def met(self, lines: Iterable[Line], sites: Sequence[str]) -> None:
        """All parts have said what they bring."""
        lines = list(lines)
        self._local.meet((line.members, line.joined) for line in lines)
        self._lost = {}
        for line in lines:
            for loss in line.lost:
                if loss.site in sites:
                    self._lost[loss.site] = max(loss.conf, self._lost.get(loss.site, 0))
        if 2 * len(self._members) > len(sites):
            dropped = {ordinal for line in lines for ordinal in line.before if ordinal < len(sites)}
            for ordinal in sorted(dropped.difference(self._members)):
                self._lost[sites[ordinal]] = self._conf

    def member(self, sender: int, member: Member) -> bool:
        """A process joins or leaves, at its place in the cluster's order. Returns whether the roster has changed."""
        one = Joined(sender, member.group, member.process)
        changed = self._domain.passes_out(member.group) and self._local.apply(one, member.joins)
        if changed:
            self.version += 1
            self._under_way.discard((one, member.joins))
            self._is_due = True
        return changed

    def roster(self) -> Roster:
        lost = [Loss(site, conf) for site, conf in sorted(self._lost.items())]
        groups = sorted(self._local.groups().items())
        return Roster(self._domain.name, self._conf, self.version, list(self._members), groups, lost)

    # -- wide configurations

    def enter(self, number: int) -> None:
        """A regular wide configuration begins: nothing is told in it yet."""
        self._rosters, self._told = Rosters(), (number,)
        self._reported.clear()

    def learn(self, rosters: Iterable[Roster], told: tuple[int, ...]) -> None:
        """What was told before this site entered."""
        if told > self._told:
            self._rosters, self._told = Rosters(rosters), told

    def news(self, news: News, conf: str, line: tuple[int, ...]) -> list[WideEvent]:
        """A roster came from above. Returns what is new, for a site that has delivered up to `line`."""
        place, roster = tuple(news.place), news.roster
        if place > self._told:
            self._rosters.apply(roster)
            self._told = place
        if roster.domain == self._domain.name:
            for loss in roster.lost:
                if self._lost.get(loss.site) == loss.conf:
                    del self._lost[loss.site]
        if place <= line:
            return []
        events: list[WideEvent] = list(self._report_lost(conf, roster))
        if self._rosters.has(self._domain.name, self._conf):
            events += self._report(conf, place)
        return events

    @property
    def told(self) -> frozenset[str]:
        """The domains whose rosters the views have that were reported in this wide configuration."""
        is_reported = self._rosters.has(self._domain.name, self._conf)
        return self._rosters.domains if is_reported else frozenset()

    def alone(self, conf: str, place: tuple[int, ...]) -> list[WideEvent]:
        """The cluster's roster is all that there is, from this place on: without a gateway."""
        roster = self.roster()
        self._rosters.apply(roster)
        return [*self._report_lost(conf, roster), *self._report(conf, place)]

    def _report(self, conf: str, place: tuple[int, ...]) -> list[WideEvent]:
        views = self._rosters.views()
        events: list[WideEvent] = []
        for group in sorted({*views, *self._reported}):
            members = views.get(group, ())
            if self._reported.get(group) != members:
                self._reported[group] = members
                events.append(WideView(conf, group, place, members))
        return events

    def _report_lost(self, conf: str, roster: Roster) -> Iterable[Lost]:
        for loss in roster.lost:
            named = (roster.domain, loss.site, loss.conf)
            # At home it is the verdict of those that were there: the others may be members of that configuration that
            # never entered it. Their own configurations show them who is there.
            is_known = roster.domain != self._domain.name or loss.conf in self._entered
            if is_known and named not in self._losses:
                self._losses.append(named)
                yield Lost(conf, roster.domain, loss.site, str(loss.conf))
