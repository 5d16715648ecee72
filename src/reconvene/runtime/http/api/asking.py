"""Parameters, headers and bodies of requests. Bad input is a Refusal that names the field."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from aiohttp import web

from reconvene.corel.clients.session_table import MOST_NUMBER, MOST_SESSION_BYTES
from reconvene.runtime.http.answers import Refusal
from reconvene.runtime.http.api.limits import Places
from reconvene.runtime.http.api.pages import Cursor
from reconvene.units import parse_duration

__all__ = [
    "BODY_S", "KEY_HEADER", "LONGEST_WAIT_S", "body", "check_names", "check_origin", "choice", "cursor",
    "duration_s", "flag", "idempotency", "number",
]  # fmt: skip

BODY_S = 10.0
"""A body has to be here within this time."""
LONGEST_WAIT_S = 60.0
KEY_HEADER = "Idempotency-Key"
_KEY = re.compile(r'("?)(?P<session>[\x21\x23-\x7e][\x20\x21\x23-\x7e]*)/(?P<number>[0-9]{1,18})\1', re.ASCII)
_CURSOR = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,18}))?", re.ASCII)


def check_origin(request: web.Request) -> None:
    """A page of another origin, in a browser that can reach this site, must not use it."""
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != request.host:
        raise Refusal(403, "Origin: requests of other sites' web pages are not answered")


def check_names(request: web.Request, names: Sequence[str]) -> None:
    for name in request.query:
        if name not in names:
            expected = f"expected {', '.join(names)}" if names else "no parameters are expected"
            raise Refusal(400, f"{name[:40]}: no such parameter: {expected}")
        if len(request.query.getall(name)) > 1:
            raise Refusal(400, f"{name}: expected once")


def number(request: web.Request, name: str, default: int, least: int, most: int) -> int:
    text = request.query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and least <= int(text) <= most):
        raise Refusal(400, f"{name}: expected a number from {least} to {most}")
    return int(text)


def choice(request: web.Request, name: str, choices: Sequence[str]) -> str:
    """The first one is the default."""
    text = request.query.get(name, choices[0])
    if text not in choices:
        raise Refusal(400, f"{name}: expected {' or '.join(choices)}")
    return text


def flag(request: web.Request, name: str) -> bool:
    return choice(request, name, ("false", "true")) == "true"


def duration_s(request: web.Request, name: str, default: str) -> float:
    try:
        seconds = parse_duration(request.query.get(name, default)) / 1e9
    except ValueError as error:
        raise Refusal(400, f"{name}: expected {error}") from None
    if not 0 < seconds <= LONGEST_WAIT_S:
        raise Refusal(400, f"{name}: expected a duration of at most {LONGEST_WAIT_S:g}s, and more than 0")
    return seconds


def cursor(text: str, name: str) -> Cursor:
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise Refusal(400, f"{name}: expected a position, or a cursor POSITION.INDEX")
    return Cursor(int(match[1]), None if match[2] is None else int(match[2]))


def idempotency(request: web.Request) -> tuple[bytes, int] | None:
    """(session, number), or None if the request has no key."""
    keys = request.headers.getall(KEY_HEADER, [])
    if not keys:
        return None
    match = _KEY.fullmatch(keys[0].strip()) if len(keys) == 1 else None
    if match is None or len(match["session"]) > MOST_SESSION_BYTES or not 1 <= int(match["number"]) <= MOST_NUMBER:
        raise Refusal(
            400,
            f"{KEY_HEADER}: expected SESSION/NUMBER: a name of up to {MOST_SESSION_BYTES} printable ASCII characters,"
            " and the message's number in it, from 1 on",
        )
    return match["session"].encode("ascii"), int(match["number"])


@asynccontextmanager
async def body(request: web.Request, most: int, places: Places) -> AsyncIterator[bytes]:
    """The whole body, of at most so many bytes. It counts as held until the block ends."""
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise Refusal(415, "Content-Encoding: expected none")
    if request.content_length is not None and request.content_length > most:
        raise _too_large(most)
    data = bytearray()
    held = 0
    try:
        try:
            async with asyncio.timeout(BODY_S):
                async for chunk in request.content.iter_any():
                    if len(data) + len(chunk) > most:
                        raise _too_large(most)
                    places.take(len(chunk))
                    held += len(chunk)
                    data += chunk
        except TimeoutError:
            raise Refusal(408, f"body: expected all of it within {BODY_S:g} s") from None
        except (web.RequestPayloadError, ConnectionError):
            raise Refusal(400, "body: ended before its end") from None
        yield bytes(data)
    finally:
        places.give_back(held)


def _too_large(most: int) -> Refusal:
    return Refusal(413, f"body: expected at most {most} bytes")
