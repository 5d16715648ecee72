"""The tables that all layers have in common."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as T

from reconvene.pipeline.session import SHUFFLE_PARTITIONS
from reconvene.verify.check import Check

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["CONCERNED", "CONFS", "ENDS", "FOUND", "VIOLATIONS", "Tables", "checks_with", "spread"]

FOUND = T.StructType([
    T.StructField("rid", T.LongType(), False),
    T.StructField("check", T.StringType(), False),
    T.StructField("cases", T.LongType(), False),
    T.StructField("suspects", T.LongType(), False),
])  # fmt: skip
"""What is proven of a run: how many cases the check has, and how many of them are not proven right. No
suspects: the check holds. Several rows of one run and check add up."""

CONCERNED = T.StructType([
    T.StructField("rid", T.LongType(), False),
    T.StructField("check", T.StringType(), False),
    T.StructField("msg", T.LongType(), True),
    T.StructField("node", T.IntegerType(), True),
    T.StructField("place", T.LongType(), True),
])  # fmt: skip
"""What the judge has to see of a run that is too large to be judged whole: all events of a message, of which those of
the node, where one is told, can be what is wrong; or one event, by node and place."""

VIOLATIONS = T.StructType([
    T.StructField("run", T.StringType(), False),
    T.StructField("check", T.StringType(), False),
    T.StructField("node", T.StringType(), False),
    T.StructField("n", T.LongType(), False),
    T.StructField("detail", T.StringType(), False),
])  # fmt: skip
"""One row a witness, the same for every check."""

CONFS = T.StructType([
    T.StructField("rid", T.LongType(), False),
    T.StructField("conf", T.LongType(), False),
    T.StructField("root", T.LongType(), False),
    T.StructField("kind", T.StringType(), False),
    T.StructField("members", T.ArrayType(T.IntegerType()), False),
    T.StructField("groups", T.ArrayType(T.ArrayType(T.IntegerType())), False),
    T.StructField("accountable", T.ArrayType(T.IntegerType()), False),
    T.StructField("final", T.BooleanType(), False),
    T.StructField("absent", T.ArrayType(T.IntegerType()), False),
])  # fmt: skip
"""A configuration as its lowest entering describes it.

Where no node entered it, as its first hidden report does; one without such an event has no row.

root: its regular configuration. members: node codes; NOBODY, once each, for names that are no nodes of the run.
groups: of each next configuration that two or more nodes went to directly from this one, those nodes, each as often
as it did. accountable: members that have to have delivered a safe message that was delivered here, in the root or in
what followed it, since they neither failed there nor are excused. final: regular, and a node that is up ends in it,
in a settled run. absent: members that never entered it."""

ENDS = T.StructType([
    T.StructField("rid", T.LongType(), False),
    T.StructField("node", T.IntegerType(), False),
    T.StructField("inc", T.IntegerType(), False),
    T.StructField("place", T.LongType(), False),
    T.StructField("root", T.LongType(), False),
])  # fmt: skip
"""Of each incarnation of a node, its last entering of a configuration: where in the file, and that one's root."""


@dataclass(frozen=True)
class Tables:
    """What the tables of a layer are made from."""

    coded: "DataFrame"
    """Coded events of every layer."""
    confs: "DataFrame"
    ends: "DataFrame"
    runs: "DataFrame"


def spread(rows: "DataFrame", *by: str) -> "DataFrame":
    """Rows with the same of these together, over as many tasks as the session has shuffle partitions. Adaptive
    execution would make fewer, by the bytes, and one run would not use all cores: these rows take long."""
    partitions = str(rows.sparkSession.conf.get(SHUFFLE_PARTITIONS))
    return rows.repartition(int(partitions), *by) if partitions.isdecimal() else rows.repartition(*by)


def checks_with(fact: str, checks: Iterable[Check[Any, Any]]) -> "Column":
    """The ids of the checks that this fact makes a message or row a suspect of: an array."""
    named = [F.lit(check.id) for check in checks if fact in check.facts]
    return F.array(*named) if named else F.array().cast("array<string>")
