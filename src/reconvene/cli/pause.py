"""reconvene pause: stops sites with SIGSTOP."""

import typer

from reconvene.cli._cluster import AsJson, Dir, Sites, Wait, report_faults
from reconvene.cli._domains import are_joined, report_domains
from reconvene.local import LocalCluster, LocalDomains

__all__ = ["pause_command"]


def pause_command(sites: Sites, directory: Dir, wait: Wait = True, as_json: AsJson = False) -> None:
    """Pause sites (SIGSTOP)."""
    if are_joined(directory):
        domains = LocalDomains(directory)
        domains.pause(*sites)
        raise typer.Exit(report_domains(domains, wait, as_json))
    cluster = LocalCluster(directory)
    cluster.pause(*sites)
    raise typer.Exit(report_faults(cluster, wait, as_json))
