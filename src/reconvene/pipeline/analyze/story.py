"""One run over time, from tables: which configuration each site was in, its faults, its rate, its colours."""

from itertools import pairwise
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reconvene.pipeline.analyze.colours import turns
from reconvene.pipeline.analyze.shapes import of_kind
from reconvene.report.measures import MOST_BANDS, Band, Change, ColourPoint, Fault, RatePoint, Story

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, Row

__all__ = ["tell_story"]


def tell_story(
    events: "DataFrame", buckets: "DataFrame", run: "Row", nodes: "Sequence[str]", changes: "Sequence[Change]"
) -> Story:
    """`events`: of all runs; `buckets`: `IN_BUCKETS`; `run`: a row of `OF_RUNS`."""
    mine = events.where(F.col("run") == run["run"])
    points = buckets.where(F.col("run") == run["run"]).orderBy("bucket", "service").collect()
    start, width = run["first"], points[0]["width"] if points else max(run["length"], 1)
    offset = (run["first_delivery"] or start) - start
    way = (
        of_kind(mine, "evs", "conf", "fail", "stop")
        .where(F.coalesce(F.col("conf_kind") != "hidden", F.lit(True)))
        .select("node", "inc", "place", "t", "kind", "conf", "conf_kind", "members")
        .orderBy("t", "node", "place")
        .limit(MOST_BANDS)
        .collect()
    )
    return Story(
        run=run["run"],
        nodes=sorted(nodes),
        length=run["length"],
        bucket=width,
        rates=[
            RatePoint(at=offset + row["bucket"] * width, service=row["service"], deliveries=row["deliveries"])
            for row in points
        ],
        bands=_bands(way, start, run["last"]),
        faults=_faults(way, start),
        changes=list(changes),
        colours=_colours(mine, run, width) if run["accepts"] or run["greens"] else [],
    )


def _bands(way: "Sequence[Row]", start: int, last: int) -> list[Band]:
    by_site: dict[str, list[Row]] = {}
    for row in sorted(way, key=lambda row: (row["node"], row["place"])):
        by_site.setdefault(row["node"], []).append(row)
    bands = []
    for site, rows in by_site.items():
        for row, ended in [*((row, after["t"]) for row, after in pairwise(rows)), (rows[-1], last)]:
            up = row["kind"] == "conf"
            bands.append(
                Band(
                    site=site,
                    conf=row["conf"] if up else "",
                    kind=row["conf_kind"] if up else "down",
                    members=list(row["members"] or []) if up else [],
                    began=row["t"] - start,
                    ended=ended - start,
                )
            )
    return bands


def _faults(way: "Sequence[Row]", start: int) -> list[Fault]:
    faults = [
        Fault(site=row["node"], kind=row["kind"], at=row["t"] - start, inc=row["inc"])
        for row in way
        if row["kind"] != "conf"
    ]
    lives: set[tuple[str, int]] = set()
    for row in sorted(way, key=lambda row: (row["node"], row["place"])):
        life = (row["node"], row["inc"])
        if row["kind"] == "conf" and life not in lives and any(node == row["node"] for node, _ in lives):
            faults.append(Fault(site=row["node"], kind="restart", at=row["t"] - start, inc=row["inc"]))
        lives.add(life)
    return sorted(faults, key=lambda fault: (fault.at, fault.site))


def _colours(events: "DataFrame", run: "Row", width: int) -> list[ColourPoint]:
    points = []
    red = yellow = green = 0
    turned = turns(events, run["first"], width, snapshots=run["snapshots"] > 0)
    for row in turned.orderBy("bucket").collect():
        red, yellow, green = red + row["red"], yellow + row["yellow"], green + row["green"]
        points.append(ColourPoint(at=(row["bucket"] + 1) * width, red=red, yellow=yellow, green=green))
    return points
