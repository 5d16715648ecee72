"""reconvene heal: ends a partition."""

import typer

from reconvene.cli._cluster import AsJson, Dir, Wait, report_faults
from reconvene.cli._domains import are_joined, report_domains
from reconvene.local import LocalCluster, LocalDomains

__all__ = ["heal_command"]


def heal_command(directory: Dir, wait: Wait = True, as_json: AsJson = False) -> None:
    """End the partition: connect all sites again."""
    if are_joined(directory):
        domains = LocalDomains(directory)
        domains.heal()
        raise typer.Exit(report_domains(domains, wait, as_json))
    cluster = LocalCluster(directory)
    cluster.heal()
    raise typer.Exit(report_faults(cluster, wait, as_json))
