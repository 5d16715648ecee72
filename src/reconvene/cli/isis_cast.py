"""reconvene isis cast: casts messages to a process group, and prints the replies."""

import asyncio
import sys
from dataclasses import dataclass, field
from typing import Annotated

import typer

from reconvene.cli._cluster import AsJson
from reconvene.cli._isis import in_primary, ready, why_blocked
from reconvene.cli._messages import check_messages, parse_timeout, pieces
from reconvene.cli._output import DONE, VIOLATED, print_json
from reconvene.cli._shown import payload_document, readable
from reconvene.cli._target import GroupName, Key, MaybeDir, Node, OnSite, Target, Tls
from reconvene.client.isis import Isis
from reconvene.client.isis_call import Call
from reconvene.client.isis_events import ALL, UNORDERED, ProcessFailed, Reply, Unreachable
from reconvene.errors import Malformed, OutcomeUnknown, Unavailable

__all__ = ["cast_command"]

_ALL = "all"


@dataclass(frozen=True, slots=True)
class Kind:
    """How to cast."""

    name: str
    """cbcast | abcast | gbcast"""
    label: str | None
    unordered: bool
    causal: bool
    replies: int
    timeout_s: float

    def __post_init__(self) -> None:
        """Raises Malformed for what can't go together."""
        if self.causal and self.name != "abcast":
            raise Malformed("--causal: expected --abcast with it")
        if self.unordered and (self.name != "cbcast" or self.label is not None):
            raise Malformed("--unordered: expected no --label, --abcast or --gbcast with it")
        if self.name == "gbcast" and (self.label is not None or self.replies):
            raise Malformed("--gbcast: expected no --label or --replies with it")

    async def cast(self, isis: Isis, group: str, data: bytes) -> Call:
        match self.name:
            case "gbcast":
                return await isis.gbcast(data, group, timeout=self.timeout_s)
            case "abcast":
                return await isis.abcast(
                    data,
                    group,
                    label=self.label or "",
                    causal=self.causal,
                    replies=self.replies,
                    timeout=self.timeout_s,
                )
        label = UNORDERED if self.unordered else self.label
        return await isis.cbcast(data, group, label=label, replies=self.replies, timeout=self.timeout_s)


@dataclass(slots=True)
class _Done:
    site: str = ""
    ids: list[str] = field(default_factory=list)
    replies: list[dict[str, object]] = field(default_factory=list)
    trouble: str | None = None


def cast_command(
    group: GroupName,
    messages: Annotated[
        list[str] | None,
        typer.Argument(metavar="MESSAGE", help="One cast each; - reads lines from standard input."),
    ] = None,
    directory: MaybeDir = None,
    node: Node = None,
    site: OnSite = None,
    key: Key = None,
    tls: Tls = None,
    abcast: Annotated[
        bool, typer.Option("--abcast", help="ABCAST: one order with the other ABCASTs of the label.")
    ] = False,
    gbcast: Annotated[
        bool, typer.Option("--gbcast", help="GBCAST: at the same place among all casts and views.")
    ] = False,
    causal: Annotated[bool, typer.Option("--causal", help="With --abcast: also after all that precedes it.")] = False,
    label: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Ordered only against casts of the same label.")
    ] = None,
    unordered: Annotated[bool, typer.Option("--unordered", help="Ordered after nothing.")] = False,
    replies: Annotated[str, typer.Option(metavar="N|all", help="Wait for so many replies, and print them.")] = "0",
    timeout: Annotated[
        str, typer.Option(metavar="TIME", help="Most time until the replies, or all members, have it.")
    ] = "30s",
    as_json: AsJson = False,
) -> None:
    """Cast messages to a group, by default with CBCAST. Prints their ids, or the replies.

    Returns when every member has them, or when the replies have come. A member that fails before it replies counts
    as a reply.
    """
    if abcast and gbcast:
        raise Malformed("expected --abcast or --gbcast, not both")
    name = "abcast" if abcast else "gbcast" if gbcast else "cbcast"
    kind = Kind(name, label, unordered, causal, _replies(replies), parse_timeout(timeout))
    messages = check_messages(messages, "isis cast")
    target = in_primary(Target(directory, node, key, tls, site))
    done = _Done()
    asyncio.run(_cast(target, group, messages, kind, done, quiet=as_json))
    if as_json:
        print_json(
            {
                "site": done.site,
                "group": group,
                "kind": kind.name,
                "ids": done.ids,
                "replies": done.replies if kind.replies else None,
                "trouble": done.trouble,
            }
        )
    elif done.trouble is not None:
        print(f"reconvene: {done.trouble}", file=sys.stderr)
    raise typer.Exit(DONE if done.trouble is None else VIOLATED)


def _replies(text: str) -> int:
    if text == _ALL:
        return ALL
    if not (text.isascii() and text.isdecimal()):
        raise Malformed(f"--replies {text}: expected a number, or {_ALL}")
    return int(text)


async def _cast(target: Target, group: str, messages: list[str], kind: Kind, done: _Done, quiet: bool) -> None:
    async with target.connect() as site:
        done.site = site.name
        blocked = why_blocked(site.name, await ready(site))
        if blocked is not None:
            raise blocked
        try:
            async for piece in pieces(messages):
                for data in piece:
                    call = await kind.cast(site.isis, group, data)
                    done.ids.append(call.id)
                    await _collect(call, kind, done, quiet)
            if not kind.replies:
                await site.isis.flush(timeout=kind.timeout_s)
        except OutcomeUnknown as error:
            done.trouble = str(error)
        except Unavailable as error:
            if not done.ids:
                raise
            done.trouble = f"{len(done.ids)} cast so far: {error}"


async def _collect(call: Call, kind: Kind, done: _Done, quiet: bool) -> None:
    """Prints the id of a cast that asks for no replies, and the replies of one that does."""
    if not kind.replies and not quiet:
        print(call.id, flush=True)
    async for reply in call:
        if quiet:
            done.replies.append(_document(call, reply))
        else:
            print(_line(reply), flush=True)


def _document(call: Call, reply: Reply | ProcessFailed | Unreachable) -> dict[str, object]:
    if isinstance(reply, Unreachable):
        return {"cast": call.id, "process": str(reply.process), "failed": False, "unreachable": True}
    if isinstance(reply, ProcessFailed):
        return {"cast": call.id, "process": str(reply.process), "failed": True}
    return {"cast": call.id, "process": str(reply.sender), "failed": False, **payload_document(reply.data)}


def _line(reply: Reply | ProcessFailed | Unreachable) -> str:
    if isinstance(reply, Unreachable):
        return f"{reply.process} is out of reach"
    if isinstance(reply, ProcessFailed):
        return f"{reply.process} has failed"
    return f"{reply.sender}  {readable(reply.data)}"
