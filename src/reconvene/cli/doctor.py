"""reconvene doctor: what a site would find on this machine, and what to change."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from reconvene.cli._cluster import AsJson, console
from reconvene.cli._output import DONE, VIOLATED, print_json
from reconvene.doctor import Finding, Level, examine
from reconvene.errors import Malformed
from reconvene.runtime.config.file import load

__all__ = ["doctor_command"]

_STYLES = {Level.OK: "green", Level.ADVICE: "yellow", Level.WRONG: "bold red"}


def doctor_command(
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="A site's configuration: check for exactly this site."),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir", metavar="DIR", help="Where a site would keep its state; default: the current directory."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check whether a site can run on this machine, and what would make it run better. Exits with 1 if something must
    be changed. Takes a few seconds and changes nothing."""
    if config is not None and directory is not None:
        raise Malformed("expected --config FILE or --dir DIR, not both: the file has the site's directory")
    told = None if config is None else load(config)
    place = directory or Path() if told is None else told.dir
    found = []
    for finding in examine(place.absolute(), told, config):
        found.append(finding)
        if not as_json:
            _show(finding)
    ok = all(finding.level is not Level.WRONG for finding in found)
    if as_json:
        print_json({"ok": ok, "config": None if config is None else str(config), "dir": str(place), "checks": found})
    else:
        _conclude(found)
    raise typer.Exit(DONE if ok else VIOLATED)


def _show(finding: Finding) -> None:
    change = "" if finding.change is None else f"; change: {finding.change}"
    line = Text.assemble(
        (f"{finding.level:<7}", _STYLES[finding.level]), (f"{finding.check:<16}", "bold"), finding.seen, change
    )
    console().print(line, soft_wrap=True)


def _conclude(found: list[Finding]) -> None:
    wrong = sum(finding.level is Level.WRONG for finding in found)
    advice = sum(finding.level is Level.ADVICE for finding in found)
    verdict = "a site can run here" if not wrong else f"{wrong} must be changed before a site can run here"
    console().print(f"{verdict}; {advice} could be better" if advice else verdict)
