"""Certificates of extended virtual synchrony, of timestamps, and that all is delivered in the end.

One way through the rows: along each node's file (`files`), by message (`messages`), by pattern (`patterns`), and
then, on few rows of each run, with its configurations (`conclude`). Nothing is asked of a run as a whole before
that.

Why it proves what it says, given that what is basic is right: each event lies in its node's configuration (2.2),
each delivered message was sent once, in the regular configuration of where it is delivered, its *root* (1.3, 1.4).

**Causes (5).** At a sending, count by sender the messages that its node has delivered in the root. If every
delivery's index among its node's deliveries of that sender is the message's index among the sender's sendings, then
what a node has delivered of a sender is its first so many messages. If, too, at every delivery its node's counts
reach those at the sending, then everything that the sender had delivered was delivered before it; and what had led
to that, in the same way, was delivered before that. The counts at a sending are all that precedes it,
if what precedes what has no cycle (below): where that is not proven, this is not either.

**Logical time (6.1, 6.2).** An event's time is, from left to right: its root's place in an order in which everyone
went through the roots; the highest timestamp that its node has delivered in the root, at or before it; whether it
lies in the transitional configuration; how many messages its node has sent and delivered in the root. An ordered
message's delivery has no more than the first two, and stands before all else that has the same. A transitional
configuration has the highest timestamp of all who enter it, and so has what follows until one above it is
delivered. Along a file this never goes back: timestamps grow (`to.order`), also from a regular configuration to
what is delivered after it, which is looked at. The enterings of a configuration have one time, and the deliveries
of an ordered message have one time (`to.same`). From a sending to a delivery it does not go back, since whatever
its sender had delivered, the highest timestamp too, was delivered before it (5). So all events of a cycle would
have one time. None of them is of several nodes: what follows such an event in a file is later. So the cycle goes on
from a delivery at one node to a sending of the same, and that has sent one message more: its time is later. There
is no cycle. Fifo messages have no part in this.

**What precedes what (1.1, 2.3, 2.4).** Where no fifo message is delivered by others than its sender, the same proof
holds: these graphs are parts of that one. Else the clocks are asked: if they never go back along a file, and can be
set, each by one amount in each regular configuration, so that every sending is before the deliveries of others in
the same, then configuration and clock are such a time. Clocks are not trusted: where they can't be set so, they
prove nothing, and the run is judged.

**Timestamps above their causes (`to.causal`).** In one root, whoever delivered a message had delivered all that
precedes it (5), in the order of timestamps. Across roots: every timestamp of a root is above all those of the roots
that anyone came from.

**Holes (6.3).** Some node delivered one message before another, so its timestamp is lower (`to.order`). So whoever
lacks it is suspect only if it delivered one of a higher timestamp, in a configuration that holds the sender.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reconvene.pipeline.verify.evs.concerned import name_all
from reconvene.pipeline.verify.evs.files import follow_files
from reconvene.pipeline.verify.evs.messages import compare_messages
from reconvene.pipeline.verify.evs.patterns import group_messages, tell_messages
from reconvene.pipeline.verify.evs.told import conclude, tell

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["certify", "concerned"]


def certify(coded: "DataFrame", confs: "DataFrame", ends: "DataFrame", runs: "DataFrame") -> "DataFrame":
    """FOUND of the checks that these certificates are for, of every run that has an event. Of 2.3, 2.4 and 6.2, the
    cases that are messages, and suspects alone: configurations are counted by the skeleton."""
    nodes = _most_nodes(runs)
    messages = compare_messages(follow_files(coded, nodes), nodes)
    return conclude(tell(group_messages(messages, nodes), coded, confs, ends, runs))


def concerned(coded: "DataFrame", confs: "DataFrame", ends: "DataFrame", runs: "DataFrame") -> "DataFrame":
    """CONCERNED: the messages and events that the certificates do not prove right."""
    nodes = _most_nodes(runs)
    messages = compare_messages(follow_files(coded, nodes), nodes).localCheckpoint()
    told = tell(group_messages(messages, nodes), coded, confs, ends, runs)
    return name_all(coded, told, tell_messages(messages, nodes), nodes)


def _most_nodes(runs: "DataFrame") -> int:
    """Of the largest run: so many counts are kept at each event."""
    (row,) = runs.agg(F.max(F.size("nodes")).alias("nodes")).collect()
    return row.nodes or 1
