"""reconvene listen: shows what happens in a group."""

import asyncio
import base64
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, assert_never

import msgspec
import typer
from rich.text import Text

from reconvene.cli._cluster import AsJson, console
from reconvene.cli._output import print_json
from reconvene.cli._target import Key, MaybeDir, Node, OnSite, Target, Tls
from reconvene.cli._units import parse_seconds
from reconvene.client.events import Blocked, Event, Message, Rejoined, View
from reconvene.errors import Malformed

__all__ = ["listen_command"]

_COLOURS = ("cyan", "magenta", "yellow", "green", "bright_blue", "bright_red", "bright_magenta", "bright_cyan")
_SHOWN = 500
"""Characters of a message that are shown on a terminal."""
_JOIN_S = 15.0


def listen_command(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.")],
    directory: MaybeDir = None,
    node: Node = None,
    site: OnSite = None,
    key: Key = None,
    tls: Tls = None,
    count: Annotated[int | None, typer.Option(metavar="N", min=1, help="End after so many messages.")] = None,
    lasting: Annotated[str | None, typer.Option("--for", metavar="TIME", help="End after this time: 5s.")] = None,
    primary: Annotated[bool, typer.Option("--primary", help="Join with the virtual-synchrony filter.")] = False,
    json_lines: Annotated[bool, typer.Option("--json-lines", help="Print one JSON object for each event.")] = False,
    as_json: AsJson = False,
) -> None:
    """Join a group and show its views and messages as they arrive. Ctrl-C ends it."""
    if as_json and count is None and lasting is None:
        raise Malformed("--json prints one document at the end: expected --count or --for with it, or --json-lines")
    seconds = None if lasting is None else parse_seconds(lasting, "--for")
    target = Target(directory, node, key, tls, site)
    events: list[dict[str, object]] = []
    tell = _print_line if json_lines else Painter().show
    if as_json:

        def tell(event: Event) -> None:
            events.append(_document(event))

    with suppress(KeyboardInterrupt):  # the usual way to end it
        asyncio.run(_listen(target, group, primary, count, seconds, tell))
    if as_json:
        print_json({"group": group, "events": events})


async def _listen(
    target: Target,
    name: str,
    primary: bool,
    count: int | None,
    seconds: float | None,
    tell: Callable[[Event], None],
) -> None:
    async with target.connect() as site:
        group = await site.join(name, primary=primary, timeout=_JOIN_S)
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
                **_payload(event.data),
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


def _payload(data: bytes) -> dict[str, object]:
    """As text, if it is text."""
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _print_line(event: Event) -> None:
    print(msgspec.json.encode(_document(event)).decode(), flush=True)


class Painter:
    """On a terminal; each sender has a colour."""

    def __init__(self) -> None:
        self._console = console()
        self._colours: dict[str, str] = {}

    def show(self, event: Event) -> None:
        self._console.print(self._text(event), soft_wrap=True)

    def _text(self, event: Event) -> Text:
        match event:
            case Message():
                service = "" if event.service.label == "agreed" else f" {event.service.label}"
                sender = str(event.sender)
                return Text.assemble((sender, self._colour(sender)), (service, "dim"), "  ", _readable(event.data))
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

    def _colour(self, process: str) -> str:
        return self._colours.setdefault(process, _COLOURS[len(self._colours) % len(_COLOURS)])


def _readable(data: bytes) -> str:
    """Without control characters."""
    text = data[: 4 * _SHOWN].decode(errors="backslashreplace")
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text[:_SHOWN])
    return shown if len(text) <= _SHOWN else f"{shown} … ({len(data)} bytes)"
