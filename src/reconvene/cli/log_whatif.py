"""reconvene log whatif: what losing some replicas would stop."""

import asyncio
from typing import Annotated, Any

import typer

from reconvene.cli._cluster import AsJson, console
from reconvene.cli._output import print_json
from reconvene.cli._target import Key, MaybeDir, Node, OnSite, Target, Tls
from reconvene.cli.log_replicas import parse_sites

__all__ = ["whatif_command"]


def whatif_command(
    lose: Annotated[str, typer.Option("--lose", metavar="SITES", help="The replicas that would be lost: a,b.")],
    directory: MaybeDir = None,
    node: Node = None,
    site: OnSite = None,
    key: Key = None,
    tls: Tls = None,
    as_json: AsJson = False,
) -> None:
    """Show what losing these replicas would stop."""
    lost = parse_sites(lose)
    found = asyncio.run(_ask(Target(directory, node, key, tls, site), lost))
    if as_json:
        print_json(found)
        return
    out = console()
    rest = ", ".join(found.get("rest", ())) or "nobody"
    ordering = found.get("ordering", True)
    if found.get("orders"):
        goes_on = "go on ordering" if ordering else "can order"
    else:
        goes_on = f"{'stop ordering' if ordering else 'can not order'}: {found.get('orders_why')}"
    out.print(f"Without {', '.join(lost)}, those connected here ({rest}) {goes_on}.", markup=False)
    if not found.get("orders"):
        whole = "can order" if found.get("orders_with_all") else f"can not order: {found.get('orders_with_all_why')}"
        out.print(f"All other replicas together {whole}.", markup=False)
    if not ordering:
        out.print(
            "That is by what this site knows, and it does not order now: others may have gone on without it. Ask a"
            " site that orders, if there is one.",
            markup=False,
        )


async def _ask(target: Target, lost: list[str]) -> dict[str, Any]:
    async with target.connect() as site:
        return await site.log.whatif(lost)
