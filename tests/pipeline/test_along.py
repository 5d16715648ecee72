"""What is carried along rows is what a loop over all of them carries, wherever the borders of pieces fall."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from reconvene.errors import Unavailable
from reconvene.pipeline.verify import along
from reconvene.pipeline.verify.along import Along, Greatest, Last, Total

SIZES = (1, 2, 3, 1 << 20)
"""Rows of a piece: borders between all rows, and none."""
SCHEMA = "rid long, node int, split long, place long, n long, x long, ts array<long>, who int, one long, anew boolean"

ALONG = Along(
    keys=("rid", "node"),
    carried={
        "n_before": Last("n", before=True),
        "x_last": Last("x"),
        "ts_before": Last("ts", before=True),
        "x_greatest": Greatest("x"),
        "x_greatest_before": Greatest("x", before=True),
        "all": Total("one"),
        "since": Total("one", since="anew"),
        "heard": Total("one", by="who", size=3, since="anew"),
    },
    final="final",
)
MADE = (
    "n_before", "x_last", "ts_before", "x_greatest", "x_greatest_before", "all", "since", "heard_0", "heard_1",
    "heard_2", "final",
)  # fmt: skip
Rows = list[dict[str, Any]]


@dataclass
class Naive:
    """One key's rows, one by one."""

    n: int | None = None
    x: int | None = None
    ts: list[int] | None = None
    greatest: int | None = None
    all: int = 0
    since: int = 0
    heard: list[int] = field(default_factory=lambda: [0, 0, 0])

    def follow(self, row: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {"n_before": self.n, "ts_before": self.ts, "x_greatest_before": self.greatest}
        self.n = row["n"]
        self.x = self.x if row["x"] is None else row["x"]
        self.ts = self.ts if row["ts"] is None else row["ts"]
        self.greatest = max((x for x in (self.greatest, row["x"]) if x is not None), default=None)
        self.all += row["one"]
        self.since += row["one"]
        if row["who"] in (0, 1, 2):
            self.heard[row["who"]] += row["one"]
        if row["anew"]:
            self.since, self.heard = 0, [0, 0, 0]
        found |= {"x_last": self.x, "x_greatest": self.greatest, "all": self.all, "since": self.since}
        return found | {f"heard_{who}": count for who, count in enumerate(self.heard)}


def naive(rows: Rows) -> dict[tuple[int, ...], dict[str, Any]]:
    found: dict[tuple[int, ...], dict[str, Any]] = {}
    nodes: dict[tuple[int, ...], Naive] = {}
    last = {(row["rid"], row["node"]): row["place"] for row in rows}
    for row in rows:
        key = (row["rid"], row["node"])
        carried = nodes.setdefault(key, Naive()).follow(row)
        found[*key, row["place"]] = carried | {"final": last[key]}
    return found


def made(seed: int, mixed: bool) -> Iterator[Rows]:
    """Splits of files, each by itself: of one node, or of several in turn. Of a node they follow each other."""
    random = Random(seed)
    place = 0
    for split in range(9):
        nodes = [random.randrange(3) for _ in range(12)] if mixed else [split % 3] * 12
        rows: Rows = []
        for node in nodes:
            place += random.randint(1, 9)
            stamp = None if random.random() < 0.5 else [random.randrange(9) for _ in range(random.randrange(4))]
            rows.append({
                "rid": split % 2 if not mixed else 0, "node": node, "split": split, "place": place,
                "n": random.randrange(99), "x": random.choice((None, None, 7, -3, random.randrange(50))), "ts": stamp,
                "who": random.choice((-1, 0, 1, 2, 5, None)), "one": random.choice((0, 1, 1 << 32)),
                "anew": random.random() < 0.1,
            })  # fmt: skip
        yield rows


@pytest.mark.parametrize("mixed", [False, True], ids=["a node a split", "nodes in turn"])
def test_pieces_carry_what_a_loop_carries(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, mixed: bool) -> None:
    splits = list(made(5, mixed))
    expected = naive([row for rows in splits for row in rows])
    Random(1).shuffle(splits)  # in whatever order tasks have them
    table = spark.createDataFrame([row for rows in splits for row in rows], SCHEMA).coalesce(1)
    for size in SIZES:
        monkeypatch.setattr(along, "PIECE_ROWS", size)
        found = ALONG.follow(table, ("rid", "node", "place", "n")).collect()
        assert {(row.rid, row.node, row.place): {name: row[name] for name in MADE} for row in found} == expected
        assert len(found) == len(expected)


def test_rows_in_several_tasks_are_one_file(spark: SparkSession) -> None:
    splits = list(made(7, mixed=False))
    expected = naive([row for rows in splits for row in rows])
    rows = [row for rows in splits for row in rows]
    parts = spark.createDataFrame(rows, SCHEMA).repartitionById(4, F.pmod(F.col("split"), 4).cast("int"))
    found = ALONG.follow(parts.sortWithinPartitions("split", "place"), ("rid", "node", "place")).collect()
    assert {(row.rid, row.node, row.place): {name: row[name] for name in MADE} for row in found} == expected


def test_rows_that_were_not_there_before_are_told() -> None:
    """A piece of which nothing was summed up: the input has changed in between."""
    schema = pa.schema([("rid", pa.int64()), ("place", pa.int64()), ("carried_in", pa.struct([("x", pa.int64())]))])
    batch = pa.RecordBatch.from_pylist([{"rid": 1, "place": 3, "carried_in": None}], schema=schema)
    with pytest.raises(Unavailable, match="verify them again"):
        list(along._following(["rid"], [], ["rid"], pa.schema([("rid", pa.int64())]), None)([batch]))
