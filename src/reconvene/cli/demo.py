"""reconvene demo: Wiredville elects a mayor, on five real sites, while the network breaks."""

import asyncio
import re
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from reconvene.cli._cluster import AsJson
from reconvene.cli._output import DONE, VIOLATED, print_json
from reconvene.errors import Malformed
from reconvene.lab.demo import Paths, Stage, play

__all__ = ["demo_command"]


def demo_command(
    directory: Annotated[
        Path,
        typer.Option(
            "--dir",
            metavar="DIR",
            help="Directory for the cluster, the table and the reports; emptied at each start.",
        ),
    ] = Path("reconvene-demo"),
    keep: Annotated[bool, typer.Option("--keep", help="Leave the cluster running.")] = False,
    spark: Annotated[
        bool, typer.Option(help="Follow the log and judge the run with Spark, where it is installed.")
    ] = True,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, metavar="N", help="Seed of the votes.")] = 7,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Also save the output as a picture.")] = None,
    as_json: AsJson = False,
) -> None:
    """Five real sites hold an election; the network is cut, a site is killed, and every vote counts once."""
    if svg is not None and not svg.absolute().parent.is_dir():
        raise Malformed(f"{svg}: --svg: expected a file in a directory that exists")
    console = Console(highlight=False, markup=False, stderr=as_json, record=svg is not None)
    stage = Stage(console, live=svg is None)
    outcome = asyncio.run(play(Paths(directory), stage, seed=seed, keep=keep, spark=spark))
    if svg is not None:
        svg.write_text(_without_links(console.export_svg(title="make demo")))
    if as_json:
        print_json(outcome.document())
    raise typer.Exit(DONE if outcome.ok else VIOLATED)


def _without_links(picture: str) -> str:
    """Rich's pictures load their fonts from the web. A picture in a repository should need nothing else."""
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)
    return re.sub(r"<!--.*?-->", "", picture, flags=re.DOTALL)
