"""What the commands that listen to a group share: their options, and how they print events."""

from collections.abc import Callable
from typing import Annotated, TypeVar

import msgspec
import typer

from reconvene.cli._units import parse_seconds
from reconvene.errors import Malformed

__all__ = ["For", "JsonLines", "Listening"]

For = Annotated[str | None, typer.Option("--for", metavar="TIME", help="End after this time: 5s.")]
JsonLines = Annotated[bool, typer.Option("--json-lines", help="Print one JSON object for each event.")]

Event = TypeVar("Event")


class Listening:
    """When to end, and how to print. Raises Malformed unless something ends what `--json` prints at the end."""

    def __init__(self, count: int | None, lasting: str | None, json_lines: bool, as_json: bool) -> None:
        if as_json and count is None and lasting is None:
            raise Malformed(
                "--json prints one document at the end: expected --count or --for with it, or --json-lines"
            )
        self.seconds = None if lasting is None else parse_seconds(lasting, "--for")
        self.events: list[dict[str, object]] = []
        """With `--json`: all that came."""
        self._json_lines = json_lines
        self._as_json = as_json

    def teller(
        self, document: Callable[[Event], dict[str, object]], show: Callable[[Event], None]
    ) -> Callable[[Event], None]:
        """`document`: an event in JSON. `show`: prints it for people."""
        if self._as_json:
            return lambda event: self.events.append(document(event))
        if self._json_lines:
            return lambda event: print(msgspec.json.encode(document(event)).decode(), flush=True)
        return show
