"""reconvene status: shows the state of each site."""

import time

from reconvene.cli._beside import beside_table, furthest_green, split
from reconvene.cli._cluster import AsJson, console, list_lines, site_document, sites_table
from reconvene.cli._domains import are_joined
from reconvene.cli._output import print_json
from reconvene.cli._rates import rates
from reconvene.cli._target import Key, MaybeDir, Node, Target, Tls
from reconvene.local import LocalDomains

__all__ = ["status_command"]

_BETWEEN_S = 0.3
"""Rates are measured over this time."""


def status_command(
    directory: MaybeDir = None, node: Node = None, key: Key = None, tls: Tls = None, as_json: AsJson = False
) -> None:
    """Show the state, configuration, health, groups and rates of each site, and how far followers are behind."""
    if directory is not None and node is None and are_joined(directory):
        _joined_status(LocalDomains(directory), as_json)
        return
    look = Target(directory, node, key, tls).look()
    before = look()
    views = before
    if any(view.status is not None for view in before):
        time.sleep(_BETWEEN_S)
        views = look()
    grown = rates(before, views)
    if as_json:
        sites = [{**site_document(view), "rates": grown.get(view.name)} for view in views]
        print_json({"dir": None if directory is None else str(directory), "sites": sites})
        return
    members, beside = split(views)
    if members:
        console().print(sites_table(members, grown))
    if beside:
        console().print(beside_table(beside, furthest_green(views)))
    for line in list_lines(views):
        console().print(line)


def _joined_status(domains: LocalDomains, as_json: bool) -> None:
    """The sites of each of several joined clusters."""
    found = domains.sites()
    if as_json:
        clusters = {name: [site_document(view) for view in views] for name, views in found.items()}
        print_json({"dir": str(domains.layout), "clusters": clusters})
        return
    for name, views in found.items():
        console().print(f"{name}:")
        console().print(sites_table(views, {}))
