"""reconvene crash: kill -9 of sites."""

import typer

from reconvene.cli._cluster import AsJson, Dir, Sites, Wait, report_faults
from reconvene.cli._domains import are_joined, report_domains
from reconvene.local import LocalCluster, LocalDomains

__all__ = ["crash_command"]


def crash_command(sites: Sites, directory: Dir, wait: Wait = True, as_json: AsJson = False) -> None:
    """Kill sites (kill -9): they lose what is not on their disk."""
    if are_joined(directory):
        domains = LocalDomains(directory)
        domains.crash(*sites)
        raise typer.Exit(report_domains(domains, wait, as_json))
    cluster = LocalCluster(directory)
    cluster.crash(*sites)
    raise typer.Exit(report_faults(cluster, wait, as_json))
