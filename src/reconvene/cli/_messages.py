"""Messages from the command line or from standard input, and how long a command waits for them to be sent."""

import asyncio
import sys
from collections.abc import AsyncIterator
from itertools import islice

from reconvene.cli._units import parse_seconds
from reconvene.errors import Malformed

__all__ = ["check_messages", "parse_timeout", "pieces"]

_TOGETHER = 1_000
"""Most lines that are handed over together."""
_LEAST_TIMEOUT_S = 0.001


def check_messages(messages: list[str] | None, command: str) -> list[str]:
    """Raises Malformed unless there are messages, or a lone - for standard input."""
    if not messages:
        raise Malformed(f"{command}: expected messages, or - to read lines from standard input")
    if "-" in messages and len(messages) > 1:
        raise Malformed(f"{command}: expected messages or -, not both")
    return messages


def parse_timeout(text: str) -> float:
    """Of --timeout."""
    seconds = parse_seconds(text, "--timeout")
    if seconds < _LEAST_TIMEOUT_S:
        raise Malformed(f"--timeout {text}: expected at least 1ms")
    return seconds


async def pieces(messages: list[str]) -> AsyncIterator[list[bytes]]:
    """The messages, or the lines of standard input as they come: those that are there already come together."""
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
