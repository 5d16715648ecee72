"""A cluster of real sites under load for minutes or hours, with a fault every few seconds, every trace verified.

    python -m reconvene.lab.soak --minutes 10 --out out/soak-real
    python -m reconvene.lab.soak --log --minutes 10
    python -m reconvene.lab.soak --log --followers 3 --outposts 2 --minutes 10
    python -m reconvene.lab.soak --isis --minutes 10

Clients send messages to groups; with --log they append to the log; with --isis they cast to process groups.

A soak is a campaign of several runs. Each run begins with all sites in one configuration, ends at rest, and has a
trace of its own. The trace is verified and, if nothing was found, removed. The outcome of each run is kept under
--out: a soak that was interrupted resumes with the next run. A finding ends the soak at once, with exit 1; the trace
and the logs of the sites and the clients stay.
"""

import argparse
import math
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from reconvene.errors import ReconveneError
from reconvene.lab.campaign.directory import CampaignDirectory
from reconvene.lab.ending import unwinds_on_sigterm
from reconvene.lab.soak.group_soak import GroupSoak
from reconvene.lab.soak.isis_soak import IsisSoak
from reconvene.lab.soak.log_soak import LogSoak
from reconvene.lab.soak.report import complaints, report_lines, run_line
from reconvene.lab.soak.run import Notify, Soak, T
from reconvene.local.cluster import LocalCluster

__all__ = ["main"]

_CLUSTER, _FAULTS_LOG, _LOAD_LOG = "cluster", "faults.log", "load.log"


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if (options.followers or options.outposts) and not options.log:
        parser.error("--followers and --outposts: expected --log with them")
    out = Path(
        options.out or ("out/soak-log" if options.log else "out/soak-isis" if options.isis else "out/soak-real")
    )
    try:
        out.mkdir(parents=True, exist_ok=True)
        with unwinds_on_sigterm():
            if options.log:
                return _soak(LogSoak(options.followers, options.outposts), options, out)
            return _soak(IsisSoak(), options, out) if options.isis else _soak(GroupSoak(), options, out)
    except (ReconveneError, OSError) as error:
        print(f"soak: {error}; its files stay in {out}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("soak: interrupted; the same command resumes with the run that was interrupted", file=sys.stderr)
        return 130


def _soak(soak: Soak[T], options: argparse.Namespace, out: Path) -> int:
    directory = CampaignDirectory(out, soak.run_type)
    if options.fresh:
        _forget(out)
        directory.forget(soak.profile)
    done = [(soak.profile, number) for number in sorted(directory.done(soak.profile))]
    runs = list(directory.outcomes(done))
    wanted = [(soak.profile, number) for number in range(1, math.ceil(options.minutes / options.run) + 1)]
    if runs:
        print(f"{len(runs)} runs are done already, in {out}", file=sys.stderr)
    seconds = 60 * min(options.run, options.minutes)
    for seed in directory.missing(wanted):
        _, number = seed
        with _shown(number, len(wanted), out / _FAULTS_LOG) as notify:
            cluster = soak.open(out / _CLUSTER, options.sites)
            rate = options.rate or soak.rate
            run = soak.run(cluster, number, 1000 * options.seed + number, seconds, rate, out / _LOAD_LOG, notify)
        directory.write(seed, run)
        runs.append(run)
        print(run_line(soak, run), flush=True)
        if not run.ok:
            print(f"the trace is in {cluster.trace_dir}", flush=True)
            break
        if not options.keep:
            shutil.rmtree(cluster.trace_dir)
        else:
            cluster.trace_dir.rename(out / f"trace-{number}")
    print("\n".join(report_lines(soak, runs)))
    found = complaints(soak, runs, soak.least if options.least is None else options.least)
    print("\n".join(found) or "nothing was found")
    return 1 if found else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m reconvene.lab.soak", description=__doc__.split("\n")[0])
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--log", action="store_true", help="soak the log instead of groups")
    kind.add_argument("--isis", action="store_true", help="soak process groups in the manner of ISIS")
    for beside, what in (("followers", "follow the log"), ("outposts", "accept messages for the log")):
        beside_help = f"with --log: so many processes beside the sites {what}"
        parser.add_argument(f"--{beside}", type=int, choices=range(10), metavar="0-9", default=0, help=beside_help)
    parser.add_argument("--minutes", type=_positive, default=10.0, help="under load, in all runs together")
    parser.add_argument("--run", type=_positive, default=2.0, metavar="MINUTES", help="how long one run is")
    parser.add_argument("--sites", type=int, choices=range(3, 27), metavar="3-26", default=5)
    rates = "default: 2000, with --log 1500"
    parser.add_argument("--rate", type=_positive, help=f"messages a second that clients try to write ({rates})")
    least = "fail below so many messages a second (default: 1000, with --isis 500)"
    parser.add_argument("--least", type=float, help=least)
    parser.add_argument("--seed", type=int, default=1, help="decides the faults and the messages")
    parser.add_argument("--out", help="directory for results (default: out/soak-real, out/soak-log, out/soak-isis)")
    parser.add_argument("--fresh", action="store_true", help="remove earlier results")
    parser.add_argument("--keep", action="store_true", help="also keep traces in which nothing was found")
    return parser


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text}: expected a number above 0")
    return value


def _forget(out: Path) -> None:
    """Removes what a soak has put there, and nothing else."""
    if (out / _CLUSTER / "cluster.toml").exists():
        LocalCluster(out / _CLUSTER).kill()
    for directory in (out / _CLUSTER, *out.glob("trace-*")):
        shutil.rmtree(directory, ignore_errors=True)
    for name in (_FAULTS_LOG, _LOAD_LOG):
        (out / name).unlink(missing_ok=True)


@contextmanager
def _shown(number: int, wanted: int, log: Path) -> Iterator[Notify]:
    """Writes what happens to a log; a terminal shows the last line of it."""
    console = Console(stderr=True)
    columns = (
        TextColumn("run {task.fields[run]}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    began = time.monotonic()
    with log.open("a") as file, Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("starts", total=None, run=f"{number} of {wanted}")

        def notify(what: str) -> None:
            file.write(f"run {number} {time.monotonic() - began:7.2f} s  {what}\n")
            file.flush()
            progress.update(task, description=what)

        yield notify
