"""A cluster of real sites under load for minutes or hours, broken every few seconds, every trace verified.

    python -m reconvene.lab.soak --minutes 10 --out out/soak-real
    python -m reconvene.lab.soak --log --minutes 10

Clients send messages to groups; or, with --log, append to the log.

It runs in parts: each begins with all sites together, ends in rest, and has a trace of its own, which is judged and,
where nothing was found, removed. Finished parts are lines in a file under --out: a run that was cut off goes on with
the next part. What is found ends it at once, with exit 1; the trace, the sites' logs and the clients' stay.
"""

import argparse
import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from reconvene.errors import ReconveneError
from reconvene.lab.soak import log_report
from reconvene.lab.soak.log_part import LogPart, log_cluster, run_log_part
from reconvene.lab.soak.part import Part, Tell, open_cluster, run_part
from reconvene.lab.soak.report import complaints, lines, part_line
from reconvene.local.cluster import LocalCluster

__all__ = ["main"]

_PARTS_FILE, _CLUSTER, _FAULTS_LOG, _LOAD_LOG = "parts.jsonl", "cluster", "faults.log", "load.log"

P = TypeVar("P", Part, LogPart)


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    out = Path(options.out or ("out/soak-log" if options.log else "out/soak-real"))
    options.rate = options.rate or (1500.0 if options.log else 2000.0)
    try:
        out.mkdir(parents=True, exist_ok=True)
        if options.fresh:
            _forget(out)
        return _soak(_log(), options, out) if options.log else _soak(_groups(), options, out)
    except (ReconveneError, OSError) as error:
        print(f"soak: {error}; what there is stays in {out}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("soak: interrupted; the same command goes on with the part that was cut off", file=sys.stderr)
        return 130


@dataclass(frozen=True)
class _Kind(Generic[P]):
    """What is soaked: its parts, how one is run, and what is said of them."""

    part: type[P]
    open: Callable[[Path, int], LocalCluster]
    run: Callable[[LocalCluster, int, int, float, float, Path, Tell], P]
    part_line: Callable[[P], str]
    lines: Callable[[Sequence[P]], Iterator[str]]
    complaints: Callable[[Sequence[P], float], list[str]]


def _groups() -> _Kind[Part]:
    return _Kind(Part, open_cluster, run_part, part_line, lines, complaints)


def _log() -> _Kind[LogPart]:
    return _Kind(LogPart, log_cluster, run_log_part, log_report.part_line, log_report.lines, log_report.complaints)


def _soak(kind: _Kind[P], options: argparse.Namespace, out: Path) -> int:
    parts = _read(out / _PARTS_FILE, kind.part)
    wanted = math.ceil(options.minutes / options.part)
    if parts:
        print(f"{len(parts)} parts are done already, in {out / _PARTS_FILE}", file=sys.stderr)
    seconds = 60 * min(options.part, options.minutes)
    for number in range(len(parts) + 1, wanted + 1):
        with _shown(number, wanted, out / _FAULTS_LOG) as tell:
            cluster = kind.open(out / _CLUSTER, options.sites)
            seed = 1000 * options.seed + number
            part = kind.run(cluster, number, seed, seconds, options.rate, out / _LOAD_LOG, tell)
        with (out / _PARTS_FILE).open("ab") as file:
            file.write(msgspec.json.encode(part) + b"\n")
        parts.append(part)
        print(kind.part_line(part), flush=True)
        if not part.ok:
            print(f"the trace is in {cluster.trace_dir}", flush=True)
            break
        if not options.keep:
            shutil.rmtree(cluster.trace_dir)
        else:
            cluster.trace_dir.rename(out / f"trace-{number}")
    print("\n".join(kind.lines(parts)))
    found = kind.complaints(parts, options.least)
    print("\n".join(found) or "nothing was found")
    return 1 if found else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m reconvene.lab.soak", description=__doc__.split("\n")[0])
    parser.add_argument("--log", action="store_true", help="of the log, and not of groups")
    parser.add_argument("--minutes", type=_positive, default=10.0, help="under load, in all parts together")
    parser.add_argument("--part", type=_positive, default=2.0, metavar="MINUTES", help="how long a part is")
    parser.add_argument("--sites", type=int, choices=range(3, 27), metavar="3-26", default=5)
    parser.add_argument(
        "--rate", type=_positive, help="messages a second that clients try to write: 2000, or 1500 to the log"
    )
    parser.add_argument("--least", type=float, default=1000.0, help="messages a second below which it fails")
    parser.add_argument("--seed", type=int, default=1, help="decides the faults and the messages")
    parser.add_argument("--out", help="where results are kept: out/soak-real, or out/soak-log")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--keep", action="store_true", help="keep traces in which nothing was found too")
    return parser


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text}: expected a number above 0")
    return value


def _forget(out: Path) -> None:
    """What a soak has put there, and nothing else."""
    if (out / _CLUSTER / "cluster.toml").exists():
        LocalCluster(out / _CLUSTER).kill()
    for directory in (out / _CLUSTER, *out.glob("trace-*")):
        shutil.rmtree(directory, ignore_errors=True)
    for name in (_PARTS_FILE, _FAULTS_LOG, _LOAD_LOG):
        (out / name).unlink(missing_ok=True)


def _read(file: Path, kind: type[P]) -> list[P]:
    """The parts that were finished. A torn last line is one that was not: it is cut off."""
    if not file.exists():
        return []
    data = file.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if whole != data:
        file.write_bytes(whole)
    return msgspec.json.Decoder(kind).decode_lines(whole)


@contextmanager
def _shown(number: int, wanted: int, log: Path) -> Iterator[Tell]:
    """What happens goes into a log, and on a terminal the last of it is shown."""
    console = Console(stderr=True)
    columns = (
        TextColumn("part {task.fields[part]}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    began = time.monotonic()
    with log.open("a") as file, Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("starts", total=None, part=f"{number} of {wanted}")

        def tell(what: str) -> None:
            file.write(f"part {number} {time.monotonic() - began:7.2f} s  {what}\n")
            file.flush()
            progress.update(task, description=what)

        yield tell
