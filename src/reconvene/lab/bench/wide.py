"""What clusters joined by gateways save and cost, beside one flat cluster of the same sites on the same network.

In virtual time over the real stacks. Each bar is a ratio of two figures of the same run. Bytes are those of datagrams
between sites of different clusters, each copy counted, with IPv4 and UDP headers.
"""

from dataclasses import dataclass
from statistics import median

from reconvene.ids import Service
from reconvene.lab.bench.results import Bar, Results
from reconvene.lab.bench.sheet import Settings, Sheet
from reconvene.lab.load.simulated import MS, SECOND
from reconvene.lab.load.wide_simulated import BETWEEN, INSIDE, Flat, Shape, Tree, all_sending

__all__ = ["run"]

SIZE = 100
_LARGE = Shape(6, 10)
_MANY = Shape(10, 10)
_TEN = Shape(10, 1, 1)
_SMALL = Shape(3, 3)
_REST_NS = 2 * SECOND
_RATE = 2.0
"""Messages a second of each of the sixty sites."""
_TAIL_NS = 2 * SECOND
_GROWN_NS = 5 * SECOND
"""From then on the times in a beacon, in ns, take as many bytes as in any later one."""


@dataclass(slots=True)
class _Bytes:
    """A second, between clusters."""

    idle: float
    sending: float


def run(settings: Settings) -> Sheet:
    results = Results("wide", settings, 5)
    seed, quick = settings.seed, settings.quick
    span_ns = (1 if quick else 3) * SECOND
    results.begin("bytes between clusters")
    _bytes(results, span_ns, seed)
    results.begin("100 sites from the start to one wide configuration")
    _start(results, 1 if quick else 3, seed)
    results.begin("an ordinary site crashes")
    _crash(results, seed)
    results.begin("latency")
    _latency(results, 10 if quick else 40, seed)
    results.sheet.notes.append(
        f"{INSIDE.latency_ns / MS:g} ms plus up to {INSIDE.jitter_ns / MS:g} ms in a cluster,"
        f" {(BETWEEN.latency_ns or 0) / MS:g} plus up to {(BETWEEN.jitter_ns or 0) / MS:g} ms between clusters;"
        f" {SIZE} B; 2 gateways a cluster; all sending: {_RATE:g} messages a second from each site, agreed;"
        " latency: one message at a time, each site in turn, until each site has it, the sender too"
    )
    return results.finish("clusters joined by gateways")


def _bytes(results: Results, span_ns: int, seed: int) -> None:
    tree, local = _tree_bytes(span_ns, seed)
    lab = Flat(_LARGE, seed=seed)
    lab.meet()
    lab.run_for(SECOND)
    idle = _per_second(lab.measured(span_ns).bytes, span_ns)
    all_sending(lab, lambda node: lab.send(node, Service.AGREED, SIZE), _RATE, span_ns)
    flat = _Bytes(idle, _per_second(lab.measured(span_ns).bytes, span_ns))
    name = "flat, 60 sites"
    results.add("between clusters, all sending", "6 × 10", tree.sending, "B/s", (name, flat.sending), Bar(1 / 4))
    results.add("between clusters, idle", "6 × 10", tree.idle, "B/s", (name, flat.idle), Bar(1 / 20))
    results.add("between clusters, cluster scope only", "6 × 10", local, "B/s", ("idle", tree.idle), Bar(1.02))


def _tree_bytes(span_ns: int, seed: int) -> tuple[_Bytes, float]:
    """Of wide messages, and with traffic of cluster scope only."""
    lab = Tree(_LARGE, seed=seed)
    lab.meet()
    lab.run_for(_GROWN_NS)
    idle = _per_second(lab.measured(span_ns).bytes, span_ns)
    all_sending(lab, lambda node: lab.send(node, Service.AGREED, SIZE, "cluster"), _RATE, span_ns)
    local = _per_second(lab.measured(span_ns).bytes, span_ns)
    lab.run_for(_TAIL_NS)
    all_sending(lab, lambda node: lab.send(node, Service.AGREED, SIZE), _RATE, span_ns)
    return _Bytes(idle, _per_second(lab.measured(span_ns).bytes, span_ns)), local


def _per_second(count: int, span_ns: int) -> float:
    return count * SECOND / span_ns


def _start(results: Results, runs: int, seed: int) -> None:
    seeds = range(seed, seed + runs)
    many = median(Tree(_MANY, seed=each).meet() for each in seeds)
    ten = median(Flat(_TEN, seed=each).meet() for each in seeds)
    against = ("flat, 10 sites, one in each place", ten / MS)
    results.add("start to one wide configuration", "10 × 10", many / MS, "ms", against, Bar(3))


def _crash(results: Results, seed: int) -> None:
    """An ordinary site of the first cluster."""
    shape = Shape(6, 5)
    name = f"{shape.names[0]}/{shape.sites - 1:02}"
    tree, flat = Tree(shape, seed=seed), Flat(shape, seed=seed)
    changed = []
    for lab in (tree, flat):
        lab.meet()
        lab.run_for(_REST_NS)
        before = sum(map(lab.configurations, shape.names[1:]))
        (lab.world if isinstance(lab, Tree) else lab.cluster).crash(name)
        lab.run_for(5 * SECOND)
        changed.append(sum(map(lab.configurations, shape.names[1:])) - before)
    against = ("flat, 30 sites", float(changed[1]))
    results.add("configurations entered elsewhere after a crash", "6 × 5", changed[0], "", against, Bar(0))


def _latency(results: Results, rounds: int, seed: int) -> None:
    wide = _alone(Tree(_SMALL, seed=seed), Service.AGREED, rounds)
    flat = _alone(Flat(_SMALL, seed=seed), Service.SAFE, rounds)
    against = ("flat, 9 sites: safe", flat / MS)
    results.add("wide agreed alone, p50", "3 × 3", wide / MS, "ms", against, Bar(1.3))


def _alone(lab: Tree | Flat, service: Service, rounds: int) -> float:
    lab.meet()
    lab.run_for(_REST_NS)
    for _ in range(rounds):
        for node in lab.shape.nodes:
            lab.send(node, service, SIZE)
            lab.run_for(500 * MS)
    assert len(lab.took_ns) == rounds * len(lab.shape.nodes) ** 2, "every message arrived everywhere"
    return median(lab.took_ns)
