"""reconvene replace: a site whose storage is lost becomes a new one under its old name."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from msgspec import to_builtins

from reconvene.cli._cluster import AsJson, console
from reconvene.cli._output import print_json
from reconvene.runtime.config.file import load
from reconvene.runtime.node.replacing import Replaced, replace_site

__all__ = ["replace_command"]


def replace_command(
    config: Annotated[Path, typer.Option("--config", metavar="FILE", help="The configuration of the stopped site.")],
    as_json: AsJson = False,
) -> None:
    """Give a stopped site whose storage is lost, or older than what others know, a new one. Then start it."""
    told = load(config)
    done = asyncio.run(replace_site(told))
    if as_json:
        print_json({"site": told.name, **to_builtins(done)})
        return
    _show(told.name, done)


def _show(name: str, done: Replaced) -> None:
    out = console()
    for moved in done.moved:
        out.print(f"moved aside: {moved}", markup=False)
    if done.unheard:
        out.print(
            f"not heard: {', '.join(done.unheard)}; if one of them refuses {name}, replace it again", markup=False
        )
    out.print(f"{name} is replaced: its next start is number {done.start}. Start it now", markup=False)
