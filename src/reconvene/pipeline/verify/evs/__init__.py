"""The tables of which checks of extended virtual synchrony, of timestamps and of liveness are proven.

One way through the rows: along each node's file (`files`), by message (`messages`), by pattern (`patterns`), and
then, on few rows of each run, with its configurations (`gathered`), where each check proves what it can. Nothing is
asked of a run as a whole before that. Why the proofs hold is in `reconvene.verify.evs.patterns`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reconvene.pipeline.verify.evs.concerned import name_all
from reconvene.pipeline.verify.evs.files import follow_files
from reconvene.pipeline.verify.evs.gathered import gather, prove
from reconvene.pipeline.verify.evs.messages import compare_messages
from reconvene.pipeline.verify.evs.patterns import describe_messages, group_messages
from reconvene.pipeline.verify.found import Tables
from reconvene.verify.evs.patterns import EvsCheck

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["certify", "concerned"]


def certify(tables: Tables, checks: Sequence[EvsCheck]) -> "DataFrame":
    """FOUND of these checks, of every run that has an event; the skeleton's part left out."""
    nodes = _most_nodes(tables.runs)
    messages = compare_messages(follow_files(tables.coded, nodes), nodes)
    return prove(gather(group_messages(messages, nodes), tables), checks)


def concerned(tables: Tables, checks: Sequence[EvsCheck]) -> "DataFrame":
    """CONCERNED: the messages and events that these checks do not prove right."""
    nodes = _most_nodes(tables.runs)
    messages = compare_messages(follow_files(tables.coded, nodes), nodes).localCheckpoint()
    gathered = gather(group_messages(messages, nodes), tables)
    return name_all(tables.coded, gathered, describe_messages(messages, nodes), nodes, checks)


def _most_nodes(runs: "DataFrame") -> int:
    """Of the largest run: so many counts are kept at each event."""
    (row,) = runs.agg(F.max(F.size("nodes")).alias("nodes")).collect()
    return row.nodes or 1
