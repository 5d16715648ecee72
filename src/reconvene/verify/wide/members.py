"""Wide views, and who was lost."""

from typing import cast

from reconvene.verify.history import History
from reconvene.verify.wide.judged import Findings, WideCheck, judged
from reconvene.verify.wide_history import WideHistory

__all__ = ["CHECKS"]


@judged
def _views(wide: WideHistory, found: Findings) -> None:
    heard: dict[tuple[str, str], tuple[str, ...]] = {}
    first: dict[tuple[object, ...], list[str]] = {}
    for node, row in wide.others.get("view", ()):
        found.case()
        home, group = wide.home[node], cast(str, row.group)
        if (home, group) not in heard:
            heard[home, group] = tuple(leaf for leaf in wide.tree.leaves if wide.tree.passes(group, leaf, home))
        key = (row.conf, group, tuple(cast("list[int]", row.ts)), heard[home, group])
        members = sorted(cast("list[str]", row.members))
        if first.setdefault(key, members) != members:
            found.violate_row(row, f"of {group} at {row.ts} in {row.conf}: {members}, and elsewhere {first[key]}")


@judged
def _lost(wide: WideHistory, found: Findings) -> None:
    for node, row in wide.others.get("lost", ()):
        found.case()
        domain, _, site = cast(str, row.sender).partition("/")
        problem = f"{row.sender} is no site of a domain without one below it"
        if domain in wide.tree.leaves and site in wide.tree.domains[domain].nodes:
            first = row.n if wide.home[node] == domain else None
            problem = _not_dropped(wide, wide.levels[domain], site, cast(str, row.reg), wide.site[node], first)
        if problem:
            found.violate_row(row, problem)


def _not_dropped(wide: WideHistory, h: History, site: str, reg: str, here: str, before: int | None) -> str:
    """Why no majority dropped the site by this configuration; empty: one did. `before`: the row's own number, where
    it is of the same cluster, at site `here`."""
    conf = next((conf for conf in h.confs if conf.id == reg and conf.kind == "regular" and conf.entered), None)
    if conf is None:
        return f"nobody entered {reg} as a regular configuration"
    members = [h.names[member] for member in conf.members]
    if site in members:
        return f"{site} is a member of {reg}"
    if 2 * len(members) <= len(h.run.nodes):
        return f"{reg} of {','.join(members)} is no majority of {len(h.run.nodes)}"
    if not any(_was_with(h, event, site) for event in conf.entered):
        return f"nobody that entered {reg} was in a configuration with {site} before"
    mine = [event for event in conf.entered if h.names[h.node[event]] == here]
    if before is not None and here in members and not any(h.n[event] < before for event in mine):
        return f"{here} had not entered {reg} yet"
    return ""


def _was_with(h: History, event: int, site: str) -> bool:
    """Was the node in a configuration with that site, before this event?"""
    other = h.name_index(site)
    return any(stay.begin < event and other in h.confs[stay.conf].members for stay in h.stays[h.node[event]])


CHECKS = (
    WideCheck(
        id="wide.views",
        layer="wide",
        source="Domains",
        case="a `view`",
        violated="the lowest one of the same group, wide configuration and ts has other members, among the nodes of"
        " domains to which the group passes from the same domains",
        check=_views,
    ),
    WideCheck(
        id="wide.lost",
        layer="wide",
        source="ISIS, 4.6",
        case="a `lost`",
        violated="`reg` is not a regular configuration that a site of that domain entered; or it holds the lost site;"
        " or it does not hold more than half of the domain's sites; or nobody that entered it was in a configuration"
        " with that site before; or the node is a member of it, and had not entered it before",
        check=_lost,
    ),
)
