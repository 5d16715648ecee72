"""reconvene log replicas: shows and changes the replicas of the log and its quorum."""

import asyncio
import sys
from typing import Annotated, Any

import typer
from msgspec import to_builtins

from reconvene.cli._cluster import AsJson, console
from reconvene.cli._output import DONE, VIOLATED, print_json
from reconvene.cli._target import Key, MaybeDir, Node, OnSite, Target, Tls
from reconvene.cli.log_status import quorum_words
from reconvene.client.status import LogStatus
from reconvene.errors import Malformed, TimedOut, Unavailable

__all__ = ["parse_quorum", "parse_sites", "replicas_command"]

_CHANGE_S = 30.0


def replicas_command(
    directory: MaybeDir = None,
    node: Node = None,
    site: OnSite = None,
    key: Key = None,
    tls: Tls = None,
    add: Annotated[str | None, typer.Option(metavar="SITE", help="Add this site as a replica.")] = None,
    remove: Annotated[
        str | None, typer.Option(metavar="SITE", help="Remove this replica; with --add: replace it.")
    ] = None,
    quorum: Annotated[
        str | None,
        typer.Option(
            metavar="RULE", help="majority, weighted:a=2,b=1,c=1, grid:a,b/c,d, dynamic or dynamic:2 (the minimum)."
        ),
    ] = None,
    force_lost: Annotated[
        str | None,
        typer.Option(metavar="SITES", help="Continue without replicas that are lost for good: a,b. Asks first."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="With --force-lost: do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the log's replicas, or change them: one change at a time, through the log itself."""
    changes = add is not None or remove is not None or quorum is not None
    if force_lost is not None and changes:
        raise Malformed("log replicas: expected --force-lost or a change, not both")
    if yes and force_lost is None:
        raise Malformed("--yes: expected --force-lost with it")
    target = Target(directory, node, key, tls, site)
    if force_lost is not None:
        raise typer.Exit(_give_up(target, parse_sites(force_lost), yes, as_json))
    rule = None if quorum is None else parse_quorum(quorum)
    done = asyncio.run(_change(target, add, remove, rule) if changes else _look(target))
    if as_json:
        print_json(done)
        return
    if done.get("position") is not None:
        console().print(f"changed at position {done['position']}")
    for name, replica in dict(done["replicas"]).items():
        console().print(f"{name}  ordered {replica.get('green', '-')}, behind {replica.get('lag', '-')}")
    console().print(f"quorum {quorum_words(done['quorum'])}", markup=False)


async def _look(target: Target) -> dict[str, Any]:
    async with target.connect() as site:
        return _replicas(await site.log.status())


async def _change(
    target: Target, add: str | None, remove: str | None, quorum: dict[str, object] | None
) -> dict[str, Any]:
    async with target.connect() as site:
        try:
            async with asyncio.timeout(_CHANGE_S):
                position = await site.log.change_replicas(add=add, remove=remove, quorum=quorum)
        except TimedOut:
            raise
        except TimeoutError:
            raise Unavailable(
                f"not ordered within {_CHANGE_S:g} s: the change is in the log and will be ordered once "
                "a quorum of the old and one of the new replicas are connected"
            ) from None
        return {"position": position, **_replicas(await site.log.status())}


def _replicas(status: LogStatus) -> dict[str, Any]:
    return {"replicas": to_builtins(status.replicas), "quorum": status.quorum}


def _give_up(target: Target, lost: list[str], yes: bool, as_json: bool) -> int:
    losses = asyncio.run(_losses(target, lost))
    if not yes:
        if as_json or not sys.stdin.isatty():
            if not as_json:
                _show_losses(lost, losses)
            raise Malformed("--force-lost: expected --yes, since standard input is no terminal")
        _show_losses(lost, losses)
        if not typer.confirm("Continue without them?", err=True):
            console().print("nothing was done")
            return VIOLATED
    elif not as_json:
        _show_losses(lost, losses)
    asyncio.run(_force(target, lost))
    if as_json:
        print_json({"losses": losses, "done": True})
    else:
        console().print(f"given up: {' '.join(lost)}")
    return DONE


def _show_losses(lost: list[str], losses: dict[str, object]) -> None:
    out = console()
    out.print(f"What may be lost with {' '.join(lost)}:", markup=False)
    sentences = losses.get("may_lose")
    for sentence in sentences if isinstance(sentences, list) else []:
        out.print(f"  {sentence}", markup=False)


async def _losses(target: Target, lost: list[str]) -> dict[str, object]:
    async with target.connect() as site:
        return await site.log.losses(lost)


async def _force(target: Target, lost: list[str]) -> None:
    async with target.connect() as site:
        await site.log.force_lost(lost)


def parse_sites(text: str) -> list[str]:
    """Raises Malformed."""
    names = [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) != len(names):
        raise Malformed(f"{text!r}: expected names of sites, such as a,b")
    return names


def _dynamic(rest: str) -> dict[str, object]:
    """`2`, `a=2,b=1`, or `2:a=2,b=1`: the minimum, and weights."""
    spec: dict[str, object] = {"kind": "dynamic"}
    for part in rest.split(":") if rest else ():
        if "=" in part:
            pairs = [pair.split("=") for pair in part.split(",")]
            spec["weights"] = {name.strip(): int(weight) for name, weight in pairs}
        else:
            spec["minimum"] = int(part)
    return spec


def parse_quorum(text: str) -> dict[str, object]:
    """Raises Malformed."""
    kind, _, rest = text.partition(":")
    try:
        match kind:
            case "majority" if not rest:
                return {"kind": "majority"}
            case "weighted":
                pairs = [pair.split("=") for pair in rest.split(",")]
                return {"kind": "weighted", "weights": {name.strip(): int(weight) for name, weight in pairs}}
            case "dynamic":
                return _dynamic(rest)
            case "grid":
                return {"kind": "grid", "rows": [parse_sites(row) for row in rest.split("/")]}
    except (ValueError, Malformed):
        pass
    raise Malformed(f"--quorum {text}: expected majority, weighted:a=2,b=1,c=1, grid:a,b/c,d or dynamic:2")
