"""What the broadcasts of ISIS cost, in virtual time over the real stacks, compared with those of a bare site.

Each bar is a ratio of two figures of the same run.
"""

from reconvene.ids import Service
from reconvene.lab.bench import isis_object
from reconvene.lab.bench.isis_casts import (
    SIZE,
    Alone,
    all_sending,
    alone,
    beside_a_pause,
    largest_pool,
    plain_alone,
)
from reconvene.lab.bench.isis_groups import crash_ns, join_ns
from reconvene.lab.bench.results import Bar, Results
from reconvene.lab.bench.sheet import Settings, Sheet
from reconvene.lab.load.isis_simulated import NETWORK, network_delay_ns
from reconvene.lab.load.simulated import MS, SECOND

__all__ = ["run"]

_EVERY_NS = 50 * MS
"""Between casts that are alone."""
_WINDOW = 16 << 10
"""Bytes of its own casts that a site may have under way; in the measurement of the pool only."""


def run(settings: Settings) -> Sheet:
    results = Results("isis", settings, 8)
    seed, quick = settings.seed, settings.quick
    count = 50 if quick else 200
    results.begin("casts alone")
    agreed = _alone(results, count, seed)
    results.begin("datagrams by the number of sites")
    _datagrams(results, count, seed)
    results.begin("two labels, and a site that is paused")
    _labels(results, (4 if quick else 10) * SECOND, seed)
    results.begin("all sending")
    _all_sending(results, 50 if quick else 200, seed)
    results.begin("joins")
    join = join_ns(3, 10 if quick else 40, seed)
    bar = Bar(5)
    results.add("join, 3 sites", "isis", join / MS, "ms", ("agreed alone", agreed.mean_ns / MS), bar)
    results.begin("crashes")
    _crashes(results, 1_000, seed)
    results.begin("the pool")
    pool = largest_pool(3, _WINDOW, (300 if quick else 2_000) * MS, seed)
    against = ("windows of 3 sites", 3 * _WINDOW)
    results.add("largest pool, windows always full", "isis", pool, "B", against, Bar(1.5))
    results.begin("section 5.4")
    _section_5_4(results, seed)
    results.sheet.notes.append(
        f"a network delay of {NETWORK.latency_ns / MS:g} ms plus up to {NETWORK.jitter_ns / MS:g} ms; {SIZE} B; "
        f"casts that are alone: {_EVERY_NS // MS} ms apart, measured at other sites than the sender's; "
        "datagrams: each copy, without beacons"
    )
    results.sheet.notes.append(
        f"section 5.4: casting, receiving and replying take {isis_object.COST_NS // MS} ms of a site's processor "
        "for each message, packets and the disk none"
    )
    return results.finish("ISIS in virtual time")


def _alone(results: Results, count: int, seed: int) -> Alone:
    delay = ("one network delay", network_delay_ns() / MS)
    causal = plain_alone(Service.CAUSAL, 3, count, _EVERY_NS, seed)
    agreed = plain_alone(Service.AGREED, 3, count, _EVERY_NS, seed)
    for kind, times, name, other in (("cbcast", 1.05, "causal", causal), ("abcast", 3.2, "agreed", agreed)):
        cast = alone(kind, 3, None, count, _EVERY_NS, seed)
        results.add(f"{kind} alone, 3 sites", "isis", cast.mean_ns / MS, "ms", delay, Bar(times))
        results.add(f"{name} alone, 3 sites", "evs", other.mean_ns / MS, "ms", delay)
    return agreed


def _datagrams(results: Results, count: int, seed: int) -> None:
    few, many = (alone("cbcast", sites, (1, 2), count, _EVERY_NS, seed).datagrams for sites in (3, 16))
    results.add("cbcast to 2 destinations, 16 sites", "isis", many, "datagrams", ("3 sites", few), Bar(1.1))
    few, many = (plain_alone(Service.CAUSAL, sites, count, _EVERY_NS, seed).datagrams for sites in (3, 16))
    results.add("causal, 16 sites", "evs", many, "datagrams", ("3 sites", few))


def _labels(results: Results, span_ns: int, seed: int) -> None:
    for kind in ("cbcast", "abcast"):
        still, paused = (beside_a_pause(kind, span_ns, seed, pauses=pauses) / MS for pauses in (False, True))
        work = f"{kind} of label y, p99, a destination of x paused"
        results.add(work, "isis", paused, "ms", ("none paused", still), Bar(1.1))


def _all_sending(results: Results, count: int, seed: int) -> None:
    light, heavy = all_sending(3, 10, count, seed), all_sending(3, 4_000, 5 * count, seed)
    one = ("destination sites", 1.0)
    for name, load in (("10/s", light), ("4,000/s", heavy)):
        work = f"copies of a payload, 3 sites at {name}, to all"
        results.add(work, "isis", load.copies, "copies", one, Bar(1.3))
    scattered = all_sending(6, 100, count, seed, among=2)
    results.add(
        "copies of a payload, 6 sites at 100/s, to 2 of them at random", "isis", scattered.copies, "copies", one
    )
    against = ("3 sites at 10/s", light.casts_a_packet)
    bar = Bar(3, at_least=True)
    results.add("casts a packet, 3 sites at 4,000/s", "isis", heavy.casts_a_packet, "casts", against, bar)


def _crashes(results: Results, groups: int, seed: int) -> None:
    none, many = crash_ns(3, 0, seed) / MS, crash_ns(3, groups, seed) / MS
    results.add(f"crash, 3 sites, {groups:,} groups", "isis", many, "ms", ("no groups", none), Bar(1.2))


def _section_5_4(results: Results, seed: int) -> None:
    def response(copies: int, updates: int, *, synchronous: bool) -> float:
        return isis_object.measure(copies, updates, synchronous=synchronous, seed=seed).response_ns / MS

    further = {}
    for synchronous, mode in ((False, "asynchronous"), (True, "synchronous")):
        one, more = (response(3, updates, synchronous=synchronous) for updates in (1, 11))
        results.add(f"5.4: lock, update and reply, {mode}, 3 copies", "isis", one, "ms")
        further[mode] = (more - one) / 10
    results.add("5.4: a further update, asynchronous, 3 copies", "isis", further["asynchronous"], "ms")
    against = ("asynchronous", further["asynchronous"])
    bar = Bar(5, at_least=True)
    results.add("5.4: a further update, synchronous, 3 copies", "isis", further["synchronous"], "ms", against, bar)
    for synchronous, mode in ((False, "asynchronous"), (True, "synchronous")):
        two, six = (response(copies, 5, synchronous=synchronous) for copies in (2, 6))
        work = f"5.4: response to 5 updates, {mode}, 6 copies"
        results.add(work, "isis", six, "ms", ("2 copies", two), None if synchronous else Bar(1.2))
