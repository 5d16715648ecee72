"""Time to a new configuration after kill -9 or a cut, and to merge after a heal: real processes in namespaces.

Our sites at their defaults and with Corosync's detection time, Corosync at its defaults and with a short one, in
turns.
"""

from collections.abc import Callable
from statistics import median

from reconvene.errors import Unavailable
from reconvene.lab import namespaces
from reconvene.lab.bench import sites
from reconvene.lab.bench.figures import Reconfiguration
from reconvene.lab.bench.peers import cpg
from reconvene.lab.bench.peers.corosync import Options
from reconvene.lab.bench.rounds import in_turns, spread
from reconvene.lab.bench.sheet import Settings, Sheet, Table, number
from reconvene.lab.bench.sites import Setup

__all__ = ["run"]

DETECTION_MS = 200
"""After so long a site is suspected, or a token counts as lost."""
HEALS = 2
QUICK_HEALS = 1
MTU = 1500

OURS = {
    "reconvene, defaults": Setup(mtu=MTU),
    f"reconvene, suspicion after {DETECTION_MS} ms": Setup(mtu=MTU, suspect_ms=DETECTION_MS),
}
THEIRS = {
    "corosync udpu, defaults": Options(mtu=MTU),
    f"corosync udpu, token {DETECTION_MS} ms": Options(
        mtu=MTU, token_ms=DETECTION_MS, token_coefficient_ms=0, consensus_ms=240, join_ms=30
    ),
}
FAULTS = {
    "crash": "kill -9 to a new configuration",
    "cut": "a cut to a new configuration",
    "heal": "a heal to the merged configuration",
}


def run(settings: Settings) -> Sheet:
    if (reason := namespaces.available()) is not None:
        raise Unavailable(f"bench reconfiguration: {reason}")
    sheet = Sheet("reconfiguration")
    heals = QUICK_HEALS if settings.quick else HEALS
    measures: dict[str, Callable[[], dict[str, Reconfiguration]]] = {}
    for (our_name, setup), (their_name, options) in zip(OURS.items(), THEIRS.items(), strict=True):
        measures[our_name] = _ours(our_name, setup, heals)
        if "corosync" in settings.peers:
            measures[their_name] = _theirs(their_name, options, heals)
    found = in_turns(sheet, settings, measures)
    against = dict(zip(OURS, THEIRS, strict=True))
    lines = []
    for system, figures in found.items():
        line = [system]
        for fault, what in FAULTS.items():
            values = _values(figures, fault)
            theirs = found.get(against.get(system, ""))
            ratio = None if theirs is None else median(values) / median(_values(theirs, fault))
            sheet.add(what, system, median(values), "ms", None if ratio is None else against[system], ratio)
            line += [number(median(values)), spread(values, number), "" if ratio is None else f"{ratio:.2f}"]
        lines.append([*line, f"{median(figure.foreign_cores for figure in figures):.2f}"])
    columns = [
        "system",
        *(name for fault in FAULTS for name in (f"{fault}, ms", "lowest–highest", "/ theirs")),
        "others' cores",
    ]
    sheet.tables.append(
        Table.of("until all affected processes had the new view; three sites under light traffic", columns, lines)
    )
    sheet.notes += [
        f'suspicion after {DETECTION_MS} ms: suspect_base = "{DETECTION_MS}ms", suspect_per_site = "0ms", '
        f'beacon_every = "{DETECTION_MS // 3}ms"; token {DETECTION_MS} ms: token_coefficient 0, consensus 240, '
        "join 30",
        "the time counts from the order to cut, to heal or to kill; heals are spread over the phases of the beacons",
    ]
    return sheet


def _ours(name: str, setup: Setup, heals: int) -> Callable[[], dict[str, Reconfiguration]]:
    return lambda: {name: sites.reconfiguration(setup, heals)}


def _theirs(name: str, options: Options, heals: int) -> Callable[[], dict[str, Reconfiguration]]:
    return lambda: {name: cpg.reconfiguration(options, heals)}


def _values(figures: list[Reconfiguration], fault: str) -> list[float]:
    """The times of every round."""
    match fault:
        case "crash":
            return [figure.crash_ms for figure in figures]
        case "cut":
            return [value for figure in figures for value in figure.cuts_ms]
        case _:
            return [value for figure in figures for value in figure.heals_ms]
