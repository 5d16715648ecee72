"""reconvene restart: starts sites that are down."""

import typer

from reconvene.cli._cluster import AsJson, Dir, Sites, Wait, report_faults
from reconvene.local import LocalCluster

__all__ = ["restart_command"]


def restart_command(sites: Sites, directory: Dir, wait: Wait = True, as_json: AsJson = False) -> None:
    """Start sites that are down. The current partition applies to them."""
    cluster = LocalCluster(directory)
    cluster.restart(*sites)
    raise typer.Exit(report_faults(cluster, wait, as_json))
