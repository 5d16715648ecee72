"""reconvene log cursors: the cursors of the log; and what `log follow --cursor` does."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

import typer
from msgspec.structs import asdict
from rich.table import Table

from reconvene.cli._cluster import AsJson, console
from reconvene.cli._output import print_json
from reconvene.cli._target import Key, MaybeDir, Node, OnSite, Target, Tls
from reconvene.cli._units import parse_seconds
from reconvene.client.cursor import Cursor
from reconvene.client.cursor_record import CursorInfo
from reconvene.client.log import Log
from reconvene.entries import Entry

__all__ = ["cursors_command", "follow_cursor"]

_COMMIT_S = 1.0
"""What was printed is committed this often."""


def cursors_command(
    directory: MaybeDir = None,
    node: Node = None,
    site: OnSite = None,
    key: Key = None,
    tls: Tls = None,
    drop: Annotated[
        str | None, typer.Option("--drop", metavar="NAME", help="End this cursor: its position is forgotten.")
    ] = None,
    timeout: Annotated[
        str, typer.Option(metavar="TIME", help="With --drop: how long to wait until it is free: 30s.")
    ] = "30s",
    as_json: AsJson = False,
) -> None:
    """List the cursors of the log, or end one.

    A cursor is a reader's position, kept in the log. One that is held is dropped when its holder releases it, or when
    its lease is over.
    """
    seconds = parse_seconds(timeout, "--timeout")
    found = asyncio.run(_ask(Target(directory, node, key, tls, site), drop, seconds))
    if as_json:
        print_json({"cursors": [asdict(cursor) for cursor in found]})
        return
    if drop is not None:
        console().print(f"cursor {drop} is dropped", markup=False)
        return
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("cursor", "position", "holder", "lease", "term"):
        shown.add_column(column)
    for cursor in found:
        shown.add_row(cursor.name, str(cursor.position), cursor.holder or "-", f"{cursor.lease:g}s", str(cursor.term))
    console().print(shown)


async def _ask(target: Target, drop: str | None, seconds: float) -> list[CursorInfo]:
    async with target.connect() as site:
        if drop is not None:
            await site.log.drop_cursor(drop, timeout=seconds)
        return await site.log.cursors()


async def follow_cursor(log: Log, name: str, start: int, count: int | None, show: Callable[[Entry], None]) -> None:
    """Prints what comes, and commits what was printed: every second while it goes on, and at the end."""
    async with log.cursor(name, start=start) as cursor:
        loop = asyncio.get_running_loop()
        committed = loop.time()
        try:
            while count is None or count > 0:
                entry = await _next(cursor, committed + _COMMIT_S)
                if entry is not None:
                    show(entry)
                    count = None if count is None else count - 1
                if loop.time() >= committed + _COMMIT_S:
                    await _commit(cursor)
                    committed = loop.time()
        finally:
            await asyncio.shield(_commit(cursor))


async def _next(cursor: Cursor, until: float) -> Entry | None:
    """None: nothing came before that, and something waits to be committed."""
    with suppress(TimeoutError):
        async with asyncio.timeout_at(None if cursor.position == cursor.committed else until):
            return await anext(cursor)
    return None


async def _commit(cursor: Cursor) -> None:
    sys.stdout.flush()  # what can't be written is not committed
    if cursor.position > cursor.committed:
        await cursor.commit()
