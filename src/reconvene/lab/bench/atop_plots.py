"""Figures 7 and 8 of the ATOP paper, and the latency by slow rate that its section 6 describes."""

from fractions import Fraction
from pathlib import Path
from typing import Any

from reconvene.lab.bench.plotting import COLOURS, new, save
from reconvene.lab.load.simulated import MS, SECOND, Arrivals

__all__ = ["draw", "rate_over_time", "ticks"]

SENDER = 0
"""A member that sends 10 messages a second; the deliveries are those at another member."""
BIN_NS = 500 * MS
TICK_NS = 100 * MS
TICKS = 100
SHOWN = (("atop", "(a) ATOP after adaptation"), ("all-ack lazy", "(b) all-ack, lazy"))


def rate_over_time(arrivals: Arrivals, bins: int) -> list[float]:
    """Deliveries a second of that sender's messages, in each half second."""
    counts = [0] * bins
    for sender, _, arrived in arrivals.watched:
        place = (arrived - arrivals.start_ns) // BIN_NS
        if sender == SENDER and 0 <= place < bins:
            counts[place] += 1
    return [count * SECOND / BIN_NS for count in counts]


def ticks(arrivals: Arrivals) -> tuple[list[int], list[int]]:
    """For each tick: how many messages that sender had sent by its end, and how many of them had arrived."""
    sent, delivered = [0] * TICKS, [0] * TICKS
    for sender, left, arrived in arrivals.watched:
        if sender == SENDER and left >= arrivals.start_ns:
            for counts, at in ((sent, left), (delivered, arrived)):
                for tick in range((at - arrivals.start_ns) // TICK_NS, TICKS):
                    counts[tick] += 1
    return sent, delivered


def draw(
    directory: Path, results: dict[tuple[str, Fraction], Arrivals], systems: list[str], slow_rates: list[Fraction]
) -> list[Path]:
    slowest = slow_rates[-1]
    shown = [(results[name, slowest], name, title) for name, title in SHOWN]
    return [
        *_latency(directory, results, systems, slow_rates),
        *_figure_7(directory, shown, slowest),
        *_figure_8(directory, shown, slowest),
    ]


def _latency(
    directory: Path, results: dict[tuple[str, Fraction], Arrivals], systems: list[str], slow_rates: list[Fraction]
) -> list[Path]:
    figure, axes = new(1, 1, (7, 4.2))
    for name in systems:
        means = [results[name, slow].mean_ms for slow in slow_rates]
        axes.plot([float(slow) for slow in slow_rates], means, "o-", color=COLOURS[name], label=name, markersize=4)
    axes.set(xscale="log", yscale="log", xlabel="messages a second of each slow member", ylabel="mean latency, ms")
    axes.invert_xaxis()
    axes.set_xticks([float(slow) for slow in slow_rates], [str(slow) for slow in slow_rates])
    axes.minorticks_off()
    axes.set_yticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
    axes.set_title("Latency as three of six members send less and less")
    axes.legend(loc="upper left")
    return save(figure, directory, "atop-latency")


def _figure_7(directory: Path, shown: list[tuple[Arrivals, str, str]], slowest: Fraction) -> list[Path]:
    bins = min(60, shown[0][0].span_ns // BIN_NS)
    figure, axes = new(2, 1, (7.5, 5), sharex=True, sharey=True)
    for place, (arrivals, name, title) in zip(axes, shown, strict=True):
        seconds = [(index + 0.5) * BIN_NS / SECOND for index in range(bins)]
        place.axhline(10, color="#9aa5b1", linewidth=1, linestyle="--", label="sent: 10 a second", zorder=3)
        place.bar(
            seconds,
            rate_over_time(arrivals, bins),
            width=BIN_NS / SECOND * 0.9,
            color=COLOURS[name],
            label="delivered",
        )
        place.set_title(title)
        place.set_ylabel("messages a second")
        place.legend(loc="lower right", bbox_to_anchor=(1, 0.98), ncols=2)
    axes[-1].set_xlabel("seconds")
    axes[-1].set_xlim(0, bins * BIN_NS / SECOND)
    figure.suptitle(f"Delivery rate of one member's messages; slow members at {slowest} msg/s", x=0.01, ha="left")
    return save(figure, directory, "atop-figure-7")


def _figure_8(directory: Path, shown: list[tuple[Arrivals, str, str]], slowest: Fraction) -> list[Path]:
    figure, axes = new(1, 2, (9.5, 4.2), sharex=True, sharey=True)
    for place, (arrivals, name, title) in zip(axes, shown, strict=True):
        sent, delivered = ticks(arrivals)
        _steps(place, sent, "#9aa5b1", "sent", "--")
        _steps(place, delivered, COLOURS[name], "delivered", "-")
        place.set_title(title)
        place.set_xlabel("ticks of 100 ms")
        place.legend(loc="upper left")
    axes[0].set_ylabel("messages so far")
    axes[0].set_xlim(0, TICKS - 1)
    axes[0].set_ylim(0)
    figure.suptitle(
        f"Delivered against sent, a member at 10 msg/s; slow members at {slowest} msg/s", x=0.01, ha="left"
    )
    return save(figure, directory, "atop-figure-8")


def _steps(axes: Any, counts: list[int], colour: str, label: str, line: str) -> None:
    axes.step(
        range(len(counts) + 1), [0, *counts], where="post", color=colour, label=label, linestyle=line, linewidth=1.4
    )
