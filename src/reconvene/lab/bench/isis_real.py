"""Process groups in the manner of ISIS on real sites, each figure beside what it is compared with, in the same run.

Three sites, each with a program inside it, on loopback. CBCASTs are measured on the same sites as `agreed` and
`causal` messages of groups, in turns. Section 5.4 of the paper: a request that takes a replicated write-lock and
updates a file, by a caller beside the coordinator, one after the other, and after a pause. What depends on the number
of sites and on the load is in virtual time, with a processor for each site, since two cores can't be six computers.
Locks are compared with those of etcd.
"""

import asyncio
from collections.abc import Callable, Sequence
from statistics import fmean, median
from time import monotonic, monotonic_ns

import reconvene
from reconvene.lab.bench import isis_distributed_load as load
from reconvene.lab.bench import isis_locks, isis_object
from reconvene.lab.bench.foreign import Foreign
from reconvene.lab.bench.results import Bar, Results
from reconvene.lab.bench.rounds import in_turns as measured_in_turns
from reconvene.lab.bench.sheet import Settings, Sheet, percentile
from reconvene.lab.bench.sites import LATENCY_TIMEOUT_S, WARM_UP_S, Running, Setup, running_isis
from reconvene.lab.load.isis_file import Figures, in_turns, request
from reconvene.lab.load.process import LoadProcess
from reconvene.lab.load.simulated import MS

__all__ = ["run"]

SIZE = 100
PAUSE_US = 3_000
"""Between two messages that are alone: none takes so long."""
COLD_US = 10_000
"""After so long a pause the processors have gone to sleep, and their caches hold other things."""
WARM_UP_MESSAGES = 50
_GRACE_S = 60.0
_FASTER = 10
"""So many times as fast as in the paper are the loads of real sites."""


def run(settings: Settings) -> Sheet:
    results = Results("isis-real", settings, 2)
    sheet = results.sheet
    found: dict[str, list[float]] = measured_in_turns(sheet, settings, _measures(settings))
    values = {name: median(figures) for name, figures in found.items()}
    _add_casts(results, values)
    _add_file(results, values)
    isis_locks.add(results, values)
    results.begin("section 5.4 by the number of copies, in virtual time")
    _add_copies(results, settings.seed)
    load.add(results, settings, values)
    sheet.notes.append(
        "medians of the rounds; other programs used "
        f"{min(found['foreign']):.1f} to {max(found['foreign']):.1f} cores meanwhile"
    )
    return results.finish("ISIS on real sites")


def _measures(settings: Settings) -> dict[str, Callable[[], Figures]]:
    return {
        "CBCASTs and a replicated file": lambda: _on_sites(settings.quick),
        **isis_locks.measures(settings),
    }


def _on_sites(quick: bool) -> Figures:
    count, seconds = (300, 1.0) if quick else (1_000, 3.0)
    with running_isis(Setup(isis=True)) as run, Foreign(lambda: run.pids) as foreign:
        figures = {
            "cbcast p50": _latency(run, count, "cbcast"),
            "agreed p50": _latency(run, count, "agreed"),
            "cbcast/s": _throughput(run, seconds, "cbcast"),
            "causal/s": _throughput(run, seconds, "causal"),
            **_requests(run, 20 if quick else 100, 0),
            **{f"cold {name}": value for name, value in _requests(run, 20 if quick else 100, COLD_US).items()},
            **asyncio.run(_calls(run, 20 if quick else 100)),
            **_loads(run, 4.0 if quick else 8.0),
        }
    return {**figures, "foreign": foreign.cores}


def _latency(run: Running, count: int, service: str) -> float:
    """p50 in µs: to the slowest site that receives it."""
    total = count + WARM_UP_MESSAGES
    deadline = monotonic() + LATENCY_TIMEOUT_S + total * PAUSE_US / 1e6
    heard = run.loads[1:2] if service == "cbcast" else run.loads
    for each in reversed(run.loads):
        role = "send" if each is run.loads[0] else "listen"
        if role == "send" or each in heard:
            each.say(f"latency {total} {SIZE} {PAUSE_US} {service} {role}")
    took = [each.hear("took", deadline)["took"] for each in {run.loads[0]: 0, **dict.fromkeys(heard, 0)}]
    slowest = [max(row) / 1e3 for row in zip(*filter(None, took), strict=True)]
    return percentile(slowest[WARM_UP_MESSAGES:], 50)


def _throughput(run: Running, seconds: float, service: str) -> float:
    """Messages a second that every site has received; all of them send."""
    deadline = monotonic() + WARM_UP_S + seconds + _GRACE_S
    begin = monotonic_ns() + int(WARM_UP_S * 1e9)
    for each in run.loads:
        each.say(f"throughput {begin} {begin + int(seconds * 1e9)} {SIZE} {service}")
    answers = [each.hear("to", deadline) for each in run.loads]
    return float(min(line["to"] for line in answers) - min(line["from"] for line in answers)) / seconds


async def _calls(run: Running, count: int) -> Figures:
    """Section 5.4, by a caller that is a client of the coordinator's site."""
    (coordinator, *_) = run.processes
    async with reconvene.connect(str(run.sockets[0])) as site:
        await site.isis.open("caller")
        figures = await in_turns(
            count,
            lambda updates, wait: request(site.isis, coordinator, updates, synchronous=wait),
            lambda: asyncio.sleep(PAUSE_US / 1e6),
        )
    return {f"client's {name}": value for name, value in figures.items()}


def _requests(run: Running, count: int, pause_us: int) -> Figures:
    """By a caller in the coordinator's program."""
    coordinator = run.loads[0]
    coordinator.say(f"file {count} {pause_us}")
    figures: Figures = coordinator.hear("file", monotonic() + _GRACE_S)["file"]
    return figures


def _loads(run: Running, seconds: float) -> Figures:
    """The distributed load, ten times as fast: mean delays in ms, as long as the paper's would be."""

    def delay(loads: Sequence[LoadProcess], rate: float, how: str) -> float:
        count = max(5, round(rate * _FASTER * seconds / len(loads)))
        costs = " ".join(str(cost // 1_000 / _FASTER) for cost in (load.SERVE_NS, load.PACKET_NS, load.UPDATE_NS))
        for each in loads:
            each.say(f"load {costs} {rate * _FASTER / len(loads)} {count} 1 {how}")
        answers = [each.hear("delays", monotonic() + _GRACE_S)["delays"] for each in loads]
        return _FASTER * fmean([ms for delays in answers for ms in delays])

    return {
        "load, light": delay(run.loads[:1], load.LIGHT, "alone"),
        "load, alone": delay(run.loads[:1], load.HEAVY, "alone"),
        "load, shared": delay(run.loads, load.HEAVY, "shared"),
    }


def _add_casts(results: Results, values: Figures) -> None:
    results.add("agreed alone, to the slowest, p50", "reconvene", values["agreed p50"], "µs")
    against = ("agreed to the slowest", values["agreed p50"])
    results.add("CBCAST alone, to one other site, p50", "reconvene", values["cbcast p50"], "µs", against, Bar(0.8))
    results.add(f"causal, {SIZE} B, all send", "reconvene", values["causal/s"], "messages/s")
    against = ("causal", values["causal/s"])
    bar = Bar(0.6, at_least=True)
    results.add(f"CBCAST, {SIZE} B, all send", "reconvene", values["cbcast/s"], "messages/s", against, bar)


def _add_file(results: Results, values: Figures) -> None:
    """The paper's figures are of a system that goes on working: so the bar is for a request that begins when the last
    one is done at all copies. After a pause, all take longer, and the first steps most of all."""
    for caller, prefix in (
        ("in the coordinator's program", ""),
        ("in the coordinator's program, 10 ms later", "cold "),
        ("a client of the coordinator's site", "client's "),
    ):
        for work, name, times in (
            ("5.4: lock, update and reply", "request", 0.36),
            ("5.4: a further update", "further", 0.2),
        ):
            slow = values[f"{prefix}{name}, synchronous"]
            results.add(f"{work}, synchronous; caller {caller}", "reconvene", slow, "ms")
            fast = values[f"{prefix}{name}, asynchronous"]
            against = ("synchronous", slow)
            bar = None if prefix else Bar(times)
            results.add(f"{work}, asynchronous; caller {caller}", "reconvene", fast, "ms", against, bar)


def _add_copies(results: Results, seed: int) -> None:
    for synchronous, mode in ((False, "asynchronous"), (True, "synchronous")):
        two, six = (
            isis_object.measure(copies, 5, synchronous=synchronous, seed=seed).response_ns / MS for copies in (2, 6)
        )
        bar = Bar(1.0, at_least=True) if synchronous else Bar(1.2)
        work = f"5.4: response to 5 updates, {mode}, 6 copies, virtual time"
        results.add(work, "reconvene", six, "ms", ("2 copies", two), bar)
