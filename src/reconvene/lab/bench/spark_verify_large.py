"""One run of a hundred million events, verified on Spark: memory, and how the time grows from ten million."""

from pathlib import Path
from tempfile import TemporaryDirectory

from reconvene.lab.bench.sheet import Settings, Sheet
from reconvene.lab.bench.spark_verify import EXPONENT_BAR, Point, add_bar, add_points, grown, make_traces, measure

__all__ = ["run"]

SIZES = (10_000_000, 100_000_000)
QUICK_SIZES = (300_000, 1_000_000)


def run(settings: Settings) -> Sheet:
    sheet = Sheet("spark-verify-large")
    # Partitions of a few million rows, as a user with so many would set them.
    small, large = (Point(events, partitions=32) for events in (QUICK_SIZES if settings.quick else SIZES))
    with TemporaryDirectory(prefix="reconvene-bench-") as place:
        settings.progress("making traces", 0, 2)
        make_traces(Path(place), [small, large])
        found = measure(Path(place), [small, large], settings)
    add_points(sheet, found, {})
    power = grown(found, small, large)
    add_bar(sheet, f"{small.events:,} to {large.events:,} events: growth", power, EXPONENT_BAR, "power")
    return sheet
