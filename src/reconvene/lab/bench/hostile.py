"""Throughput under a flood of datagrams that a site must reject, compared with the cost of only reading them.

Three sites on loopback, all sending. In turns, the flood goes to the port of one of them, to another socket of the
same process, which only reads it, and to another process, which only reads it. The cost of sending the flood is in
all three. Also measured: the cost of one datagram of the flood for an idle site.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import monotonic, monotonic_ns, sleep

from reconvene.lab.bench import sites
from reconvene.lab.bench.foreign import spent_s
from reconvene.lab.bench.rounds import in_turns
from reconvene.lab.bench.sheet import Settings, Sheet, Table, number, size_of, verdict
from reconvene.lab.bench.sites import Running, Setup, Throughput
from reconvene.lab.load import flood
from reconvene.lab.load.process import LoadProcess, end, start
from reconvene.local.ports import choose

__all__ = ["run"]

SIZE = 100
RATES = (20_000, 50_000)
QUICK_RATES = (20_000,)
SECONDS = 2.0
QUICK_SECONDS = 1.0
READY_TIMEOUT_S = 30.0
TELL_TIMEOUT_S = 30.0
SETTLE_NS = 500_000_000
"""By then the flood has begun."""

BAR = 0.9
"""Of the throughput with a bare reader in the site's process: what rejecting may cost beyond reading."""

ALONE = "no flood"
BESIDE = "read and dropped by a process beside"
READ = "read and dropped in a site's process"
AT_SITE = "flood at a site's port"

_MODULE = "reconvene.lab.load.flood"


@dataclass(frozen=True, slots=True)
class Figure:
    throughput: Throughput
    sent: dict[str, int]
    """Datagrams of the flood, by kind."""
    read: int
    """Read by the other process."""
    cost_us: float | None = None
    """The cost of a datagram of the flood for the first site's process, while it is idle."""

    @property
    def counted(self) -> int:
        """What the flooded site counted as dropped."""
        counted = self.throughput.counted[0]
        return sum(count for name, count in counted.items() if name.startswith("dropped_"))


Key = tuple[str, int]
"""The target of the flood, and datagrams a second."""


def run(settings: Settings) -> Sheet:
    sheet = Sheet("hostile")
    rates = QUICK_RATES if settings.quick else RATES
    measures = {f"{rate} datagrams a second": _measure(rate, settings) for rate in rates}
    found = in_turns(sheet, settings, measures)
    lines = []
    for rate in rates:
        if (ALONE, rate) not in found:
            continue
        rates_of = {what: _rate(found[what, rate]) for what in (ALONE, BESIDE, READ, AT_SITE)}
        work = f"agreed {size_of(SIZE)} under {rate:,} hostile datagrams/s"
        for what, value in rates_of.items():
            against = {AT_SITE: READ, READ: ALONE, BESIDE: ALONE}.get(what)
            sheet.add(
                work, what, value, "messages/s", against, value / rates_of[against] if against is not None else None
            )
            figures = found[what, rate]
            cost_us = _cost_us(figures)
            if cost_us is not None:
                read_us = _cost_us(found[READ, rate]) if what == AT_SITE else None
                ratio = None if not read_us else cost_us / read_us
                sheet.add(
                    f"a hostile datagram, {rate:,}/s",
                    what,
                    cost_us,
                    "µs of processor time",
                    READ if ratio else None,
                    ratio,
                )
            lines.append(
                [
                    f"{rate:,}",
                    what,
                    number(value),
                    f"{(1 - value / rates_of[ALONE]) * 100:.0f} %",
                    number(median(sum(figure.sent.values()) for figure in figures)),
                    number(median(figure.read or figure.counted for figure in figures)),
                    " ".join(f"{used:.2f}" for used in figures[0].throughput.cpu),
                    "" if cost_us is None else number(cost_us),
                    f"{median(figure.throughput.foreign_cores for figure in figures):.2f}",
                ]
            )
        ratio = rates_of[AT_SITE] / rates_of[READ]
        sheet.notes.append(
            f"{rate:,} a second: at least {BAR:g} of what reading leaves: {verdict(ratio >= BAR)} "
            f"({ratio:.2f} of the throughput if the same process only reads and drops it)"
        )
    columns = (
        *("flood/s", "", "messages/s", "fall", "flood sent", "read or counted", "cores by site"),
        *("µs each, site idle", "others' cores"),
    )
    sheet.tables.append(Table.of(f"three sites, {size_of(SIZE)}, sealed, loopback", columns, lines))
    _add_drops(sheet, found)
    return sheet


def _rate(figures: list[Figure]) -> float:
    return median(figure.throughput.per_second for figure in figures)


def _cost_us(figures: list[Figure]) -> float | None:
    costs = [figure.cost_us for figure in figures if figure.cost_us is not None]
    return median(costs) if costs else None


def _add_drops(sheet: Sheet, found: dict[Key, list[Figure]]) -> None:
    """Datagrams that the site dropped, by reason."""
    lines = []
    sent: dict[str, int] = {}
    for (what, rate), figures in found.items():
        if what != AT_SITE:
            continue
        sent = sent or figures[-1].sent
        counted = figures[-1].throughput.counted[0]
        for name, count in sorted(counted.items()):
            if name.startswith("dropped_") and count:
                reason = name.removeprefix("dropped_")
                sheet.add(f"hostile datagrams counted, {rate:,}/s", reason, count, "datagrams")
                lines.append([f"{rate:,}", reason, f"{count:,}"])
    sheet.tables.append(Table.of("what the site counted, in the last round", ("flood/s", "reason", ""), lines))
    if absent := sorted(set(flood.KINDS) - set(sent)):
        sheet.notes.append(f"not in the flood, since recording needs root: {', '.join(absent)}")


def _measure(rate: int, settings: Settings) -> Callable[[], dict[Key, Figure]]:
    def measure() -> dict[Key, Figure]:
        seconds = QUICK_SECONDS if settings.quick else SECONDS
        with (
            sites.running(Setup(), "throughput") as running,
            _programs(running, rate) as (sender, reader, address),
        ):
            found = {
                ALONE: Figure(running.throughput(SIZE, seconds), {}, 0),
                BESIDE: _under(running, seconds, sender, address, reader),
                READ: _under(running, seconds, sender, running.sink),
                AT_SITE: _under(running, seconds, sender, running.addresses[0]),
            }
        return {(what, rate): figure for what, figure in found.items()}

    return measure


def _under(
    running: Running, seconds: float, sender: LoadProcess, target: tuple[str, int], reader: LoadProcess | None = None
) -> Figure:
    beside = [(sender, f"{target[0]} {target[1]}"), *([] if reader is None else [(reader, "")])]
    got = running.throughput(SIZE, seconds, beside=beside)
    deadline = monotonic() + TELL_TIMEOUT_S
    sent = sender.hear("sent", deadline)["sent"]
    if reader is not None:
        return Figure(got, sent, reader.hear("read", deadline)["read"])
    return Figure(got, sent, 0, _idle_cost_us(running, seconds, sender, target))


def _idle_cost_us(running: Running, seconds: float, sender: LoadProcess, target: tuple[str, int]) -> float:
    from_ns = monotonic_ns() + SETTLE_NS
    sender.say(f"{from_ns} {from_ns + int(seconds * 1e9)} {target[0]} {target[1]}")
    sleep(SETTLE_NS / 1e9)
    before = spent_s(running.pids[0])
    sleep(seconds)
    spent = spent_s(running.pids[0]) - before
    sent: dict[str, int] = sender.hear("sent", monotonic() + TELL_TIMEOUT_S)["sent"]
    return spent * 1e6 / max(1, sum(sent.values()))


@contextmanager
def _programs(running: Running, rate: int) -> Iterator[tuple[LoadProcess, LoadProcess, tuple[str, int]]]:
    """The sender, the reader, and the reader's address."""
    host, port = running.addresses[0]
    address = host, choose(1)[0]
    send = ["send", sites.CLUSTER, str(running.key), str(running.setup.sites), str(rate), str(port)]
    loads: list[LoadProcess] = []
    with tempfile.TemporaryDirectory(prefix="rcv-", dir="/var/tmp") as name:
        folder = Path(name)
        try:
            for setup, arguments in enumerate((send, ["read", host, str(address[1])])):
                loads.append(start("flood", _MODULE, arguments, folder / f"flood-{setup}", running.network, 0))
            for load in loads:
                load.hear("ready", monotonic() + READY_TIMEOUT_S)
            yield loads[0], loads[1], address
        finally:
            end(loads)
