"""What has to hold of the line of used configurations, from what the layers were handed, and nothing else.

Heirs are worked out here from the whole history, which no site knows: *the last one* is the last configuration that
any site knows to be used. A site that was outside of the primary component since then, or started again, is no heir.

A quorum has to know that it was in no later one. A site that started again knows it surely if it had answered for no
later one before, used or not. It surely does not if it was in a later one that could have been used. Otherwise it had
answered for a later one that it was never in: either is right then.
"""

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

from tests.sim.lineage_world import Line, LineWorld

from reconvene.core.effects import Changed, ConfKind, Used
from reconvene.site_list import SiteList

__all__ = ["Judgement", "judge"]


@dataclass(slots=True)
class Arrival:
    """A site as it installs a regular configuration, in one incarnation."""

    site: int
    number: int
    members: tuple[int, ...]
    sites: SiteList
    last: int
    """The last configuration that it knew to be used; 0: none."""
    outside: bool
    """It was outside of the primary component since."""
    exit: int
    """The first one that it installed since."""
    got: tuple[bytes, ...]
    """What it was handed since."""
    before: int
    """An earlier incarnation took part in a used one, and none answered for a later one than this; 0: it is not
    known, or there was none."""
    again: bool
    """It has started again."""
    primary: int
    """The last primary configuration that an earlier incarnation was in; 0: none."""
    older: bool
    """It runs an older program."""
    brought: bytes | None = None

    @property
    def active(self) -> int:
        return 0 if self.outside else self.last


@dataclass(slots=True)
class Judgement:
    violations: list[str] = field(default_factory=list)
    cases: Counter[str] = field(default_factory=Counter)

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.violations.append(what)


@dataclass(slots=True)
class _History:
    arrivals: dict[int, dict[int, Arrival]] = field(default_factory=dict)
    """By configuration and site."""
    used: dict[int, Used] = field(default_factory=dict)
    regular: set[int] = field(default_factory=set)
    """Those of them that a site used before they ended."""
    started: set[int] = field(default_factory=set)
    took_part: set[int] = field(default_factory=set)
    """Sites that were in a used one, in whatever incarnation."""
    primary: dict[int, int] = field(default_factory=dict)
    """By site: the last primary configuration that it was in."""


def judge(world: LineWorld) -> Judgement:
    judgement, history = Judgement(), _History()
    for line in world.lines:
        _walk(line, history, judgement)
    for number in sorted(history.used):
        _check(history.used[number], history, judgement)
    return judgement


def _walk(line: Line, history: _History, judgement: Judgement) -> None:
    """One incarnation of a site, event by event."""
    asked = {events: answer for events, _, answer in line.asked}
    last = exit_ = 0
    outside = ending = False
    got: list[bytes] = []
    arrival: Arrival | None = None
    before = line.stored if line.site in history.took_part else 0
    again, primary = line.site in history.started, history.primary.get(line.site, 0)
    history.started.add(line.site)
    for count, event in enumerate(line.events, 1):
        if isinstance(event, Changed):
            ending = event.kind is ConfKind.TRANSITIONAL or (ending and event.kind is ConfKind.HIDDEN)
            if event.kind is ConfKind.REGULAR:
                assert event.sites is not None
                number = int(event.conf)
                outside = outside or not event.sites.primary(event.members)
                exit_ = exit_ or number
                arrival = Arrival(
                    line.site, number, event.members, event.sites, last, outside, exit_, tuple(got),
                    before, again, primary, line.older, asked.get(count),
                )  # fmt: skip
                if event.sites.primary(event.members):
                    history.primary[line.site] = number
                history.arrivals.setdefault(number, {})[line.site] = arrival
        elif isinstance(event, Used):
            assert arrival is not None
            where = f"site {line.site}, used {event.number}"
            judgement.expect(
                history.used.setdefault(event.number, event) == event, f"{where}: not the same everywhere"
            )
            judgement.expect((event.number, event.members) == (arrival.number, arrival.members), f"{where}: not here")
            judgement.expect(arrival.sites.primary(arrival.members), f"{where}: not primary")
            judgement.expect(event.number > last, f"{where}: once, and in order")
            if event.brought is not None:
                judgement.expect(event.brought.get(line.site) == arrival.brought, f"{where}: brought something else")
            if not ending:
                history.regular.add(event.number)
            judgement.cases["in the transitional one" if ending else "in the regular one"] += 1
            last, exit_, outside = event.number, 0, False
            got = []
            history.took_part.add(line.site)
        else:
            got += event.payloads


def _check(used: Used, history: _History, judgement: Judgement) -> None:
    where = f"used {used.number}"
    arrivals = history.arrivals[used.number]
    earlier = [number for number in sorted(history.used) if number < used.number]
    heirs = [arrivals[site] for site in used.heirs if site in arrivals]
    judgement.expect(list(used.heirs) == sorted(set(used.heirs) & set(used.members)), f"{where}: heirs are members")
    judgement.expect(used.brought is None or sorted(used.brought) == sorted(used.members), f"{where}: all bring")
    for one, two in pairwise(heirs):
        judgement.expect(
            (one.active, one.exit, one.got) == (two.active, two.exit, two.got), f"{where}: heirs have parted before"
        )
    for heir in heirs:
        judgement.expect(heir.active > 0, f"{where}: heir {heir.site} was outside")
        passed = [number for number in earlier if number > heir.active and number in history.regular]
        judgement.expect(not passed, f"{where}: heirs come from {heir.active}, and {passed} were used since")
    if used.brought is None:
        _check_together(used, arrivals, judgement)
    else:
        _check_exchange(used, arrivals, earlier[-1] if earlier else 0, judgement)


def _check_together(used: Used, arrivals: dict[int, Arrival], judgement: Judgement) -> None:
    anew = any(not arrival.active for arrival in arrivals.values())
    judgement.cases["together, anew" if anew else "together"] += 1
    judgement.expect(used.heirs == (() if anew else used.members), f"used {used.number}: those who came together")


def _check_exchange(used: Used, arrivals: dict[int, Arrival], last: int, judgement: Judgement) -> None:
    where = f"used {used.number}"
    judgement.expect(sorted(arrivals) == sorted(used.members), f"{where}: a member that never installed it")
    remembering = [site for site, arrival in sorted(arrivals.items()) if arrival.last]
    surely, perhaps = list(remembering), list(remembering)
    if not any(arrival.older for arrival in arrivals.values()):
        anew = [arrival for _, arrival in sorted(arrivals.items()) if not arrival.last]
        surely += [arrival.site for arrival in anew if 0 < arrival.before <= last]
        perhaps += [arrival.site for arrival in anew if arrival.again and arrival.primary <= last]
    sites = next(iter(arrivals.values())).sites
    exits: dict[int, list[int]] = {}
    for site in remembering:
        if arrivals[site].active == last:
            exits.setdefault(arrivals[site].exit, []).append(site)
    if not sites.primary(perhaps):
        judgement.cases["a quorum forgot"] += 1
        judgement.expect(used.heirs == (), f"{where}: a quorum forgot")
    elif exits:
        most = max(len(some) for some in exits.values())
        first = min(exit_ for exit_, some in exits.items() if len(some) == most)
        judgement.cases["several exits" if len(exits) > 1 else "one exit"] += 1
        if not sites.primary(remembering):
            judgement.cases["a witness" if sites.primary(surely) else "perhaps a witness"] += 1
        allowed = [tuple(exits[first]), *([] if sites.primary(surely) else [()])]
        judgement.expect(used.heirs in allowed, f"{where}: heirs {used.heirs}, expected {allowed}")
    else:
        # The last one may be unknown to these. Whom they follow is checked above.
        judgement.cases["none of the last"] += 1
