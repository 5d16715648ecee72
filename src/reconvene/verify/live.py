"""Liveness, where a run ended with a settle time: each component ends in one configuration, and all is delivered."""

from reconvene.verify.history import History, Stay
from reconvene.verify.precedes import Precedes
from reconvene.verify.report import Tallies, Tally

__all__ = ["IDS", "check", "components", "final_configurations"]

IDS = ("live.membership", "live.delivery")


def check(history: History, precedes: Precedes, tallies: Tallies) -> None:
    if history.run.settled:
        _common_configuration(history, tallies["live.membership"])
        _all_delivered(history, tallies["live.delivery"])


def components(h: History) -> list[list[int]]:
    """Who is up and connected at the end. A node that `components` leaves out is alone."""
    named = {name for component in h.run.components for name in component}
    alone = [[name] for name in sorted(h.run.nodes) if name not in named]
    up = [
        sorted(h.name_index(name) for name in component if name not in h.run.down)
        for component in [*h.run.components, *alone]
    ]
    return [component for component in up if component]


def _ends_in(h: History, node: int) -> Stay | None:
    """The stay that the node is still in at the end."""
    stay = h.last_stay(node)
    return stay if stay is not None and stay.left == "end" else None


def _common_configuration(h: History, tally: Tally) -> None:
    """Case: a node that is up at the end. Violation: it does not end in a regular configuration of exactly its
    component's nodes that are up, the same as the component's first node."""
    for component in components(h):
        first = _ends_in(h, component[0])
        for node in component:
            tally.cases += 1
            stay = _ends_in(h, node)
            problem = None
            if stay is None:
                problem = "ends in no configuration"
            elif h.declared[stay.begin].kind != "regular":
                problem = f"ends in {h.conf_id(stay.conf)}, which is transitional"
            elif h.declared[stay.begin].members != tuple(component):
                problem = f"ends in {h.conf_id(stay.conf)} of {_names(h, h.declared[stay.begin].members)}"
            elif first is not None and stay.conf != first.conf:
                problem = f"ends in {h.conf_id(stay.conf)}, and {h.names[component[0]]} in {h.conf_id(first.conf)}"
            if problem:
                numbers = h.numbers[node]
                n = h.n[stay.begin] if stay is not None else numbers[-1] if numbers else 0
                detail = f"{problem}; expected one of {_names(h, component)}"
                tally.violate(h.run.run, h.names[node], n, detail)


def _names(h: History, members: tuple[int, ...] | list[int]) -> str:
    return ",".join(sorted(h.names[member] for member in members))


def final_configurations(h: History) -> set[int]:
    """The regular configurations that someone who is up ends in."""
    ends = {stay.conf for component in components(h) for node in component if (stay := _ends_in(h, node))}
    return {conf for conf in ends if h.confs[conf].kind == "regular"}


def _all_delivered(h: History, tally: Tally) -> None:
    """Case: a message sent in a regular configuration that some node ends in, and a member of that. Violation: the
    member did not deliver it in that configuration."""
    final = final_configurations(h)
    sent: dict[int, dict[int, int]] = {}
    for event in h.sends:
        if h.conf[event] in final:
            sent.setdefault(h.conf[event], {}).setdefault(h.msg[event], event)
    for conf, messages in sent.items():
        for member in h.confs[conf].members:
            tally.cases += len(messages)
            for message in sorted(messages.keys() - h.messages_in(member, conf)):
                event = messages[message]
                detail = f"{h.describe(event)}: member {h.names[member]} did not deliver it there"
                tally.violate(h.run.run, h.names[h.node[event]], h.n[event], detail)
