"""reconvene log append: appends messages from the command line or standard input to the log."""

import asyncio
import sys
from collections.abc import AsyncIterator
from itertools import islice
from typing import Annotated

import typer

from reconvene.cli._cluster import AsJson
from reconvene.cli._output import DONE, VIOLATED, print_json
from reconvene.cli._target import Key, MaybeDir, Node, OnSite, Target, Tls
from reconvene.cli._units import parse_seconds
from reconvene.client.log import Log
from reconvene.errors import Malformed, OutcomeUnknown

__all__ = ["append_command"]

_TOGETHER = 1_000
"""Most lines that are appended together."""
_LEAST_PATIENCE_S = 0.001


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
    if not messages:
        raise Malformed("log append: expected messages, or - to read lines from standard input")
    if "-" in messages and len(messages) > 1:
        raise Malformed("log append: expected messages or -, not both")
    if number is not None and session is None:
        raise Malformed("--number: expected --session with it")
    patience_s = None if timeout is None else _patience(timeout)
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


def _patience(text: str) -> float:
    seconds = parse_seconds(text, "--timeout")
    if seconds < _LEAST_PATIENCE_S:
        raise Malformed(f"--timeout {text}: expected at least 1ms")
    return seconds


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
        async for piece in _pieces(messages):
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


async def _pieces(messages: list[str]) -> AsyncIterator[list[bytes]]:
    if messages != ["-"]:
        given = iter(message.encode(errors="surrogateescape") for message in messages)
        while piece := list(islice(given, _TOGETHER)):
            yield piece
        return
    # A thread waits for lines, so that the event loop keeps the connection alive.
    while lines := await asyncio.to_thread(_lines):
        yield lines


def _lines() -> list[bytes]:
    """The next line, and the ones that are available without waiting."""
    stream = sys.stdin.buffer
    first = stream.readline()
    if not first:
        return []
    lines = [first]
    while len(lines) < _TOGETHER and b"\n" in _at_hand():
        lines.append(stream.readline())
    return [line.rstrip(b"\r\n") for line in lines]


def _at_hand() -> bytes:
    """Lines that are buffered already: taking them does not wait."""
    buffer = sys.stdin.buffer
    raw = getattr(buffer, "raw", None)
    if raw is None or not hasattr(buffer, "peek"):
        return b""
    import select

    ready, _, _ = select.select([raw], [], [], 0)
    peeked: bytes = buffer.peek(1) if ready else b""
    return peeked
