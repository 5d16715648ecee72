"""reconvene partition: partitions the network of a local cluster."""

from typing import Annotated

import typer

from reconvene.cli._cluster import AsJson, Dir, Wait, report_faults
from reconvene.cli._domains import are_joined, report_domains
from reconvene.errors import Rejected
from reconvene.local import LocalCluster, LocalDomains

__all__ = ["partition_command"]


def partition_command(
    components: Annotated[list[str], typer.Argument(metavar="COMPONENT", help="Sites, such as a,b c,d,e")],
    directory: Dir,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Connect only sites of the same component; a site in none is alone. Replaces an earlier partition. Of joined
    clusters (`up --clusters`) components are clusters; within them nothing changes."""
    if are_joined(directory):
        domains = LocalDomains(directory)
        domains.partition([_sites(component) for component in components])
        raise typer.Exit(report_domains(domains, wait, as_json))
    cluster = LocalCluster(directory)
    cluster.partition([_sites(component) for component in components])
    raise typer.Exit(report_faults(cluster, wait, as_json))


def _sites(component: str) -> list[str]:
    sites = component.split(",")
    if not all(sites):
        raise Rejected(f"partition: {component!r}: expected sites with commas between, such as a,b")
    return sites
