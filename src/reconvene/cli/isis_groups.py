"""reconvene isis groups: the process groups, with their views and properties."""

import asyncio
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from reconvene.cli._cluster import AsJson, console
from reconvene.cli._isis import in_primary, ready, why_blocked
from reconvene.cli._output import print_json
from reconvene.cli._shown import payload_document, readable
from reconvene.cli._target import Key, MaybeDir, Node, OnSite, Target, Tls
from reconvene.client.status import IsisGroupStatus, IsisStatus
from reconvene.ids import short_number

__all__ = ["groups_command"]


def groups_command(
    directory: MaybeDir = None,
    node: Node = None,
    site: OnSite = None,
    key: Key = None,
    tls: Tls = None,
    as_json: AsJson = False,
) -> None:
    """Show the groups: the number of each view, its members by rank, and its properties.

    A site outside of the primary component shows what it last knew, and says so.
    """
    known = asyncio.run(_ask(in_primary(Target(directory, node, key, tls, site))))
    if as_json:
        print_json(
            {
                "site": known.site,
                "blocked": known.status.blocked,
                "refused": known.status.refused,
                "site_view": known.status.view,
                "sites": known.status.members,
                "groups": [_document(group) for group in known.groups],
            }
        )
    else:
        _show(known)


class _Known(NamedTuple):
    site: str
    sites: tuple[str, ...]
    status: IsisStatus
    groups: list[IsisGroupStatus]


async def _ask(target: Target) -> _Known:
    async with target.connect() as site:
        return _Known(site.name, site.sites, await ready(site), await site.isis.groups())


def _document(group: IsisGroupStatus) -> dict[str, object]:
    return {
        "name": group.name,
        "view": group.view,
        "members": group.members,
        "properties": {name: payload_document(value) for name, value in sorted(group.properties.items())},
    }


def _show(known: _Known) -> None:
    out = console()
    status = known.status
    blocked = why_blocked(known.site, status)
    if blocked is not None:
        out.print(Text(f"blocked: {blocked}", style="yellow"))
    number = short_number(str(status.view), known.sites)
    line = f"site view {number}: {' '.join(sorted(status.members))}" if status.view else "no site view yet"
    out.print(Text(line if blocked is None else f"{line}, as last known", style="dim"))
    if not known.groups:
        out.print("no group has members")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("group", overflow="fold")
    table.add_column("view", no_wrap=True, justify="right")
    table.add_column("members, by rank", overflow="fold")
    table.add_column("properties", overflow="fold")
    for group in known.groups:
        properties = (f"{key}={readable(value)}" for key, value in sorted(group.properties.items()))
        shown = readable(group.name.encode())
        table.add_row(Text(shown, style="bold"), str(group.view), " ".join(group.members), " ".join(properties))
    out.print(table)
