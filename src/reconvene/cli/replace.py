"""reconvene replace: a site that lost its storage starts anew under its old name."""

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
    """Make new storage for a stopped site whose storage is lost, or older than what the other sites know. Start the
    site afterwards."""
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
            f"no answer from {', '.join(done.unheard)}; if one of them refuses {name} later, run replace again",
            markup=False,
        )
    out.print(f"{name} is replaced: its next incarnation is {done.start}. Start it now", markup=False)
