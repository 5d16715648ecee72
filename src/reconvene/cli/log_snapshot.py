"""reconvene log snapshot: the newest snapshot of a state machine that a site keeps."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from reconvene.cli._cluster import AsJson, console
from reconvene.cli._output import print_json
from reconvene.cli._target import Key, MaybeDir, Node, OnSite, Target, Tls
from reconvene.client.log_entries import SnapshotInfo
from reconvene.errors import Malformed

__all__ = ["snapshot_command"]


def snapshot_command(
    directory: MaybeDir = None,
    node: Node = None,
    site: OnSite = None,
    key: Key = None,
    tls: Tls = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it there; - for standard output.")] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Hand the site this file as the newest one; needs --position.")
    ] = None,
    position: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="With --save: it has everything below this position.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the newest snapshot of the application's state, write it to a file, or save one."""
    if (save is None) != (position is None) or (save is not None and out is not None):
        raise Malformed("log snapshot: expected --out FILE, or --save FILE with --position P")
    if as_json and str(out) == "-":
        raise Malformed("--out -: expected a file where --json is given")
    target = Target(directory, node, key, tls, site)
    found = asyncio.run(_snapshot(target, out, None if save is None else _contents(save), position))
    if as_json:
        print_json({"snapshot": found, "file": None if out is None else str(out)})
    elif str(out) != "-":
        shown = "no snapshot" if found is None else f"position {found.position}, {found.size:,} bytes"
        console().print(shown)


async def _snapshot(
    target: Target, out: Path | None, data: bytes | None, position: int | None
) -> SnapshotInfo | None:
    async with target.connect() as site:
        if data is not None and position is not None:
            await site.log.save_snapshot(position, data)
        if out is None:
            return await site.log.snapshot()
        found = await site.log.read_snapshot()
    if found is None:
        raise Malformed("log snapshot: the site keeps none")
    _write(out, found[1])
    return SnapshotInfo(found[0], len(found[1]))


def _contents(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Malformed(f"{path}: can't be read: {error.strerror}") from None


def _write(path: Path, data: bytes) -> None:
    if str(path) == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    try:
        path.write_bytes(data)
    except OSError as error:
        raise Malformed(f"{path}: can't be written: {error.strerror}") from None
