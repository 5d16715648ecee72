"""Whether each step of a scenario can apply: which nodes are up, down or paused, in the order of time.

Only where no chaos stirs the states: else the runner finds out, and skips what can't apply.
"""

from enum import Enum

from reconvene.errors import Malformed
from reconvene.sim.scenario import Append, Crash, Pause, Restart, Resume, Scenario, Send

__all__ = ["check_timeline"]


class State(Enum):
    UP = "up"
    PAUSED = "paused"
    DOWN = "down"


_ALLOWED = {
    Crash: (State.UP, State.PAUSED),
    Restart: (State.DOWN,),
    Pause: (State.UP,),
    Resume: (State.PAUSED,),
    Send: (State.UP, State.PAUSED),
    Append: (State.UP, State.PAUSED),
}
_AFTER = {Crash: State.DOWN, Restart: State.UP, Pause: State.PAUSED, Resume: State.UP}


def check_timeline(scenario: Scenario, file: str) -> None:
    unstarted = set(scenario.unstarted)
    states = {node: State.DOWN if node in unstarted else State.UP for node in scenario.nodes}
    for step in scenario.steps:
        verb = step.verb
        if not isinstance(verb, Crash | Restart | Pause | Resume | Send | Append):
            continue
        name = type(verb).__name__.lower()
        for node in (verb.node,) if isinstance(verb, Send | Append) else verb.nodes:
            if isinstance(verb, Crash) and step.time_ns == 0 and node in unstarted:
                unstarted.discard(node)  # the crash that says it has not started yet
                continue
            allowed = _ALLOWED[type(verb)]
            if states[node] not in allowed:
                expected = " or ".join(state.value for state in allowed)
                raise Malformed(
                    f"{file}: {step.place}.{name}: node '{node}' is {states[node].value} then;"
                    f" expected one that is {expected}"
                )
            states[node] = _AFTER.get(type(verb), states[node])
