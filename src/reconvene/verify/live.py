"""Liveness, where a run ended with a settle time: each component ends in one configuration, and all is delivered."""

from reconvene.verify.check import Proof
from reconvene.verify.evs.patterns import EvsCheck, EvsPatterns, where_clear
from reconvene.verify.history import History, Stay
from reconvene.verify.report import Tally

__all__ = ["CHECKS", "components", "final_configurations"]


def components(h: History) -> list[list[int]]:
    """The nodes that are up and connected at the end. A node that `components` leaves out is alone."""
    named = {name for component in h.run.components for name in component}
    alone = [[name] for name in sorted(h.run.nodes) if name not in named]
    up = [
        sorted(h.name_index(name) for name in component if name not in h.run.down and name not in h.remotes)
        for component in [*h.run.components, *alone]
    ]
    return [component for component in up if component]


def _ends_in(h: History, node: int) -> Stay | None:
    """The stay that the node is still in at the end."""
    stay = h.last_stay(node)
    return stay if stay is not None and stay.left == "end" else None


def _common_configuration(h: History, tally: Tally) -> None:
    for component in components(h) if h.run.settled else ():
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
    """Where the run is settled: the regular configurations that a node that is up ends in."""
    if not h.run.settled:
        return set()
    ends = {stay.conf for component in components(h) for node in component if (stay := _ends_in(h, node))}
    return {conf for conf in ends if h.confs[conf].kind == "regular"}


def _all_delivered(h: History, tally: Tally) -> None:
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


@where_clear
def _prove_all_delivered(run: EvsPatterns, proof: Proof) -> None:
    for pattern in run.patterns:
        conf = run.confs[pattern.root]
        if pattern.sends and conf["final"]:
            proof.cases += pattern.sent * len(conf["members"])
            lacking = sum(member not in pattern.regular for member in conf["members"])
            proof.suspect(pattern.sent * lacking, pattern.row)


CHECKS = (
    EvsCheck(
        id="live.membership",
        layer="evs",
        source="Transis, figure 2, liveness",
        case="a node that is up at the end",
        violated="it does not end in a regular configuration of exactly those of its component that are up, the same"
        " as the component's first node",
        check=_common_configuration,
        skeleton=True,
    ),
    EvsCheck(
        id="live.delivery",
        layer="evs",
        source="Transis, figure 2, liveness",
        case="a message that was sent in a regular configuration that a node that is up ends in, and a member of"
        " that",
        violated="the member did not deliver it in that very configuration",
        check=_all_delivered,
        prove=_prove_all_delivered,
    ),
)
