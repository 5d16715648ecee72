"""reconvene log backup copies a site's storage; reconvene log restore makes a site's directory from the copy."""

from pathlib import Path
from typing import Annotated

import typer

from reconvene.cli._cluster import AsJson, console
from reconvene.cli._output import print_json
from reconvene.cli._target import MaybeDir
from reconvene.errors import Malformed
from reconvene.local import LocalCluster
from reconvene.runtime.log.files import backup_site, restore_site

__all__ = ["backup_command", "restore_command"]


def backup_command(
    to: Annotated[Path, typer.Argument(metavar="TO", help="A new directory.")],
    directory: MaybeDir = None,
    site: Annotated[str | None, typer.Option("--site", metavar="NAME", help="With --dir: the site.")] = None,
    data: Annotated[
        Path | None, typer.Option("--from", metavar="DIR", help="A site's own directory, instead of --dir.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a consistent copy of a site's storage, also while the site runs."""
    if (directory is None) == (data is None):
        raise Malformed("log backup: expected either --dir DIR with --site NAME, or --from DIR")
    source = data if data is not None else _data_of(directory, site)
    size = backup_site(source, to)
    if as_json:
        print_json({"from": str(source), "to": str(to), "bytes": size})
    else:
        console().print(f"{to}: {size:,} bytes", markup=False)


def restore_command(
    copy: Annotated[Path, typer.Argument(metavar="COPY", help="A copy made by `log backup`.")],
    to: Annotated[Path, typer.Argument(metavar="DIR", help="A site's directory, without storage.")],
    as_json: AsJson = False,
) -> None:
    """Make a site's directory from a copy, after checking the whole copy.

    Only for a cluster that is lost as a whole. Do not restore one site of a running cluster: it would have forgotten
    what it acknowledged since the copy. Use `reconvene replace` instead.
    """
    restore_site(copy, to)
    if as_json:
        print_json({"from": str(copy), "to": str(to)})
    else:
        console().print(f"{to}: restored", markup=False)


def _data_of(directory: Path | None, site: str | None) -> Path:
    assert directory is not None, "checked above"
    cluster = LocalCluster(directory)
    if site not in cluster.names:
        given = "log backup" if site is None else f"--site {site}"
        raise Malformed(f"{given}: expected --site with one of {', '.join(cluster.names)}")
    return cluster.layout.data(site)
