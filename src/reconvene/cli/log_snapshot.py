"""reconvene log snapshot: the snapshots of state machines that a site keeps."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from reconvene.cli._cluster import AsJson, console
from reconvene.cli._output import print_json
from reconvene.cli._target import Key, MaybeDir, Node, OnSite, Target, Tls
from reconvene.client.log import Log
from reconvene.client.status import SnapshotInUse
from reconvene.entries import SnapshotInfo
from reconvene.errors import Malformed
from reconvene.ids import UNNAMED

__all__ = ["snapshot_command"]


def snapshot_command(
    directory: MaybeDir = None,
    node: Node = None,
    site: OnSite = None,
    key: Key = None,
    tls: Tls = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The state machine's name; default: list all.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the snapshot to this file; - for standard output.")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Save this file at the site as the newest snapshot; needs --position."),
    ] = None,
    position: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, help="With --save: the snapshot contains every message below this position."
        ),
    ] = None,
    drop: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Remove the snapshots of a state machine that no site runs any more."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the snapshots of state machines, write one to a file, save one, or remove one."""
    if (save is None) != (position is None) or (save is not None and out is not None):
        raise Malformed("log snapshot: expected --out FILE, or --save FILE with --position P")
    if drop is not None and (name is not None or save is not None or out is not None):
        raise Malformed("log snapshot: --drop NAME: expected without --name, --out and --save")
    if as_json and str(out) == "-":
        raise Malformed("--out -: expected a file where --json is given")
    target = Target(directory, node, key, tls, site)
    if drop is not None:
        _show(asyncio.run(_drop(target, drop)), as_json)
    elif name is None and out is None and save is None:
        _show(asyncio.run(_names(target)), as_json)
    else:
        found = asyncio.run(_snapshot(target, name, out, None if save is None else _contents(save), position))
        if as_json:
            print_json({"snapshot": found, "file": None if out is None else str(out)})
        elif str(out) != "-":
            shown = "no snapshot" if found is None else f"position {found.position}, {found.size:,} bytes"
            console().print(shown)


def _show(names: dict[str, SnapshotInUse], as_json: bool) -> None:
    if as_json:
        print_json({"snapshots": names})
        return
    if not names:
        console().print("no snapshot")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("name", "position", "bytes", "needs the log from", "used"):
        table.add_column(column, no_wrap=True, justify="left" if column in ("name", "used") else "right")
    for name, one in names.items():
        where = "here" if one.here else "elsewhere"
        kept = "none" if one.position is None else f"{one.position:,}"
        table.add_row(name, kept, f"{one.bytes:,}", f"{one.needs:,}", where + (", lacking" if one.lacks else ""))
    console().print(table)


async def _names(target: Target) -> dict[str, SnapshotInUse]:
    async with target.connect() as site:
        return (await site.log.status()).snapshot.names


async def _drop(target: Target, name: str) -> dict[str, SnapshotInUse]:
    async with target.connect() as site:
        await site.log.drop_snapshot(name)
        return (await site.log.status()).snapshot.names


async def _snapshot(
    target: Target, name: str | None, out: Path | None, data: bytes | None, position: int | None
) -> SnapshotInfo | None:
    async with target.connect() as site:
        if data is not None and position is not None:
            await site.log.save_snapshot(position, data, name=name or UNNAMED)
            return await site.log.snapshot(name or UNNAMED)
        one = await _only(site.log) if name is None else name
        if out is None:
            return await site.log.snapshot(one)
        found = await site.log.read_snapshot(one)
    if found is None:
        raise Malformed(f"log snapshot: the site has no snapshot named {one!r}")
    _write(out, found[1])
    return SnapshotInfo(found[0], len(found[1]), one)


async def _only(log: Log) -> str:
    """The only name."""
    names = (await log.status()).snapshot.names
    if len(names) > 1:
        raise Malformed(f"log snapshot: expected --name, one of: {', '.join(names)}")
    if not names:
        raise Malformed("log snapshot: the site has no snapshot")
    return next(iter(names))


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
