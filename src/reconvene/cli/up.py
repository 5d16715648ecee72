"""reconvene up: a cluster of real site processes on this machine."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from reconvene.cli._cluster import AsJson, Dir, console, health_style, short
from reconvene.cli._domains import are_joined, domains_document, domains_tree
from reconvene.cli._output import print_json
from reconvene.errors import Rejected
from reconvene.local import Layout, LocalCluster, LocalDomains, SiteState

__all__ = ["up_command"]

_DEFAULT_NODES = 3


def up_command(
    directory: Dir,
    nodes: Annotated[int | None, typer.Option(metavar="N", help="How many sites, 1 to 64; 3 by default.")] = None,
    order: Annotated[
        str | None, typer.Option(metavar="atop|all-ack", help="The order engine; atop by default.")
    ] = None,
    insecure: Annotated[bool | None, typer.Option("--insecure", help="Do not seal datagrams.")] = None,
    trace: Annotated[bool | None, typer.Option(help="Keep a trace in DIR/trace; on by default.")] = None,
    isis: Annotated[bool | None, typer.Option(help="Process groups in the manner of ISIS; on by default.")] = None,
    followers: Annotated[
        int | None,
        typer.Option(metavar="N", help="How many sites beside them that follow the log; none by default."),
    ] = None,
    outposts: Annotated[
        int | None,
        typer.Option(metavar="N", help="How many outposts beside them that accept messages; none by default."),
    ] = None,
    clusters: Annotated[
        int | None, typer.Option(metavar="N", help="How many clusters, joined by their gateways; one by default.")
    ] = None,
    gateways: Annotated[
        int | None, typer.Option(metavar="N", help="With --clusters: how many gateways each has; 2 by default.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start a cluster of real sites on loopback: a new one, or the one in DIR. With --clusters, several of them."""
    if clusters is not None or are_joined(directory):
        _up_joined(directory, clusters, nodes, gateways, order, insecure, trace, isis, followers, outposts, as_json)
        return
    if gateways is not None:
        raise Rejected("--gateways: expected --clusters with it")
    cluster = _find(directory, nodes, order, insecure, trace, isis, followers, outposts)
    with Console(stderr=True).status(f"starting {len(cluster.names)} sites"):
        cluster.start()
    views = cluster.sites()
    if as_json:
        print_json(_document(cluster, views))
    else:
        _show(cluster, views, directory)


def _up_joined(
    directory: Path,
    clusters: int | None,
    nodes: int | None,
    gateways: int | None,
    order: str | None,
    insecure: bool | None,
    trace: bool | None,
    isis: bool | None,
    followers: int | None,
    outposts: int | None,
    as_json: bool,
) -> None:
    for option, asked in (("--followers", followers), ("--outposts", outposts)):
        if asked:
            raise Rejected(f"{option}: expected none with --clusters")
    if are_joined(directory):
        domains = LocalDomains(directory)
        chosen = domains.choices
        first = next(iter(chosen.clusters))
        for option, wanted, is_so in (
            ("--clusters", clusters, len(chosen.clusters)),
            ("--nodes", nodes, len(domains.clusters[first].names)),
            ("--gateways", gateways, len(chosen.clusters[first])),
            ("--order", order, chosen.order),
            ("--insecure", insecure, chosen.insecure),
            ("--trace", trace, chosen.trace),
        ):
            _expect_same(directory, option, wanted, is_so)
    else:
        sites = _DEFAULT_NODES if nodes is None else nodes
        domains = LocalDomains.create(
            directory,
            1 if clusters is None else clusters,
            sites,
            min(2, sites) if gateways is None else gateways,
            order=order or "atop",
            insecure=bool(insecure),
            trace=trace is not False,
            isis=isis is not False,
        )
    with Console(stderr=True).status(f"starting {len(domains.nodes)} sites"):
        domains.start()
    document = domains_document(domains)
    if as_json:
        print_json({**document, "addresses": domains.addresses})
        return
    out = console()
    out.print(domains_tree(document))
    first, *rest = domains.names
    away = f" {','.join(rest)}" if rest else ""
    here, there = domains.layout.cluster(first), domains.layout.cluster(rest[0] if rest else first)
    out.print(Text("try next", style="dim"))
    for line in (
        f"reconvene listen --wide --dir {there} lobby    # and in another terminal:",
        f"reconvene send --wide --dir {here} lobby hello",
        f"reconvene crash @{first} --dir {directory}          # the site that represents {first}",
        f"reconvene partition {first}{away} --dir {directory}",
        f"reconvene heal --dir {directory}",
        f"reconvene domains --dir {directory}",
        f"reconvene down --dir {directory}",
    ):
        out.print(Text(f"  {line}"), soft_wrap=True)


def _expect_same(directory: Path, option: str, asked: object, is_so: object) -> None:
    if asked is not None and asked != is_so:
        raise Rejected(
            f"{directory}: {option} is {str(is_so).lower()} in the existing cluster, not"
            f" {str(asked).lower()}; expected the same, or another directory"
        )


def _find(
    directory: Path,
    nodes: int | None,
    order: str | None,
    insecure: bool | None,
    trace: bool | None,
    isis: bool | None,
    followers: int | None,
    outposts: int | None,
) -> LocalCluster:
    """A new cluster, or the existing one if its options are the requested ones."""
    if not Layout(directory).exists():
        return LocalCluster.create(
            directory,
            _DEFAULT_NODES if nodes is None else nodes,
            order=order or "atop",
            insecure=bool(insecure),
            trace=trace is not False,
            isis=isis is not False,
            followers=followers or 0,
            outposts=outposts or 0,
        )
    cluster = LocalCluster(directory)
    chosen = cluster.choices
    for option, asked, is_so in (
        ("--nodes", nodes, len(cluster.names)),
        ("--order", order, chosen.order),
        ("--insecure", insecure, chosen.insecure),
        ("--trace", trace, chosen.trace),
        ("--isis", isis, chosen.isis),
        ("--followers", followers, len(chosen.followers)),
        ("--outposts", outposts, len(chosen.outposts)),
    ):
        _expect_same(directory, option, asked, is_so)
    return cluster


def _document(cluster: LocalCluster, views: list[SiteState]) -> dict[str, object]:
    chosen = cluster.choices
    return {
        "dir": str(cluster.layout),
        "cluster": chosen.cluster,
        "order": chosen.order,
        "insecure": chosen.insecure,
        "isis": chosen.isis,
        "trace": str(cluster.trace_dir) if chosen.trace else None,
        "sites": [
            {
                "name": view.name,
                "pid": view.pid,
                "address": cluster.addresses[view.name],
                "datagrams": _port(cluster, view.name, "datagrams"),
                "http": _port(cluster, view.name, "http"),
                "dashboard": cluster.dashboards.get(view.name),
                "health": (view.status or {}).get("health"),
                "configuration": (view.status or {}).get("configuration"),
            }
            for view in views
        ],
    }


def _port(cluster: LocalCluster, name: str, which: str) -> str | None:
    """An outpost exchanges no datagrams."""
    if name in cluster.outposts and which == "datagrams":
        return None
    return f"127.0.0.1:{getattr(cluster.choices.ports(name), which)}"


def _show(cluster: LocalCluster, views: list[SiteState], directory: Path) -> None:
    out = console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("site", "pid", "address", "http", "health", "configuration"):
        table.add_column(column, no_wrap=column != "address", overflow="fold")
    for view in views:
        status = view.status or {}
        health = str(status.get("health", "-")) if view.kind == "site" else view.kind
        table.add_row(
            Text(view.name, style="bold"),
            str(view.pid),
            cluster.addresses[view.name],
            _port(cluster, view.name, "http") or "-",
            Text(health, style=health_style(health)),
            Text(f"{short(status)}[{','.join(status.get('members', []))}]"),
        )
    out.print(table)
    first, *others = cluster.names
    rest = "" if not others else "   (and at every other site's http address)"
    out.print(Text.assemble(("dashboard  ", "dim"), cluster.dashboards[first], (rest, "dim")), soft_wrap=True)
    away = f" {','.join(others)}" if others else ""
    out.print(Text("try next", style="dim"))
    for line in (
        f"reconvene watch --dir {directory}",
        f"reconvene listen --dir {directory} lobby            # and in another terminal:",
        f"reconvene send --dir {directory} lobby hello",
        f"reconvene log append --dir {directory} hello    # durable, in one order with all others",
        f"reconvene log read --dir {directory}",
        f"reconvene partition {first}{away} --dir {directory}",
        f"reconvene heal --dir {directory}",
        f"reconvene down --dir {directory}",
    ):
        out.print(Text(f"  {line}"), soft_wrap=True)
