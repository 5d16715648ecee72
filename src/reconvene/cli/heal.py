"""reconvene heal: ends a partition."""

import typer

from reconvene.cli._cluster import AsJson, Dir, Wait, report_faults
from reconvene.local import LocalCluster

__all__ = ["heal_command"]


def heal_command(directory: Dir, wait: Wait = True, as_json: AsJson = False) -> None:
    """End the partition: connect all sites again."""
    cluster = LocalCluster(directory)
    cluster.heal()
    raise typer.Exit(report_faults(cluster, wait, as_json))
