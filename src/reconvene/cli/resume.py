"""reconvene resume: resumes paused sites."""

import typer

from reconvene.cli._cluster import AsJson, Dir, Sites, Wait, report_faults
from reconvene.cli._domains import are_joined, report_domains
from reconvene.local import LocalCluster, LocalDomains

__all__ = ["resume_command"]


def resume_command(sites: Sites, directory: Dir, wait: Wait = True, as_json: AsJson = False) -> None:
    """Resume paused sites (SIGCONT)."""
    if are_joined(directory):
        domains = LocalDomains(directory)
        domains.resume(*sites)
        raise typer.Exit(report_domains(domains, wait, as_json))
    cluster = LocalCluster(directory)
    cluster.resume(*sites)
    raise typer.Exit(report_faults(cluster, wait, as_json))
