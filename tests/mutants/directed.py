"""Families of scenarios, by seed, for bugs in situations that the profile `chaos` never or hardly ever reaches."""

from reconvene.ids import Service
from reconvene.sim.conditions import Changes, Conditions
from reconvene.sim.scenario import ChaosPlan, Crash, Cut, Load, Scenario, Step

__all__ = ["dead_member", "half_installed", "shifting", "slow_leaver", "slow_listener", "stalled"]

MS = 1_000_000
SECOND = 1_000 * MS

_NAMES = ("a", "b", "c")


def _scenario(
    name: str,
    seed: int,
    loads: tuple[Load, ...],
    *,
    order: str = "atop",
    final_down: tuple[str, ...] = (),
    conditions: Conditions | None = None,
    links: dict[tuple[str, str], Changes] | None = None,
    steps: tuple[Step, ...] = (),
    chaos: ChaosPlan | None = None,
) -> Scenario:
    """Three sites, two seconds of events and four to settle."""
    return Scenario(
        name=name,
        nodes=_NAMES,
        seed=seed,
        stack="evs",
        order=order,
        duration_ns=2 * SECOND,
        settle_ns=4 * SECOND,
        final=(_NAMES,),
        final_down=final_down,
        conditions=conditions or Conditions(),
        links=links or {},
        steps=steps,
        loads=loads,
        chaos=chaos,
    )


def _load(nodes: tuple[str, ...], service: Service, rate: float, from_ns: int, until_ns: int) -> Load:
    return Load(nodes=nodes, service=service, rate=rate, size=64, from_ns=from_ns, until_ns=until_ns)


def dead_member(seed: int) -> Scenario:
    """A member of an idle group crashes and stays down: there is no traffic whose missing acks would show it."""
    loads = (_load(_NAMES, Service.AGREED, 10.0, 0, SECOND // 2),)
    return _scenario("dead-member", seed, loads, final_down=("c",), steps=(Step(SECOND, Crash(("c",)), "the crash"),))


def shifting(seed: int) -> Scenario:
    """First one site is busy, then another, over a network that loses some datagrams: the weights follow them."""
    loads = (
        _load(("a",), Service.AGREED, 200.0, 0, 900 * MS),
        _load(("c",), Service.AGREED, 200.0, 700 * MS, 2 * SECOND),
        _load(("b",), Service.AGREED, 15.0, 0, 2 * SECOND),
    )
    return _scenario("shifting", seed, loads, conditions=Conditions(jitter_ns=3 * MS, loss=0.05, reorder=0.05))


def slow_leaver(seed: int) -> Scenario:
    """One site has a slow link to the first and none to the second. When these two continue without it, its frames
    are still on their way to the first, and only there."""
    services = (Service.FIFO, Service.AGREED, Service.SAFE)
    return _leaving("slow-leaver", seed, ("atop", "all-ack")[seed % 2], _NAMES, services)


def slow_listener(seed: int) -> Scenario:
    """The same where that site sends nothing but alive frames, and the order waits for its clock."""
    return _leaving("slow-listener", seed, "all-ack", ("a", "b"), (Service.AGREED,))


def _leaving(name: str, seed: int, order: str, busy: tuple[str, ...], services: tuple[Service, ...]) -> Scenario:
    links = {pair: Changes(latency_ns=20 * MS) for pair in (("a", "b"), ("b", "c"))}
    links["a", "c"] = Changes(latency_ns=100 * MS)
    # The seed decides where in its first gap a load begins, so each change meets other frames in flight.
    loads = tuple(_load(busy, service, 25.0, 0, 2 * SECOND) for service in services)
    steps = (Step(300 * MS, Cut((("c", "b"),)), "the cut"),)
    return _scenario(name, seed, loads, order=order, links=links, steps=steps)


def half_installed(seed: int) -> Scenario:
    """From some moment of the first forming on, one site is heard but hears nothing. If that is just before the
    others' last message, they install the configuration and it never learns of it."""
    links = {pair: Changes(latency_ns=50 * MS) for pair in (("a", "c"), ("b", "c"))}
    steps = (Step((60 + 5 * seed) * MS, Cut((("a", "c"), ("b", "c"))), "the cut"),)
    loads = (_load(_NAMES, Service.AGREED, 20.0, 0, 2 * SECOND),)
    return _scenario("half-installed", seed, loads, links=links, steps=steps)


def stalled(seed: int) -> Scenario:
    """Disks that stall while configurations change, and crashes before they continue."""
    plan = ChaosPlan(
        from_ns=100 * MS,
        until_ns=2 * SECOND,
        faults=("crash", "crash", "disk", "disk", "disk"),
        mean_gap_ns=80 * MS,
    )
    loads = (_load(_NAMES, Service.SAFE, 20.0, 0, 2 * SECOND),)
    conditions = Conditions(latency_ns=3 * MS, jitter_ns=3 * MS)
    return _scenario("stalled", seed, loads, order=("atop", "all-ack")[seed % 2], conditions=conditions, chaos=plan)
