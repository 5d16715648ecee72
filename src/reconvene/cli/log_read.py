"""reconvene log read, reconvene log follow: print the messages of the log in order."""

import asyncio
import base64
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import msgspec
import typer

from reconvene.cli._cluster import AsJson
from reconvene.cli._output import print_json
from reconvene.cli._target import Key, MaybeDir, Node, OnSite, Target, Tls
from reconvene.cli._units import parse_seconds
from reconvene.cli.log_cursors import follow_cursor
from reconvene.client.log import Log
from reconvene.entries import Entry
from reconvene.errors import Malformed

__all__ = ["As", "Form", "Null", "collector", "follow_command", "printer", "read_command"]

_END = "end"
_CATCH_UP_S = 5.0
"""How long `read` waits until the site has all that the others have ordered."""


class Form(StrEnum):
    """How an entry is printed without --json."""

    TEXT = "text"
    """Position, id, the author's clock, and the data as text."""
    RAW = "raw"
    """Only the data, byte for byte, each followed by a newline."""
    BASE64 = "base64"
    HEX = "hex"


As = Annotated[Form, typer.Option("--as", help="text, or only the data: raw, base64, hex.")]
Null = Annotated[bool, typer.Option("--null", "-0", help="End each entry with a zero byte instead of a newline.")]
Control = Annotated[
    bool, typer.Option("--control", help="Also entries that are not the application's, such as changes of replicas.")
]


def read_command(
    directory: MaybeDir = None,
    node: Node = None,
    site: OnSite = None,
    key: Key = None,
    tls: Tls = None,
    start: Annotated[int, typer.Option("--from", metavar="N", min=0, help="The first position.")] = 0,
    stop: Annotated[int | None, typer.Option("--to", metavar="N", min=0, help="The position after the last.")] = None,
    control: Control = False,
    form: As = Form.TEXT,
    null: Null = False,
    as_json: AsJson = False,
) -> None:
    """Print the messages that are ordered, from position A to before B.

    A site in a primary component first waits, for at most 5 s, until it has all that was ordered anywhere before. In
    a minority it prints at once what is ordered there.
    """
    if stop is not None and stop < start:
        raise Malformed(f"--to {stop}: expected at least --from, {start}")
    target = Target(directory, node, key, tls, site)
    entries: list[dict[str, object]] = []
    show = collector(entries) if as_json else printer(form, null)
    asyncio.run(_read(target, start, stop, control, show))
    if as_json:
        print_json({"from": start, "to": stop, "entries": entries})


def follow_command(
    directory: MaybeDir = None,
    node: Node = None,
    site: OnSite = None,
    key: Key = None,
    tls: Tls = None,
    start: Annotated[
        str,
        typer.Option(
            "--from", metavar="N|end", help="The first position; end: only messages that are ordered from now on."
        ),
    ] = "0",
    count: Annotated[int | None, typer.Option(metavar="N", min=1, help="End after so many entries.")] = None,
    lasting: Annotated[str | None, typer.Option("--for", metavar="TIME", help="End after this time: 5s.")] = None,
    cursor: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Go on where the last reader of this name stopped; a new cursor begins at --from. What is printed "
            "is committed in the log. One reader at a time: this one waits for its turn.",
        ),
    ] = None,
    control: Control = False,
    form: As = Form.TEXT,
    null: Null = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line, as messages are ordered.")
    ] = False,
) -> None:
    """Print messages as they are ordered, from position A on. Ctrl-C ends it."""
    if start != _END and not start.isdecimal():
        raise Malformed(f"--from {start}: expected a position from 0 on, or {_END}")
    seconds = None if lasting is None else parse_seconds(lasting, "--for")
    if cursor is not None and control:
        raise Malformed("--control: a cursor reads the application's messages; expected --cursor or --control")
    target = Target(directory, node, key, tls, site)
    show = _print_json_line if as_json else printer(form, null)
    with suppress(KeyboardInterrupt):  # the usual way to end it
        asyncio.run(_follow(target, start, count, seconds, control, show, cursor))


async def _read(target: Target, start: int, stop: int | None, control: bool, show: Callable[[Entry], None]) -> None:
    async with target.connect() as site:
        end = await _caught_up(site.log, stop)
        stop = end if stop is None else min(stop, end)
        if start > end:
            raise Malformed(f"--from {start}: the log ends at {end}")
        async for entry in site.log.follow(start, stop=stop, control=control):
            show(entry)
    sys.stdout.flush()


async def _caught_up(log: Log, stop: int | None) -> int:
    """The end of the log, with what was ordered at other sites before the call, unless `stop` is before it anyway."""
    status = await log.status()
    if not status.primary or (stop is not None and stop <= status.green):
        return status.green
    try:
        return await log.barrier(timeout=_CATCH_UP_S)
    except TimeoutError:
        print(
            f"the others did not answer within {_CATCH_UP_S:g} s: this is what is ordered at this site",
            file=sys.stderr,
        )
        return await _end_of(log)


async def _end_of(log: Log) -> int:
    return (await log.status()).green


async def _follow(
    target: Target,
    start: str,
    count: int | None,
    seconds: float | None,
    control: bool,
    show: Callable[[Entry], None],
    cursor: str | None,
) -> None:
    async with target.connect() as site:
        first = await _end_of(site.log) if start == _END else int(start)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                if cursor is not None:
                    await follow_cursor(site.log, cursor, first, count, show)
                    return
                follow = site.log.follow(first, control=control)
                async for entry in follow:
                    show(entry)
                    if not follow.ready():
                        sys.stdout.flush()
                    if count is not None:
                        count -= 1
                        if count == 0:
                            break
    sys.stdout.flush()


# -- formatting


def printer(form: Form, null: bool) -> Callable[[Entry], None]:
    write, end = sys.stdout.buffer.write, b"\0" if null else b"\n"

    def show(entry: Entry) -> None:
        match form:
            case Form.TEXT:
                write(_line(entry).encode(errors="replace"))
            case Form.RAW:
                write(entry.data)
            case Form.BASE64:
                write(base64.b64encode(entry.data))
            case Form.HEX:
                write(entry.data.hex().encode())
        write(end)

    return show


def _line(entry: Entry) -> str:
    """Without control characters, which could move the terminal's cursor."""
    text = entry.data.decode(errors="backslashreplace")
    told = entry.change() or entry.transaction()
    if told is not None:
        text = msgspec.json.encode(told).decode()
    shown = "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
    at = datetime.fromtimestamp(entry.time / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    kind = "" if entry.kind == "data" else f"[{entry.kind}] "
    return f"{entry.position} {entry.id} {at} {kind}{shown}"


def _document(entry: Entry) -> dict[str, object]:
    document: dict[str, object] = {
        "position": entry.position,
        "id": entry.id,
        "author": entry.author,
        "time": entry.time,
        "kind": entry.kind,
    }
    change = entry.change()
    if change is not None:
        document["change"] = change
    transaction = entry.transaction()
    if transaction is not None:
        document["transaction"] = transaction
    if entry.commit is not None:
        document["commit"] = entry.commit
    try:
        document["data"] = entry.data.decode()
    except UnicodeDecodeError:
        document["data_base64"] = base64.b64encode(entry.data).decode()
    return document


def collector(entries: list[dict[str, object]]) -> Callable[[Entry], None]:
    return lambda entry: entries.append(_document(entry))


def _print_json_line(entry: Entry) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(_document(entry)) + b"\n")
