"""reconvene send: sends messages from the command line or standard input to a group."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Annotated

import typer

from reconvene.cli._cluster import AsJson, console
from reconvene.cli._output import DONE, VIOLATED, print_json
from reconvene.cli._target import GroupName, Key, MaybeDir, Node, OnSite, Target, Tls
from reconvene.cli._units import parse_bytes
from reconvene.client.events import Batch, Rejoined
from reconvene.client.group import Group
from reconvene.errors import Malformed, OutcomeUnknown, TimedOut
from reconvene.ids import Service

__all__ = ["send_command"]

_JOIN_S = 15.0
_DELIVERED_S = 30.0
"""How long to wait for the last message to be delivered to this process."""
_MOST = 10**9


@dataclass(slots=True)
class Tally:
    """What was sent and delivered."""

    site: str
    sent: int = 0
    delivered: int = 0
    """Messages that were delivered to this process: every member of the view delivers them too."""
    members: int = 0
    started_s: float = 0.0
    seconds: float = 0.0
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class Manner:
    """How messages are sent."""

    service: str
    rate: float
    wide: bool
    scope: str | None


def send_command(
    group: GroupName,
    text: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="The message; default: lines of standard input.")
    ] = None,
    directory: MaybeDir = None,
    node: Node = None,
    site: OnSite = None,
    key: Key = None,
    tls: Tls = None,
    service: Annotated[str, typer.Option(metavar="fifo|causal|agreed|safe", help="The delivery service.")] = "agreed",
    count: Annotated[int, typer.Option(metavar="N", min=1, max=_MOST, help="How many times to send it.")] = 1,
    size: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Send generated messages of this size: 100, 4KiB.")
    ] = None,
    rate: Annotated[
        float, typer.Option(metavar="R", min=0, help="Messages per second; 0: as fast as possible.")
    ] = 0.0,
    wide: Annotated[bool, typer.Option("--wide", help="To the group of all joined clusters.")] = False,
    scope: Annotated[
        str | None, typer.Option(metavar="wide|cluster", help="With --wide: cluster keeps it in this cluster.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Join a group, send messages to it, wait until they are delivered, and leave."""
    if text and size is not None:
        raise Malformed("expected TEXT or --size, not both")
    if service not in [known.label for known in Service]:
        raise Malformed(f"--service {service}: expected {', '.join(known.label for known in Service)}")
    if not text and size is None and count != 1:
        raise Malformed("--count: expected TEXT or --size with it")
    if scope is not None and (not wide or scope not in ("wide", "cluster")):
        raise Malformed(f"--scope {scope}: expected wide or cluster, and --wide with it")
    payloads = _payloads(text, None if size is None else _size(size), count)
    target = Target(directory, node, key, tls, site)
    tally = asyncio.run(_send(target, group, payloads, Manner(service, rate, wide, scope)))
    if as_json:
        print_json(
            {
                "site": tally.site,
                "sent": tally.sent,
                "delivered": tally.delivered,
                "members": tally.members,
                "seconds": tally.seconds,
                "trouble": tally.trouble,
            }
        )
    else:
        _show(tally)
    raise typer.Exit(DONE if tally.trouble is None else VIOLATED)


def _size(text: str) -> int:
    size = parse_bytes(text, "--size")
    if size < 1:
        raise Malformed(f"--size {text}: expected at least 1B")
    return size


def _payloads(text: list[str] | None, size: int | None, count: int) -> Iterator[bytes] | None:
    """None: standard input's lines."""
    if text:
        words = " ".join(text).encode(errors="surrogateescape")
        return (words for _ in range(count))
    if size is not None:
        return (f"{number} ".encode().ljust(size, b".")[:size] for number in range(count))
    return None


async def _send(target: Target, name: str, payloads: Iterator[bytes] | None, manner: Manner) -> Tally:
    async with target.connect() as site:
        group = await site.join(name, wide=manner.wide, timeout=_JOIN_S)
        tally = Tally(site.name, members=len(group.view.members), started_s=time.monotonic())
        changed = asyncio.Event()
        reader = asyncio.create_task(_count_own(group, tally, changed))
        try:
            if payloads is not None and not manner.rate:
                tally.sent = await group.send_many(payloads, manner.service, scope=manner.scope)
            else:
                await _paced(group, tally, _each(payloads), manner)
            async with asyncio.timeout(_DELIVERED_S):
                while tally.delivered < tally.sent and tally.trouble is None:
                    await changed.wait()
                    changed.clear()
        except OutcomeUnknown as error:
            tally.trouble = f"{error}; it is unknown whether the rest was sent"
        except TimedOut:
            raise
        except TimeoutError:
            tally.trouble = f"{tally.sent - tally.delivered} were not delivered within {_DELIVERED_S:g} s"
        finally:
            tally.seconds = time.monotonic() - tally.started_s
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
        if tally.trouble is None:
            await group.leave()
    return tally


async def _count_own(group: Group, tally: Tally, changed: asyncio.Event) -> None:
    me = group.me
    async for event in group.batches():
        if isinstance(event, Batch) and event.sender == me:
            tally.delivered += len(event)
        elif isinstance(event, Rejoined):
            tally.trouble = f"connection lost; connected again to site {event.site}"
        changed.set()


async def _paced(group: Group, tally: Tally, payloads: AsyncIterator[bytes], manner: Manner) -> None:
    rate = manner.rate
    async for payload in payloads:
        if rate:
            ahead_s = tally.started_s + tally.sent / rate - time.monotonic()
            if ahead_s > 0:
                await asyncio.sleep(ahead_s)
        await group.send(payload, manner.service, scope=manner.scope)
        tally.sent += 1


async def _each(payloads: Iterator[bytes] | None) -> AsyncIterator[bytes]:
    if payloads is not None:
        for payload in payloads:
            yield payload
        return
    # A thread waits for lines, so that the event loop keeps the connection alive.
    while line := await asyncio.to_thread(sys.stdin.buffer.readline):
        yield line.rstrip(b"\r\n")


def _show(tally: Tally) -> None:
    out = console()
    many = "1 message" if tally.sent == 1 else f"{tally.sent:,} messages"
    took = f"{tally.seconds * 1e3:.1f} ms" if tally.seconds < 1 else f"{tally.seconds:.2f} s"
    speed = f", {tally.delivered / tally.seconds:,.0f} a second" if tally.sent > 1 and tally.seconds > 0 else ""
    if tally.trouble is None:
        out.print(f"{many} through site {tally.site}, delivered in {took}{speed}; members: {tally.members}")
    else:
        out.print(f"{many} through site {tally.site}, {tally.delivered:,} delivered: {tally.trouble}", markup=False)
