"""reconvene log append: appends messages from the command line or standard input to the log."""

import asyncio
import sys
from typing import Annotated

import typer

from reconvene.cli._cluster import AsJson
from reconvene.cli._messages import check_messages, parse_timeout, pieces
from reconvene.cli._output import DONE, VIOLATED, print_json
from reconvene.cli._target import Key, MaybeDir, Node, OnSite, Target, Tls
from reconvene.client.log import Log
from reconvene.errors import Malformed, OutcomeUnknown

__all__ = ["append_command"]


class _Taken:
    """The messages appended so far."""

    def __init__(self) -> None:
        self.site = ""
        self.ids: list[str | None] = []
        self.positions: list[int] = []
        self.count = 0
        self.duplicates = 0
        self.trouble: str | None = None


def append_command(
    messages: Annotated[
        list[str] | None,
        typer.Argument(metavar="MESSAGE", help="One message each; - reads lines from standard input."),
    ] = None,
    directory: MaybeDir = None,
    node: Node = None,
    site: OnSite = None,
    key: Key = None,
    tls: Tls = None,
    ordered: Annotated[
        bool, typer.Option("--ordered", help="Wait for the position of each message, and print it.")
    ] = False,
    session: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A session name of your own: a number is accepted once in a session."),
    ] = None,
    number: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="With --session: the number of the first message; default: 1."),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="Give up if no answer comes within this time: 5s.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Append messages. Prints their ids once they are durable at the site, with --ordered also their positions."""
    messages = check_messages(messages, "log append")
    if number is not None and session is None:
        raise Malformed("--number: expected --session with it")
    patience_s = None if timeout is None else parse_timeout(timeout)
    target = Target(directory, node, key, tls, site)
    own = None if session is None else session.encode(errors="surrogateescape")
    taken = _Taken()
    asyncio.run(_append(target, messages, taken, ordered, own, number or 1, patience_s, quiet=as_json))
    if as_json:
        print_json(
            {
                "site": taken.site,
                "appended": taken.count,
                "again": taken.duplicates,
                "ids": taken.ids,
                "positions": taken.positions if ordered else None,
                "trouble": taken.trouble,
            }
        )
    elif taken.trouble is not None:
        print(f"reconvene: {taken.trouble}", file=sys.stderr)
    raise typer.Exit(DONE if taken.trouble is None else VIOLATED)


async def _append(
    target: Target,
    messages: list[str],
    taken: _Taken,
    ordered: bool,
    session: bytes | None,
    number: int,
    timeout: float | None,
    quiet: bool,
) -> None:
    async with target.connect() as site:
        taken.site = site.name
        async for piece in pieces(messages):
            try:
                await _append_piece(site.log, piece, taken, ordered, session, number + taken.count, timeout, quiet)
            except OutcomeUnknown as error:
                taken.trouble = f"{taken.count} appended so far: {error}"
                return


async def _append_piece(
    log: Log,
    piece: list[bytes],
    taken: _Taken,
    ordered: bool,
    session: bytes | None,
    number: int,
    timeout: float | None,
    quiet: bool,
) -> None:
    receipts = await log.append_many(piece, session=session, number=number if session else None, timeout=timeout)
    ids = receipts.ids
    taken.count += len(piece)
    taken.duplicates += receipts.duplicate
    taken.ids += ids if quiet else ()
    positions: list[int] = []
    try:
        if ordered:
            positions = list(await receipts.ordered(timeout))
    finally:
        # Without the positions if they did not come in time: the messages are durable in any case.
        if quiet:
            taken.positions += positions
        else:
            for at, found in enumerate(ids):
                shown = found or "taken before"
                print(f"{shown} {positions[at]}" if positions else shown)
            sys.stdout.flush()
