"""Whether each step of a scenario can apply: which nodes are up, down or paused, in the order of time.

Only where no chaos stirs the states: else the runner finds out, and skips what can't apply.
"""

from enum import Enum

from reconvene.errors import Malformed
from reconvene.sim.isis_scenario import Cast, IsisVerb, Kill, home
from reconvene.sim.scenario import AddSites, Append, Crash, Pause, RemoveSites, Restart, Resume, Scenario, Send, Step

__all__ = ["check_timeline"]


class State(Enum):
    UP = "up"
    PAUSED = "paused"
    DOWN = "down"
    ABSENT = "not in the list of sites"


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
    states = {node: State.DOWN if node in unstarted else State.UP for node in scenario.everyone}
    dead: set[str] = set()
    listed = set(scenario.nodes if scenario.sites is None else scenario.sites)
    ever = set(listed)
    for name in scenario.nodes:
        if name not in listed:
            states[name] = State.ABSENT
    for step in scenario.steps:
        verb = step.verb
        if isinstance(verb, AddSites | RemoveSites):
            _check_list(step, verb, states, listed, ever, file)
            continue
        if isinstance(verb, IsisVerb):
            _check_processes(step, verb, states, dead, file)
            continue
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
            if isinstance(verb, Restart):
                dead -= {process for process in dead if home(process)[0] == node}


def _check_list(
    step: Step, verb: AddSites | RemoveSites, states: dict[str, State], listed: set[str], ever: set[str], file: str
) -> None:
    """`listed`: the sites of the list then; `ever`: those that were in it."""
    for node in verb.nodes:
        if isinstance(verb, AddSites):
            if node in ever:
                state = "is in" if node in listed else "was removed from"
                raise Malformed(
                    f"{file}: {step.place}.add: node '{node}' {state} the list of sites then;"
                    " expected one that was never in it"
                )
            ever.add(node)
            listed.add(node)
            states[node] = State.UP
        else:
            if node not in listed or len(listed) == 1:
                why = "is the only site" if node in listed else "is not in the list of sites"
                raise Malformed(
                    f"{file}: {step.place}.remove: node '{node}' {why} then; expected one of several that are in it"
                )
            listed.discard(node)
            states[node] = State.ABSENT


def _check_processes(step: Step, verb: IsisVerb, states: dict[str, State], dead: set[str], file: str) -> None:
    """`dead`: processes that were killed, and whose node has not restarted since."""
    name = verb.casting.kind if isinstance(verb, Cast) else type(verb).__name__.lower()
    for process in verb.processes if isinstance(verb, Kill) else (verb.process,):
        down = states[home(process)[0]] is State.DOWN
        if down or process in dead:
            why = "its node is down" if down else "it was killed before"
            raise Malformed(
                f"{file}: {step.place}.{name}: process '{process}' is not there then, since {why};"
                " expected one that is up"
            )
        if isinstance(verb, Kill):
            dead.add(process)
