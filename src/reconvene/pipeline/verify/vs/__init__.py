"""The tables of which checks of virtual synchrony are proven, for the events of the filter.

One way through the rows: along each process's life (`lives`), by message and by pattern (`messages`), and then, on
few rows of each run, with its views (`gathered`), where each check proves what it can. Why the proofs hold is in
`reconvene.verify.vs.patterns`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reconvene.pipeline.verify.found import Tables
from reconvene.pipeline.verify.vs.concerned import name_all
from reconvene.pipeline.verify.vs.gathered import gather, name_patterns, prove
from reconvene.pipeline.verify.vs.lives import follow_lives, shape_of
from reconvene.pipeline.verify.vs.messages import compare_messages, describe_messages, group_messages
from reconvene.verify.vs.patterns import ViewCheck

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["certify", "concerned"]


def certify(tables: Tables, checks: Sequence[ViewCheck]) -> "DataFrame":
    """FOUND of these checks, of every run that has events of the filter."""
    shape = shape_of(tables.coded)
    messages = describe_messages(compare_messages(follow_lives(tables.coded, shape), shape), shape)
    return prove(gather(group_messages(messages, shape), tables), checks)


def concerned(tables: Tables, checks: Sequence[ViewCheck]) -> "DataFrame":
    """CONCERNED: the messages and events that these checks do not prove right."""
    shape = shape_of(tables.coded)
    compared = compare_messages(follow_lives(tables.coded, shape), shape)
    messages = describe_messages(compared, shape).localCheckpoint()
    suspects = name_patterns(gather(group_messages(messages, shape), tables), checks).localCheckpoint()
    return name_all(tables.coded, messages.where(F.col("msg").isNotNull()), suspects, shape, checks)
