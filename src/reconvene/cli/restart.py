"""reconvene restart: starts sites that are down."""

import typer

from reconvene.cli._cluster import AsJson, Dir, Sites, Wait, report_faults
from reconvene.cli._domains import are_joined, report_domains
from reconvene.local import LocalCluster, LocalDomains

__all__ = ["restart_command"]


def restart_command(sites: Sites, directory: Dir, wait: Wait = True, as_json: AsJson = False) -> None:
    """Start sites that are down. The current partition applies to them."""
    if are_joined(directory):
        domains = LocalDomains(directory)
        domains.restart(*sites)
        raise typer.Exit(report_domains(domains, wait, as_json))
    cluster = LocalCluster(directory)
    cluster.restart(*sites)
    raise typer.Exit(report_faults(cluster, wait, as_json))
