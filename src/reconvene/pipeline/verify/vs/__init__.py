"""Certificates of virtual synchrony, for the events of the filter."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reconvene.pipeline.verify.found import CONCERNED
from reconvene.pipeline.verify.vs.lives import follow_lives, shape_of
from reconvene.pipeline.verify.vs.messages import compare_messages, group_messages, tell_messages
from reconvene.pipeline.verify.vs.told import conclude, tell

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["certify", "concerned"]


def certify(coded: "DataFrame", confs: "DataFrame", ends: "DataFrame", runs: "DataFrame") -> "DataFrame":
    """FOUND of the checks of virtual synchrony, of every run that has events of the filter."""
    shape = shape_of(coded)
    messages = tell_messages(compare_messages(follow_lives(coded, shape), shape), shape)
    return conclude(tell(group_messages(messages, shape), coded, runs))


def concerned(coded: "DataFrame", confs: "DataFrame", ends: "DataFrame", runs: "DataFrame") -> "DataFrame":
    """CONCERNED: nothing in particular."""
    nothing = {field.name: F.lit(None).cast(field.dataType).alias(field.name) for field in CONCERNED}
    return coded.where(F.lit(False)).select("rid", *(nothing[name] for name in CONCERNED.names if name != "rid"))
