"""What a run's configurations say without its messages: the ground that patterns of messages stand on.

Given: a history, of which only the rows about configurations are needed. Promised: the rows CONFS and ENDS, by names,
from which `EvsPatterns` is made.
"""

from collections.abc import Iterator

from reconvene.verify.codes import NOBODY
from reconvene.verify.evs.safe import accountable
from reconvene.verify.history import NONE, History
from reconvene.verify.live import final_configurations

__all__ = ["configuration_rows", "end_rows"]


def configuration_rows(h: History) -> Iterator[dict[str, object]]:
    """Each configuration that an event describes: conf, root, kind, members, groups, accountable, final, absent."""
    together = _together(h)
    final = final_configurations(h)
    for index, conf in enumerate(h.confs):
        if conf.kind == "unknown":
            continue
        entered = {h.node[event] for event in conf.entered}
        yield {
            "conf": conf.id,
            "root": h.conf_id(h.root[index]),
            "kind": conf.kind,
            "members": _codes(h, conf.members),
            "groups": together.get(index, []),
            "accountable": _codes(h, accountable(h, index)),
            "final": index in final,
            "absent": _codes(h, tuple(member for member in conf.members if member not in entered)),
        }


def _codes(h: History, members: tuple[int, ...]) -> list[int]:
    return [member if member < h.nodes else NOBODY for member in members]


def _together(h: History) -> dict[int, list[list[int]]]:
    """By configuration, the nodes that went on from it to the same next one, where these are two or more."""
    groups: dict[tuple[int, int], list[int]] = {}
    for stays in h.stays:
        for stay in stays:
            if stay.next != NONE:
                groups.setdefault((stay.conf, stay.next), []).append(stay.node)
    found: dict[int, list[list[int]]] = {}
    for (conf, _), nodes in groups.items():
        if len(set(nodes)) > 1:
            found.setdefault(conf, []).append(nodes)
    return found


def end_rows(h: History) -> Iterator[dict[str, object]]:
    """Of each incarnation of a node: node, inc, the root of the last configuration that it entered, and the event of
    that in the history."""
    last = {(stay.node, stay.inc): stay for stays in h.stays for stay in stays}
    for (node, inc), stay in last.items():
        yield {"node": node, "inc": inc, "root": h.conf_id(h.root[stay.conf]), "event": stay.begin}
