"""The recipe for traces of a given size: the request, checked, and everything that follows from it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from reconvene.errors import Malformed
from reconvene.lab.generate.edits import Edits
from reconvene.lab.generate.evs import evs_events, evs_plan
from reconvene.lab.generate.filtered import filtered_events, filtered_plan
from reconvene.lab.generate.log import log_events, log_plan
from reconvene.lab.generate.mutations import MUTATIONS, Mutation, Window
from reconvene.lab.generate.plan import MAJORITY, Numbers, Plan, Turns
from reconvene.trace.events import SCHEMA, Run

__all__ = ["STACKS", "Recipe", "recipe"]

_ROWS_AT_ONCE = 100_000
_WINDOW = 12
"""A mutation searches so many turns of each node for what it changes."""

_Planner = Callable[[int, int, int, int, int], Plan]
_Maker = Callable[[Plan, Turns], pa.RecordBatch]

STACKS: dict[str, tuple[_Planner, _Maker]] = {
    "evs": (evs_plan, evs_events),
    "corel": (log_plan, log_events),
    "filter": (filtered_plan, filtered_events),
}
"""Group communication; the durable log; a process group with the virtual-synchrony filter."""


@dataclass(frozen=True)
class Recipe:
    stack: str
    events: int
    """About so many."""
    plan: Plan
    edits: Edits | None

    @property
    def turns(self) -> int:
        """The turns of all nodes of all runs: each is made by itself."""
        return self.plan.runs * self.plan.nodes * self.plan.turns

    def make(self, ids: Numbers) -> Iterator[pa.RecordBatch]:
        """The events of these turns, in their order."""
        maker = STACKS[self.stack][1]
        at_once = max(1, _ROWS_AT_ONCE // self.plan.stride)
        for begin in range(0, len(ids), at_once):
            made = maker(self.plan, Turns(self.plan, ids[begin : begin + at_once]))
            yield made if self.edits is None else self.edits.apply(made)

    def run(self, number: int) -> Run:
        return Run(
            schema=SCHEMA,
            run=self.plan.run_name(number),
            nodes=self.plan.names(),
            stack="corel" if self.stack == "corel" else "evs",
            order="atop",
            seed=number,
            settled=True,
            components=self.plan.components(),
            down=[],
            quorum={"kind": "majority"},
        )


def recipe(
    events: int,
    *,
    runs: int = 1,
    nodes: int = 5,
    stack: str = "evs",
    changes: int = 0,
    pack: int = 4,
    mutation: str | None = None,
    at: float = 0.5,
    prefix: str = "made",
) -> Recipe:
    """For traces of about `events` events in all. They are correct or, with a mutation, wrong in one place.

    stack: one of STACKS. changes: how often the configuration changes in each run; partitions and merges alternate.
    pack: how many messages each node originates in a row. mutation: one of MUTATIONS for the stack, at `at`: from 0
    for the first run's first events to 1 for the last run's last events. prefix: of the runs' names. May raise
    Malformed.
    """
    if stack not in STACKS:
        raise Malformed(f"stack is {stack!r}; expected one of {', '.join(STACKS)}")
    if min(events, runs, nodes, pack) < 1 or changes < 0:
        raise Malformed("expected one or more events, runs, nodes and messages in a pack, and 0 or more changes")
    plan = replace(STACKS[stack][0](events, runs, nodes, changes, pack), prefix=prefix)
    right = Recipe(stack, events, plan, None)
    if mutation is None:
        return right
    if mutation not in MUTATIONS[stack]:
        raise Malformed(f"mutation is {mutation!r}; expected one of {', '.join(MUTATIONS[stack])}")
    return replace(right, edits=_edits(right, MUTATIONS[stack][mutation], at))


def _edits(right: Recipe, mutation: Mutation, at: float) -> Edits:
    """Finds where in the traces the mutation is, and what it changes: makes a few turns for that."""
    plan = right.plan
    run, first = _place(plan, mutation, min(max(at, 0.0), 1.0))
    ids = [
        (run * plan.nodes + node) * plan.turns + turn
        for node in range(plan.nodes)
        for turn in range(first, min(plan.turns, first + _WINDOW))
    ]
    events = [event for batch in right.make(np.array(ids)) for event in batch.to_pylist()]
    spell = first // (plan.stages * plan.rounds)
    window = Window(plan.run_name(run), events, [plan.name(node) for node in plan.nodes_of(spell | 1, MAJORITY)])
    try:
        mutation.change(window)
    except (StopIteration, ValueError, IndexError):
        raise Malformed("there is nothing that this mutation could change; expected more events or changes") from None
    return window.edits


def _place(plan: Plan, mutation: Mutation, at: float) -> tuple[int, int]:
    """The run, and the first of some turns in which messages are originated; in one configuration if it is long
    enough."""
    run = min(int(at * plan.runs), plan.runs - 1)
    rounds = plan.spells * plan.rounds
    spell, begin = divmod(min(int((at * plan.runs - run) * rounds), rounds - 1), plan.rounds)
    if mutation.stage is not None:
        return run, mutation.stage * plan.rounds
    if mutation.needs_changes:
        spell = min(spell, max(0, plan.spells - 2))
    begin = min(begin, max(0, plan.rounds - _WINDOW))
    return run, (spell * plan.stages + plan.stages - 1) * plan.rounds + begin
