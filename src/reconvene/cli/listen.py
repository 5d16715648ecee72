"""reconvene listen: shows what happens in a group."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, assert_never

import typer
from rich.text import Text

from reconvene.cli._cluster import AsJson, console
from reconvene.cli._listening import For, JsonLines, Listening
from reconvene.cli._output import print_json
from reconvene.cli._shown import Colours, payload_document, readable
from reconvene.cli._target import GroupName, Key, MaybeDir, Node, OnSite, Target, Tls
from reconvene.client.events import Blocked, Event, Message, Rejoined, View, WideView

__all__ = ["listen_command"]

_JOIN_S = 15.0


def listen_command(
    group: GroupName,
    directory: MaybeDir = None,
    node: Node = None,
    site: OnSite = None,
    key: Key = None,
    tls: Tls = None,
    count: Annotated[int | None, typer.Option(metavar="N", min=1, help="End after so many messages.")] = None,
    lasting: For = None,
    primary: Annotated[bool, typer.Option("--primary", help="Join with the virtual-synchrony filter.")] = False,
    wide: Annotated[bool, typer.Option("--wide", help="Join it across all joined clusters.")] = False,
    json_lines: JsonLines = False,
    as_json: AsJson = False,
) -> None:
    """Join a group and show its views and messages as they arrive. Ctrl-C ends it."""
    listening = Listening(count, lasting, json_lines, as_json)
    target = Target(directory, node, key, tls, site)
    tell = listening.teller(_document, Painter().show)
    with suppress(KeyboardInterrupt):  # the usual way to end it
        asyncio.run(_listen(target, group, primary, wide, count, listening.seconds, tell))
    if as_json:
        print_json({"group": group, "events": listening.events})


async def _listen(
    target: Target,
    name: str,
    primary: bool,
    wide: bool,
    count: int | None,
    seconds: float | None,
    tell: Callable[[Event], None],
) -> None:
    async with target.connect() as site:
        group = await site.join(name, primary=primary, wide=wide, timeout=_JOIN_S)
        left = count
        try:
            async with asyncio.timeout(seconds):
                async for event in group:
                    tell(event)
                    if left is not None and isinstance(event, Message):
                        left -= 1
                        if left == 0:
                            return
        except TimeoutError:
            return


def _document(event: Event) -> dict[str, object]:
    match event:
        case Message():
            return {
                "event": "message",
                "id": event.id,
                "sender": str(event.sender),
                "service": event.service.label,
                "view": list(event.view),
                **payload_document(event.data),
            }
        case WideView():
            return {
                "event": "wide view",
                "kind": event.kind,
                "configuration": event.conf,
                "domains": list(event.domains),
                "unreachable": list(event.unreachable),
                "lost": [one.site for one in event.lost],
                "members": [str(member) for member in event.members],
            }
        case View():
            return {
                "event": "view",
                "kind": event.kind,
                "view": list(event.id),
                "configuration": event.conf,
                "members": [str(member) for member in event.members],
                "joined": [str(member) for member in event.joined],
                "left": [str(member) for member in event.left],
                "primary": event.primary,
            }
        case Blocked():
            return {"event": "blocked"}
        case Rejoined():
            return {"event": "rejoined", "me": str(event.me), "was": str(event.was), "site": event.site}
    assert_never(event)


class Painter:
    """On a terminal; each sender has a colour."""

    def __init__(self) -> None:
        self._console = console()
        self._colour = Colours().of

    def show(self, event: Event) -> None:
        self._console.print(self._text(event), soft_wrap=True)

    def _text(self, event: Event) -> Text:
        match event:
            case Message():
                service = "" if event.service.label == "agreed" else f" {event.service.label}"
                sender = str(event.sender)
                return Text.assemble((sender, self._colour(sender)), (service, "dim"), "  ", readable(event.data))
            case WideView():
                return _wide_view(event)
            case View():
                return self._view(event)
            case Blocked():
                return Text("── not in the primary component: blocked", style="yellow")
            case Rejoined():
                return Text(
                    f"── connection lost; connected again to site {event.site}, as {event.me}", style="yellow"
                )
        assert_never(event)

    def _view(self, view: View) -> Text:
        text = Text("── ", style="dim")
        text.append(f"{view.kind} view" if view.kind != "regular" else "view")
        for member in view.members:
            text.append(f" {member}", style=self._colour(str(member)))
        if view.kind == "regular":
            text.append(" primary" if view.primary else " minority", style="green" if view.primary else "yellow")
        for word, members in (("joined", view.joined), ("left", view.left)):
            if members and len(members) < len(view.members) + len(view.left):
                text.append(f" · {word} {' '.join(map(str, members))}", style="dim")
        return text


def _wide_view(view: WideView) -> Text:
    text = Text("── ", style="dim")
    text.append(f"{view.kind} wide view" if view.kind != "regular" else "wide view")
    text.append(f" {' '.join(view.domains)}")
    if view.members:
        text.append(f" · {' '.join(map(str, view.members))}", style="dim")
    if view.unreachable:
        text.append(f" · unreachable {' '.join(view.unreachable)}", style="yellow")
    if view.lost:
        text.append(f" · lost {' '.join(one.site for one in view.lost)}", style="red")
    return text
