"""How long it takes from a crash, and from a heal, to the next regular configuration at all affected sites.

In virtual time over the real core, compared with the configured timeouts. Crash: from the crash of one member until
all others have installed the configuration without it. Heal: two halves, each in a configuration of its own, are
connected; until all have installed the common one. Cost: datagrams beyond those of an idle time of the same length.
"""

from dataclasses import dataclass, field
from statistics import median

from reconvene.core.options import Options, Timing
from reconvene.lab.bench.plotting import new, save
from reconvene.lab.bench.sheet import Settings, Sheet, Table, number
from reconvene.lab.load.simulated import MS, SECOND
from reconvene.sim.cluster import Cluster
from reconvene.sim.conditions import Conditions
from reconvene.sim.core import EvsSite

__all__ = ["FAULTS", "SIZES", "Change", "limit_ns", "measure", "run"]

SIZES = (3, 5, 8, 12, 16, 20)
FAULTS = ("crash", "heal")
NETWORK = Conditions()
_PATIENCE_NS = 30 * SECOND
_STEP_NS = MS
"""The resolution with which the end of a change is found."""


@dataclass(slots=True)
class Change:
    took_ns: list[int] = field(default_factory=list)
    copies: list[float] = field(default_factory=list)


def limit_ns(fault: str, size: int, timing: Timing) -> int:
    """The timeouts that must pass: silence after a crash; a beacon and disagreeing reports after a heal."""
    if fault == "crash":
        return timing.suspect_base_ns + timing.suspect_per_site_ns * size
    return timing.beacon_every_ns + timing.gather_patience_ns


def limit_words(fault: str) -> str:
    return "suspect_base + suspect_per_site · sites" if fault == "crash" else "beacon_every + gather_patience"


class _Trial:
    def __init__(self, size: int, seed: int) -> None:
        self.names = [f"{ordinal:02}" for ordinal in range(size)]
        self.cluster = Cluster(self.names, seed=seed, options=Options(), conditions=NETWORK)
        self.random = self.cluster.stream("trial")
        self.cluster.start()
        self.wait([self.names])

    def _together(self, names: list[str]) -> bool:
        wanted = tuple(self.names.index(name) for name in names)
        sites = [self.cluster.node(name).site for name in names]
        return (
            all(
                isinstance(core, EvsSite) and core.members == wanted and not core.site.current.frozen
                for core in sites
            )
            and len({site.configuration for site in sites if site is not None}) == 1
        )

    def wait(self, components: list[list[str]]) -> None:
        deadline = self.cluster.now + _PATIENCE_NS
        while not all(map(self._together, components)):
            assert self.cluster.now < deadline, f"no configuration within {_PATIENCE_NS // SECOND} s"
            self.cluster.run_for(_STEP_NS)

    def rest(self) -> float:
        """Datagrams per ns of an idle cluster; ends anywhere between two beacons."""
        self.cluster.run_for(2 * SECOND)
        before, start = self.cluster.network.traffic.sent, self.cluster.now
        self.cluster.run_for(SECOND + int(self.random.random() * 200 * MS))
        return (self.cluster.network.traffic.sent - before) / (self.cluster.now - start)

    def fault(self, kind: str, change: Change) -> None:
        if kind == "crash":
            at_rest = (
                self.rest() * (len(self.names) - 1) / len(self.names)
            )  # the crashed site's silence does not count as a saving
            gone = self.random.choice(self.names)
            after = [[name for name in self.names if name != gone]]
            before, start = self.cluster.network.traffic.sent, self.cluster.now
            self.cluster.crash(gone)
        else:
            half = (len(self.names) + 1) // 2
            parts = [self.names[:half], self.names[half:]]
            self.cluster.partition(parts)
            self.wait(parts)
            at_rest = self.rest()
            after = [self.names]
            before, start = self.cluster.network.traffic.sent, self.cluster.now
            self.cluster.heal()
        self.wait(after)
        took = self.cluster.now - start
        change.took_ns.append(took)
        change.copies.append(self.cluster.network.traffic.sent - before - at_rest * took)


def measure(fault: str, size: int, seeds: range) -> Change:
    change = Change()
    for seed in seeds:
        _Trial(size, seed).fault(fault, change)
    return change


def run(settings: Settings) -> Sheet:
    sheet = Sheet("membership")
    sizes = (3, 5, 8, 12) if settings.quick else SIZES
    seeds = range(settings.seed, settings.seed + (3 if settings.quick else 10))
    timing = Options().timing
    results: dict[tuple[str, int], Change] = {}
    for fault in FAULTS:
        lines = []
        for size in sizes:
            settings.progress(f"{fault}, {size} sites", len(results), len(FAULTS) * len(sizes))
            change = results[fault, size] = measure(fault, size, seeds)
            limit = limit_ns(fault, size, timing)
            middle, most = median(change.took_ns), max(change.took_ns)
            work = f"{fault}, {size} sites"
            against = f"{limit_words(fault)} = {limit / MS:g} ms"
            sheet.add(f"{work}: median", "reconvene", middle / MS, "ms", against, middle / limit)
            sheet.add(f"{work}: max", "reconvene", most / MS, "ms", against, most / limit)
            sheet.add(f"{work}: datagrams", "reconvene", median(change.copies), "copies")
            figures = (middle / MS, most / MS, limit / MS)
            ratios = (f"{middle / limit:.2f}", f"{most / limit:.2f}")
            cost = median(change.copies)
            lines.append([str(size), *map(number, figures), *ratios, number(cost), number(cost / size**2)])
        columns = (
            "sites",
            "median ms",
            "max ms",
            "time-outs ms",
            "median/t.o.",
            "max/t.o.",
            "copies",
            "copies/sites²",
        )
        title = f"{fault} to the next regular configuration; time-outs: {limit_words(fault)}"
        sheet.tables.append(Table.of(title, columns, lines))
    if settings.plots is not None:
        figure, axes = new(1, 2, (9, 3.8))
        for fault, colour in zip(FAULTS, ("#d55e00", "#0072b2"), strict=True):
            middles = [median(results[fault, size].took_ns) / MS for size in sizes]
            highest = [max(results[fault, size].took_ns) / MS for size in sizes]
            lowest = [min(results[fault, size].took_ns) / MS for size in sizes]
            axes[0].plot(sizes, middles, "o-", color=colour, label=f"{fault}: median", markersize=4)
            axes[0].fill_between(sizes, lowest, highest, color=colour, alpha=0.15, linewidth=0)
            limits = [limit_ns(fault, size, timing) / MS for size in sizes]
            axes[0].plot(sizes, limits, "--", color=colour, linewidth=1, label=f"{fault}: time-outs")
            copies = [median(results[fault, size].copies) for size in sizes]
            axes[1].plot(sizes, copies, "o-", color=colour, label=fault, markersize=4)
        axes[0].set(xlabel="sites", ylabel="ms", ylim=(0, None), xticks=sizes)
        axes[0].set_title("To the next configuration (band: all seeds)")
        axes[1].set(xlabel="sites", ylabel="copies of datagrams", ylim=(0, None), xticks=sizes)
        axes[1].set_title("What it costs beyond rest")
        for place in axes:
            place.legend(loc="best", fontsize=9)
        sheet.plots += save(figure, settings.plots, "membership")
    sheet.notes.append(
        f"virtual time, idle cluster, {len(seeds)} seeds from {seeds.start}; a network delay of "
        f"{NETWORK.latency_ns / MS:g} ms plus up to {NETWORK.jitter_ns / MS:g} ms; a sync takes 0.2 to 2 ms; "
        "a copy is one datagram to one site"
    )
    return sheet
