"""reconvene isis listen: shows what happens in a process group."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, assert_never

import typer
from rich.text import Text

from reconvene.cli._cluster import AsJson, console
from reconvene.cli._isis import in_primary, ready, why_blocked
from reconvene.cli._listening import For, JsonLines, Listening
from reconvene.cli._output import print_json
from reconvene.cli._shown import Colours, payload_document, readable
from reconvene.cli._target import GroupName, Key, MaybeDir, Node, OnSite, Target, Tls
from reconvene.client.events import Blocked, Process
from reconvene.client.isis import Isis
from reconvene.client.isis_events import (
    ALL,
    Action,
    Cast,
    GroupLeft,
    GroupView,
    IsisEvent,
    Killed,
    ProcessFailed,
    Reachable,
    Unreachable,
    WatchRefused,
)
from reconvene.errors import TimedOut, Unavailable

__all__ = ["listen_command"]

_JOIN_S = 15.0


def listen_command(
    group: GroupName,
    directory: MaybeDir = None,
    node: Node = None,
    site: OnSite = None,
    key: Key = None,
    tls: Tls = None,
    count: Annotated[int | None, typer.Option(metavar="N", min=1, help="End after so many casts.")] = None,
    lasting: For = None,
    json_lines: JsonLines = False,
    as_json: AsJson = False,
) -> None:
    """Join a group and show its casts, views and failures as they come. Ctrl-C ends it.

    It is a member that only listens: its site answers what asks for replies, with nothing. A process that was killed
    joins again.
    """
    listening = Listening(count, lasting, json_lines, as_json)
    target = Target(directory, node, key, tls, site)
    tell = listening.teller(_document, Painter().show)
    with suppress(KeyboardInterrupt):  # the usual way to end it
        asyncio.run(_listen(in_primary(target), group, count, listening.seconds, tell))
    if as_json:
        print_json({"group": group, "events": listening.events})


async def _listen(
    target: Target, group: str, count: int | None, seconds: float | None, tell: Callable[[IsisEvent], None]
) -> None:
    async with target.connect() as site:
        blocked = why_blocked(site.name, await ready(site))
        if blocked is not None:
            raise blocked
        await site.isis.join(group, answers=False, timeout=_JOIN_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await _read(site.isis, group, count, tell)


async def _read(isis: Isis, group: str, count: int | None, tell: Callable[[IsisEvent], None]) -> None:
    rejoining: asyncio.Task[None] | None = None
    try:
        async for event in isis:
            tell(event)
            match event:
                case Killed():
                    if rejoining is not None:
                        rejoining.cancel()
                    rejoining = asyncio.create_task(_rejoin(isis, group))
                case GroupLeft():
                    return
                case Cast() | Action() if count is not None:
                    count -= 1
                    if count == 0:
                        return
    finally:
        if rejoining is not None:
            rejoining.cancel()


async def _rejoin(isis: Isis, group: str) -> None:
    """While the events are read: the first view comes among them."""
    while True:
        try:
            await isis.join(group, answers=False, timeout=_JOIN_S)
            return
        except TimedOut:
            continue
        except Unavailable:
            return  # killed again, which is the next event, or at the end


def _document(event: IsisEvent) -> dict[str, object]:
    match event:
        case Cast() | Action():
            return {
                "event": event.kind if isinstance(event, Cast) else "gbcast",
                "id": event.id,
                "sender": str(event.sender),
                "view": event.view,
                "replies": event.replies if isinstance(event, Cast) else 0,
                **payload_document(event.data),
            }
        case GroupView():
            return {
                "event": "view",
                "view": event.number,
                "members": _names(event.members),
                "joined": _names(event.joined),
                "left": _names(event.left),
                "failed": _names(event.failed),
                "properties": {name: payload_document(value) for name, value in sorted(event.properties.items())},
            }
        case GroupLeft():
            return {"event": "left", "deleted": event.deleted}
        case ProcessFailed():
            return {"event": "failed", "process": str(event.process)}
        case Unreachable() | Reachable() | WatchRefused():  # of watches, and it has none
            return {"event": type(event).__name__.lower(), "process": str(event.process)}
        case Blocked():
            return {"event": "blocked"}
        case Killed():
            return {"event": "killed", "was": str(event.was), "me": str(event.me)}
    assert_never(event)


def _names(members: tuple[Process, ...]) -> list[str]:
    return [str(member) for member in members]


class Painter:
    """On a terminal; each process has a colour."""

    def __init__(self) -> None:
        self._console = console()
        self._colour = Colours().of
        self._properties: dict[str, bytes] = {}
        """As last shown."""

    def show(self, event: IsisEvent) -> None:
        self._console.print(self._text(event), soft_wrap=True)

    def _text(self, event: IsisEvent) -> Text:
        match event:
            case Cast():
                kind = "" if event.kind == "cbcast" else f" {event.kind}"
                return self._cast(event.sender, kind + _asked(event.replies), event.data)
            case Action():
                return self._cast(event.sender, " gbcast", event.data)
            case GroupView():
                return self._view(event)
            case GroupLeft():
                why = "the group was deleted" if event.deleted else "this process has left the group"
                return Text(f"── {why}", style="yellow")
            case ProcessFailed():
                return Text(f"── {event.process} has failed", style="yellow")
            case Unreachable() | Reachable() | WatchRefused():
                return Text(f"── {event.process}: {type(event).__name__.lower()}", style="yellow")
            case Blocked():
                return Text("── not in the primary component: blocked", style="yellow")
            case Killed():
                return Text(
                    f"── killed: the others went on without {event.was}; joins again as {event.me}", style="yellow"
                )
        assert_never(event)

    def _cast(self, sender: Process, kind: str, data: bytes) -> Text:
        name = str(sender)
        return Text.assemble((name, self._colour(name)), (kind, "dim"), "  ", readable(data))

    def _view(self, view: GroupView) -> Text:
        text = Text("── ", style="dim")
        text.append(f"view {view.number}")
        for member in view.members:
            text.append(f" {member}", style=self._colour(str(member)))
        left = tuple(member for member in view.left if member not in view.failed)
        for word, members in (("joined", view.joined), ("left", left), ("failed", view.failed)):
            if members and members != view.members:
                style = "yellow" if word == "failed" else "dim"
                text.append(f" · {word} {' '.join(map(str, members))}", style=style)
        if view.properties != self._properties:
            shown = (f"{name}={readable(value)}" for name, value in sorted(view.properties.items()))
            text.append(f" · {' '.join(shown) or 'no properties'}", style="dim")
            self._properties = view.properties
        return text


def _asked(replies: int) -> str:
    if replies == 0:
        return ""
    return " asks all to reply" if replies == ALL else f" asks for {replies} replies"
