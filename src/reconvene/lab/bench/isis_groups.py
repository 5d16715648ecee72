"""How long a group takes to change, in virtual time: a join, and the crash of a site that is in many groups."""

from statistics import fmean

from reconvene.isis.events import IsisEvent, ViewShown
from reconvene.lab.load.isis_simulated import IsisLab
from reconvene.lab.load.simulated import MS, SECOND

__all__ = ["crash_ns", "join_ns"]

_AT_ONCE = 20
"""Groups that are joined at a time."""


def join_ns(sites: int, count: int, seed: int) -> float:
    """From a process's request until all members, the new one too, have the view with it; the mean."""
    lab = IsisLab(sites, seed=seed)
    lab.join("group", range(sites - 1))
    lab.rest()
    last = sites - 1
    seen: list[int] = []

    def hear(_: int, event: IsisEvent) -> None:
        if isinstance(event, ViewShown) and len(event.ranked) == sites:
            seen.append(lab.now)

    lab.hear = hear
    took = []
    for turn in range(count):
        seen.clear()
        began = lab.now
        lab.isis(last).join(lab.processes[last], "group")
        lab.turn(last)
        lab.wait(lambda: len(seen) == sites)
        took.append(max(seen) - began)
        lab.isis(last).leave(lab.processes[last], "group")
        lab.turn(last)
        lab.rest(100 * MS + turn * 7 * MS)
    return fmean(took)


def crash_ns(sites: int, groups: int, seed: int) -> int:
    """From the crash of a site that has a member in each of these groups, as all sites have, until every other member
    has all views without it; without groups: until all sites have adopted the site view without it, and are done."""
    lab = IsisLab(sites, seed=seed)
    for first in range(0, groups, _AT_ONCE):
        names = [f"group {number}" for number in range(first, min(first + _AT_ONCE, groups))]
        for site in range(sites):
            for name in names:
                lab.isis(site).join(lab.processes[site], name)
        lab.turn(*range(sites))
        _wait_for_members(lab, sites, names)
    # The same phase of the beacons, however long the joining took.
    lab.cluster.run_until((lab.now // SECOND + 2) * SECOND)
    everyone = [f"group {number}" for number in range(groups)]
    began = lab.now
    lab.cluster.crash(lab.cluster.names[-1])
    lab.wait(lambda: _is_over(lab, sites - 1) and _members(lab, sites - 1, everyone) in ([], [sites - 1]))
    return lab.now - began


def _wait_for_members(lab: IsisLab, sites: int, groups: list[str]) -> None:
    lab.wait(lambda: _members(lab, sites, groups) == [sites])


def _is_over(lab: IsisLab, sites: int) -> bool:
    for site in range(sites):
        isis = lab.isis(site)
        view = isis.here.view
        if view is None or not isis.here.open or len(view.members) != sites or isis.change.active:
            return False
    return True


def _members(lab: IsisLab, sites: int, groups: list[str]) -> list[int]:
    """The numbers of members that processes of these sites see in these groups."""
    return sorted({lab.members(site, group) for site in range(sites) for group in groups})
