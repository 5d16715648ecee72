"""reconvene crash: kill -9 of sites."""

import typer

from reconvene.cli._cluster import AsJson, Dir, Sites, Wait, report_faults
from reconvene.local import LocalCluster

__all__ = ["crash_command"]


def crash_command(sites: Sites, directory: Dir, wait: Wait = True, as_json: AsJson = False) -> None:
    """Kill sites (kill -9): they lose what is not on their disk."""
    cluster = LocalCluster(directory)
    cluster.crash(*sites)
    raise typer.Exit(report_faults(cluster, wait, as_json))
