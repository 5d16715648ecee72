"""reconvene pause: stops sites with SIGSTOP."""

import typer

from reconvene.cli._cluster import AsJson, Dir, Sites, Wait, report_faults
from reconvene.local import LocalCluster

__all__ = ["pause_command"]


def pause_command(sites: Sites, directory: Dir, wait: Wait = True, as_json: AsJson = False) -> None:
    """Pause sites (SIGSTOP)."""
    cluster = LocalCluster(directory)
    cluster.pause(*sites)
    raise typer.Exit(report_faults(cluster, wait, as_json))
