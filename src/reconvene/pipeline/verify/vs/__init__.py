"""Certificates of virtual synchrony, for the events of the filter.

One way through the rows: along each process's life (`lives`), by message and by pattern (`messages`), and then, on
few rows of each run, with its views (`conclude`). What depends on views alone is judged there by the local engine's
code.

Why it proves what it says, given that what is basic is right: each event lies in its process's view, each delivered
message was cast once, by its sender, in the same group and as the same service, and all its deliveries are in one
view, its *home*.

**Causes (C1).** At a cast, count by member the messages that its process has delivered in the view. If what a
process delivers of a caster in a view begins with the caster's first message of that view, and goes on as the
caster's casts do, without a gap, then it delivers them in their order; and if at every delivery its process's
counts reach those at the cast, then everything that the caster had delivered in the view was delivered before it;
and what had led to that, in the same way, was delivered before that: if what precedes what has no cycle (L1,
below), without which this is not proven either. A message that is delivered in a later view
than it was cast in has, of that view, only its caster's earlier messages before it: the caster was not there yet.

**Logical time (L2).** An event's time is, from left to right: its process's time (`times`), which is the timestamp
of the ordered message it delivered last, or its view's; then the clock. Deliveries of an ordered message have its
timestamp, and events of a view the view's time, and nothing more. Along a process this never goes back: timestamps
grow, and what is delivered after a view is above the view's time. From a cast to a delivery in the same view it
does not go back either: whatever the caster had delivered there was delivered before by whoever delivers the
message (C1), and both had installed the view. Of a caster that is in several groups that is not enough, since
others have not seen what it delivered elsewhere; of an ordered message that it delivered itself, it is: its own
timestamps grow. In a later view it does not go back since the caster installed that view after the cast, or ended
before the view's time. So all events of a cycle would have one time, and none of them is of several processes: what
follows such an event is later. What is left is casts and deliveries. If clocks never go back, and casts are before
deliveries by them, there is no cycle of these (L1). Else, where every process is in one group, the events of one
time are of one view, and counts of what was delivered there grow from each cast to each of its deliveries. Fifo
messages have no part in this.

**What precedes what (L1).** Where clocks never go back along a process, and every cast is before the deliveries at
other nodes by the clock, and at its own node by place and clock, that is such a time. Clocks are not trusted: one
that is wrong proves nothing. Else, where no fifo message is delivered by others than its caster, L2 proves it.

**Everyone has it (C2, C3).** A pattern is a caster, a view of the cast, a home, a service and a set of members that
delivered. Who goes on from a view, with whom, and who outlives it, is known from views alone.
"""

from typing import TYPE_CHECKING

from reconvene.pipeline.verify.vs.concerned import name_all
from reconvene.pipeline.verify.vs.lives import follow_lives, shape_of
from reconvene.pipeline.verify.vs.messages import compare_messages, group_messages, tell_messages
from reconvene.pipeline.verify.vs.told import conclude, name_patterns, tell

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["certify", "concerned"]


def certify(coded: "DataFrame", confs: "DataFrame", ends: "DataFrame", runs: "DataFrame") -> "DataFrame":
    """FOUND of the checks of virtual synchrony, of every run that has events of the filter."""
    shape = shape_of(coded)
    messages = tell_messages(compare_messages(follow_lives(coded, shape), shape), shape)
    return conclude(tell(group_messages(messages, shape), coded, runs))


def concerned(coded: "DataFrame", confs: "DataFrame", ends: "DataFrame", runs: "DataFrame") -> "DataFrame":
    """CONCERNED: the messages and events that the certificates do not prove right."""
    shape = shape_of(coded)
    messages = tell_messages(compare_messages(follow_lives(coded, shape), shape), shape).localCheckpoint()
    named = name_patterns(tell(group_messages(messages, shape), coded, runs)).localCheckpoint()
    return name_all(coded, messages, named, shape)
