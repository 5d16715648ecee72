"""reconvene sim: runs a scenario in virtual time."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from reconvene.cli._output import print_json
from reconvene.errors import Malformed
from reconvene.sim.durations import show_duration
from reconvene.sim.parse import load_scenario
from reconvene.sim.runner import Result, run_scenario
from reconvene.sim.scenario import Scenario
from reconvene.trace.domains import DOMAINS_FILE, WIDE_DIR, is_wide, read_domains
from reconvene.trace.reader import read_run
from reconvene.trace.writer import RUN_FILE, node_file

__all__ = ["sim_command"]

_CHECK_EVERY = 50
"""Turns between two checks of the sites' invariants."""


def sim_command(
    scenario: Path = typer.Argument(..., metavar="SCENARIO.toml", help="The scenario file."),
    seed: int | None = typer.Option(None, min=0, max=2**63 - 1, metavar="N", help="Overrides the seed of the file."),
    trace: Path | None = typer.Option(None, metavar="DIR", help="Write the trace there."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON document."),
) -> None:
    """Run a scenario in virtual time. The same scenario and seed produce the same trace, byte for byte."""
    plan = load_scenario(scenario)
    if trace is not None:
        _check_target(trace)
    started = time.monotonic()
    with _progress(plan) as advance:
        result = run_scenario(plan, seed, progress=advance, check_every=_CHECK_EVERY)
    elapsed = time.monotonic() - started
    if trace is not None:
        _write(trace, result)
    if as_json:
        print_json(result.summary(None if trace is None else str(trace)))
    else:
        _print(plan, result, trace, elapsed)


def _check_target(directory: Path) -> None:
    """A trace may be overwritten; any other content of the directory is refused."""
    try:
        if not directory.exists():
            return
        if not directory.is_dir():
            raise Malformed(f"{directory}: is a file")
        if any(directory.iterdir()):
            if is_wide(directory):
                read_domains(directory)
            else:
                read_run(directory)
    except Malformed as error:
        raise Malformed(f"--trace: expected an empty directory or a trace: {error}") from None
    except OSError as error:
        raise Malformed(f"{directory}: --trace: expected a directory: {error.strerror or error}") from None


def _write(directory: Path, result: Result) -> None:
    try:
        if directory.is_dir() and any(directory.iterdir()):
            if is_wide(directory):
                old = read_domains(directory)
                (directory / DOMAINS_FILE).unlink()
                for name in (*(domain.name for domain in old.domains), WIDE_DIR):
                    _remove(directory / name, wide=name == WIDE_DIR)
            else:
                _remove(directory)
        result.write(directory)
    except OSError as error:
        raise Malformed(
            f"{directory}: --trace: expected a directory to write to: {error.strerror or error}"
        ) from None


def _remove(directory: Path, *, wide: bool = False) -> None:
    """Removes run.json first, so that the rest is not mistaken for a trace after an interruption."""
    old = read_run(directory, wide=wide)
    (directory / RUN_FILE).unlink()
    for node in old.recorded:
        node_file(directory, node).unlink()


class _Advance(Protocol):
    def __call__(self, now: int, /) -> None: ...


@contextmanager
def _progress(plan: Scenario) -> Iterator[_Advance | None]:
    if not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[at]}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(plan.name, total=plan.duration_ns + plan.settle_ns, at="0s")

        def advance(now: int, /) -> None:
            bar.update(task, completed=now, at=show_duration(now // 10**8 * 10**8))

        yield advance


def _print(plan: Scenario, result: Result, trace: Path | None, elapsed: float) -> None:
    meta = result.meta
    groups = " | ".join(" ".join(name for name in c if name not in meta.down) or "-" for c in meta.components)
    print(f"{result.run}: {show_duration(result.virtual_ns)} of virtual time in {elapsed:.1f}s, order {result.order}")
    print(f"  messages        {result.messages}")
    print(f"  configurations  {result.configurations}")
    skipped = f" ({result.skipped} steps skipped)" if result.skipped else ""
    print(f"  faults          {result.faults}{skipped}")
    print(f"  events          {result.events}")
    down = f"; down: {' '.join(meta.down)}" if meta.down else ""
    print(f"  at the end      {groups}{down}" + ("" if result.settled else " (not settled)"))
    if trace is None:
        print("  no trace was written: --trace DIR writes one for reconvene verify")
    else:
        print(f"  trace           {trace}")
