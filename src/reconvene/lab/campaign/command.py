"""Runs a range of seeds in parallel, keeps what is done, and prints what it adds up to.

    python -m reconvene.lab.campaign --seeds 0-4999 --profile long

Each finished seed is a line in a file under --out; a run that was cut off goes on where it was, and ranges may be
run in parts, in any order.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from multiprocessing import Pool
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from reconvene.lab.campaign.seeds import Outcome, run_seed
from reconvene.lab.campaign.summary import Tally
from reconvene.sim.profiles import PROFILES

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    low, high = options.seeds
    file = Path(options.out) / f"{options.profile}.jsonl"
    done = {} if options.fresh else {outcome.seed: outcome for outcome in _read(file)}
    wanted = range(low, high + 1)
    todo = [seed for seed in wanted if seed not in done]
    if len(todo) < len(wanted):
        print(f"{len(wanted) - len(todo)} seeds are done already, in {file}", file=sys.stderr)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb" if options.fresh else "ab") as out:
        for outcome in _run(options.profile, todo, options.jobs):
            done[outcome.seed] = outcome
            out.write(msgspec.json.encode(outcome) + b"\n")
            out.flush()
    tally = Tally(done[seed] for seed in wanted)
    print("\n".join(tally.lines()))
    print(f"seeds: {tally.seeds - len(tally.failed)} passed, {len(tally.failed)} failed")
    return 1 if tally.failed or (options.demand and _lacks(tally)) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m reconvene.lab.campaign", description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=_range, default=(0, 4999), metavar="A-B", help="first and last seed")
    parser.add_argument("--profile", choices=sorted(PROFILES), default="long")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", default="out/soak", help="where results are kept")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument(
        "--demand", action="store_true", help="fail if a check or a pair of step and fault lacks cases"
    )
    return parser


def _range(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    try:
        first, last = int(low), int(high or low)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected A-B, such as 0-499") from None
    if last < first:
        raise argparse.ArgumentTypeError(f"{text!r}: {last} comes before {first}")
    return first, last


def _read(file: Path) -> Iterator[Outcome]:
    if not file.exists():
        return
    for line in file.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):  # a torn last line is a seed that was not finished
            yield msgspec.json.decode(line, type=Outcome)


def _run(profile: str, seeds: list[int], jobs: int) -> Iterator[Outcome]:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with (
        Progress(*columns, console=console, disable=not console.is_terminal) as progress,
        Pool(jobs, maxtasksperchild=50) as pool,
    ):
        task = progress.add_task(f"profile {profile}", total=len(seeds))
        failed = 0
        for outcome in pool.imap_unordered(_one, ((profile, seed) for seed in seeds)):
            failed += not outcome.ok
            progress.update(task, advance=1, description=f"profile {profile}, {failed} failed")
            yield outcome


def _one(job: tuple[str, int]) -> Outcome:
    return run_seed(*job)


def _lacks(tally: Tally) -> bool:
    for check in tally.thin():
        print(f"{check}: {tally.cases[check]} cases, at least {tally.wanted(check)} wanted")
    for step, kind in tally.unmet():
        print(f"no fault of kind {kind} met a site in step {step}")
    return bool(tally.thin() or tally.unmet())
