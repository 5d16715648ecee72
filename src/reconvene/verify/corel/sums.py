"""What the Spark engine gathers of one run's log: how many rows have which *facts*, the ground of all proofs.

A row is a node and a message, whether or not the node's file names the message. A check of the log is proven if no
row has a fact that the check declares (`Check.facts`): the facts are chosen so that they are true of no right run.

- `unaccepted`: it is logged or green, and nobody accepted it. `too_soon`: its author logs it, or has it green, before
  it accepts it.
- `twice`: it is accepted, logged or green a second time.
- `misplaced`: its position is not the node's next one; or, of a snapshot, is below that. `misplaced_green`: the
  former.
- `before_itself`: its author has it before it accepts it. `ordered_before_itself`: and it is green somewhere.
- `misordered`: its author had something of a higher position, or of none, before it accepted it. `had_later`: the
  node comes to have something later that its author had before it.
- `not_green`: the node came to rest in a component with a quorum, and does not have it green.
- `green_unhad`: it is green, and the node does not have it. `recoloured`: it is yellow or red after it was green.
- `moved`: it is green at several positions. `torn`: at several positions of one node: then nothing is proven.
- `shared`: a position is that of several messages. `gap`: below a snapshot a position is nobody's.
- `taking_back`: a snapshot is below its node's next position. It is counted as `misplaced`.
- `wrongly_yellow`: where the node knows of its primary component, it is not had, or not yellow; or it changed its
  colour in a way that is not allowed. `never_yellow`: it is red a second time, and was not yellow before.
  `wrong_stay`: what became yellow in one stay is not in the order of positions.
- `wrong_phase`: an attempt, commit or establish event is violated. `unmade`: nobody made it green in a primary
  component. `tangled`: a node's incarnations do not follow each other.
- `wrong_vote`: with dynamic voting, an attempt is violated. `stopped_vote`: a component that may order in the end
  does not.
- `restamped`: it is logged under several timestamps, though its author did not send it again.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from reconvene.verify.check import Check, Proof
from reconvene.verify.counts import LogCounts

__all__ = ["ROW_FACTS", "LogCheck", "LogSums", "prove_by_facts"]

ROW_FACTS = (
    "unaccepted", "too_soon", "twice", "misplaced", "misplaced_green", "before_itself", "ordered_before_itself",
    "misordered", "had_later", "not_green", "green_unhad", "recoloured", "moved", "torn", "wrongly_yellow",
    "wrong_stay", "unmade", "tangled", "restamped",
)  # fmt: skip
"""The facts that a row of a node and a message can have, each a bit of one number. The others are counted by run."""


@dataclass(slots=True, kw_only=True)
class LogSums:
    """One run."""

    counts: LogCounts
    suspects: Mapping[str, int]
    """By check: how many rows, positions, snapshots and phases have a fact that it declares."""
    knows: int
    """Pairs of a message that has a primary component and a node that knows of that."""
    rests: int
    """Pairs of a message and a node that came to rest in a component with a quorum, where one has the message."""
    votes: int = 0
    """With dynamic voting: attempts, and primary components that all their members attempted."""
    ended_votes: int = 0
    """With dynamic voting: components that may order in the end."""


LogCheck = Check[LogCounts, LogSums]


def prove_by_facts(run: LogSums, proof: Proof) -> None:
    proof.suspect(run.suspects[proof.check])
