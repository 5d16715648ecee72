"""reconvene resume: sites go on."""

import typer

from reconvene.cli._cluster import AsJson, Dir, Sites, Wait, report_faults
from reconvene.local import LocalCluster

__all__ = ["resume_command"]


def resume_command(sites: Sites, directory: Dir, wait: Wait = True, as_json: AsJson = False) -> None:
    """Let sites that stand still go on (SIGCONT)."""
    cluster = LocalCluster(directory)
    cluster.resume(*sites)
    raise typer.Exit(report_faults(cluster, wait, as_json))
