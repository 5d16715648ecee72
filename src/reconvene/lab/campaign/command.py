"""Runs a range of seeds on the cores of this machine, keeps their outcomes, and prints a summary.

    python -m reconvene.lab.campaign --seeds 0-4999 --profile long

A campaign that was interrupted resumes: a seed with an outcome under --out is not run again. Ranges may be run in
parts, in any order. `reconvene campaign` runs the same seeds as Spark tasks, and keeps their traces too.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from multiprocessing import Pool
from pathlib import Path

from reconvene.lab.campaign.directory import CampaignDirectory, Seed
from reconvene.lab.campaign.progress import progress_bar
from reconvene.lab.campaign.seeds import Outcome, run_seed
from reconvene.lab.campaign.summary import Summary
from reconvene.sim.profiles import PROFILES

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    low, high = options.seeds
    directory = CampaignDirectory(Path(options.out), Outcome)
    if options.fresh:
        directory.forget(options.profile)
    seeds = [(options.profile, seed) for seed in range(low, high + 1)]
    missing = directory.missing(seeds)
    if len(missing) < len(seeds):
        print(f"{len(seeds) - len(missing)} seeds are done already, in {directory.root}", file=sys.stderr)
    if missing:
        _run(directory, missing, options.profile, options.jobs)
    summary = Summary(directory.outcomes(seeds))
    print("\n".join(summary.lines()))
    print(f"seeds: {summary.totals.runs - len(summary.failed)} passed, {len(summary.failed)} failed")
    return 1 if summary.failed or (options.demand and _lacks(summary)) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m reconvene.lab.campaign", description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=_range, default=(0, 4999), metavar="A-B", help="first and last seed")
    parser.add_argument("--profile", choices=sorted(PROFILES), default="long")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", default="out/soak", help="directory for the outcomes")
    parser.add_argument("--fresh", action="store_true", help="remove earlier outcomes of this profile")
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


def _run(directory: CampaignDirectory[Outcome], seeds: Sequence[Seed], profile: str, jobs: int) -> None:
    with progress_bar(f"profile {profile}", len(seeds)) as advance, Pool(jobs, maxtasksperchild=50) as pool:
        for outcome in pool.imap_unordered(_run_one, seeds):
            directory.write((outcome.profile, outcome.seed), outcome)
            advance(outcome)


def _run_one(seed: Seed) -> Outcome:
    return run_seed(*seed)


def _lacks(summary: Summary) -> bool:
    for check in summary.thin():
        print(f"{check}: {summary.cases[check]} cases, expected at least {summary.wanted(check)}")
    for step, kind in summary.unmet():
        print(f"no fault of kind {kind} hit a site in step {step}")
    return bool(summary.thin() or summary.unmet())
