"""Ways in which a generated run can be wrong in a single place, and the checks that have to find it.

Each is a function of the events of a few turns, at all nodes of one run, that makes the edits.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from reconvene.lab.generate.edits import Edits, Event
from reconvene.lab.generate.log import COMMIT, ESTABLISH

__all__ = ["MUTATIONS", "Mutation", "Window"]

_ORDERED = ("agreed", "safe")


class Window:
    """A few consecutive turns at all nodes: events by node, in their order."""

    def __init__(self, run: str, events: list[Event], steady: list[str]) -> None:
        self.edits = Edits(run)
        self.nodes: dict[str, list[Event]] = {}
        for event in events:
            self.nodes.setdefault(event["node"], []).append(event)
        self.last = self.nodes.get(max(steady), [])
        """The events of the last node that stays in a majority: every check applies to it. It is not the first of all
        nodes, unless it is alone, so a wrong event is not the lowest of its kind."""

    def where(self, **fields: object) -> Iterator[Event]:
        """The events of the last node with these values."""
        return (event for event in self.last if all(event[name] == value for name, value in fields.items()))

    def first(self, **fields: object) -> Event:
        return next(self.where(**fields))

    def pair(self, differ: str, **fields: object) -> tuple[Event, Event]:
        """Two adjacent events of the last node with these values that differ in `that`, or agree in it if it is
        marked with `=`."""
        name, same = differ.removeprefix("="), differ.startswith("=")
        return next((a, b) for a, b in pairwise(self.where(**fields)) if (a[name] == b[name]) == same)


@dataclass(frozen=True)
class Mutation:
    change: Callable[[Window], None]
    checks: tuple[str, ...]
    """The checks that must fail."""
    stage: int | None = None
    """If set, the mutation is in the first turns of this stage of the first spell, for any `at`."""
    needs_changes: bool = False
    """Whether it shows only if the configuration changes later."""


def _lose(kind: str, **fields: object) -> Callable[[Window], None]:
    return lambda window: window.edits.drop(window.first(kind=kind, **fields))


def _repeat(kind: str) -> Callable[[Window], None]:
    def change(window: Window) -> None:
        event = window.first(kind=kind)
        window.edits.insert(event, event)

    return change


def _change(kind: str, **fields: object) -> Callable[[Window], None]:
    return lambda window: window.edits.change(window.first(kind=kind), **fields)


def _swap(kind: str, differ: str, **fields: object) -> Callable[[Window], None]:
    return lambda window: window.edits.swap(*window.pair(differ, kind=kind, **fields))


def _lose_own(window: Window) -> None:
    """A node does not deliver its own message."""
    window.edits.drop(next(e for e in window.where(kind="deliver") if e["sender"].split(":")[0] == e["node"]))


def _other_timestamp(window: Window) -> None:
    """A little higher than at the other nodes, and lower than the next one."""
    event = window.first(kind="deliver", service="agreed")
    window.edits.change(event, ts=[*event["ts"], 1])


def _used_timestamp(window: Window) -> None:
    one, other = window.pair("msg", kind="deliver", service="agreed")
    window.edits.change(other, ts=one["ts"])


def _low_timestamp(window: Window) -> None:
    """All nodes deliver a message before what its sender had delivered when it sent it."""
    # Not one of the first two rounds: nothing was delivered before them.
    late = (e for e in window.where(kind="deliver", service="agreed") if e["ts"][2] >= 2 * len(window.nodes))
    msg = next(late)["msg"]
    for events in window.nodes.values():
        for event in events:
            if event["msg"] == msg and event["kind"] == "deliver":
                window.edits.change(event, ts=[event["ts"][0], 0, -1, 0])


def _unsent(window: Window) -> None:
    event = window.first(kind="deliver", service="fifo")
    window.edits.insert(event, event, msg=f"{event['node']}:1:999999999999")


def _number_repeats(window: Window) -> None:
    one, other = window.last[0], window.last[1]
    window.edits.change(other, n=one["n"])


def _cycle(originated: str) -> Callable[[Window], None]:
    """Two nodes deliver each other's message before they originate their own."""

    def change(window: Window) -> None:
        here, there = sorted(window.nodes)[:2]
        sent = [[e for e in window.nodes[node][1:] if e["kind"] == originated] for node in (here, there)]
        one, other = next(two for two in zip(*sent, strict=False) if _place(two[0]) == _place(two[1]))
        for node, mine, theirs in ((here, one, other), (there, other, one)):
            events = window.nodes[node]
            delivered = next(e for e in events if e["kind"] == "deliver" and e["msg"] == theirs["msg"])
            window.edits.insert(events[events.index(mine) - 1], delivered)
            window.edits.drop(delivered)

    return change


def _place(event: Event) -> tuple[object, object]:
    return event["conf"], event["view"]


def _other_members(kind: str) -> Callable[[Window], None]:
    def change(window: Window) -> None:
        event = [event for event in window.where(kind=kind) if event["conf_kind"] != "transitional"][-1]
        window.edits.change(event, members=event["members"][1:])

    return change


def _swap_greens(window: Window) -> None:
    """Two messages of one author are swapped."""
    greens = list(window.where(kind="green"))
    one = greens[0]
    author = one["msg"].rsplit(":", 1)[0]
    other = next(event for event in greens[1:] if event["msg"].rsplit(":", 1)[0] == author)
    window.edits.change(one, msg=other["msg"])
    window.edits.change(other, msg=one["msg"])


def _wrong_position(window: Window) -> None:
    event = window.first(kind="green")
    window.edits.change(event, pos=event["pos"] + 1)


def _redden(window: Window) -> None:
    event = window.first(kind="green")
    window.edits.insert(event, event, kind="red", pos=None)


def _other_log_timestamp(window: Window) -> None:
    event = window.first(kind="log")
    window.edits.change(event, ts=[*event["ts"], 1])


def _wrong_view(window: Window) -> None:
    event = window.first(kind="deliver", service="agreed")
    window.edits.change(event, view=event["view"] - 1)


MUTATIONS: dict[str, dict[str, Mutation]] = {
    "evs": {
        "lose-agreed": Mutation(_lose("deliver", service="agreed"), ("evs.6.3",)),
        "lose-safe": Mutation(_lose("deliver", service="safe"), ("evs.7.1",)),
        "lose-causal": Mutation(_lose("deliver", service="causal"), ("evs.5",)),
        "lose-fifo": Mutation(_lose("deliver", service="fifo"), ("evs.5",)),
        "lose-own": Mutation(_lose_own, ("evs.3", "evs.4"), needs_changes=True),
        "lose-send": Mutation(_lose("send"), ("evs.1.3",)),
        "deliver-twice": Mutation(_repeat("deliver"), ("evs.1.4",)),
        "send-twice": Mutation(_repeat("send"), ("evs.1.4",)),
        "deliver-unsent": Mutation(_unsent, ("evs.1.3",)),
        "swap-agreed": Mutation(_swap("deliver", "sender", service="agreed"), ("evs.6.1", "evs.6.2", "to.order")),
        "swap-causal": Mutation(_swap("deliver", "=sender", service="causal"), ("evs.5",)),
        "swap-fifo": Mutation(_swap("deliver", "=sender", service="fifo"), ("evs.5",)),
        "other-timestamp": Mutation(_other_timestamp, ("to.same",)),
        "used-timestamp": Mutation(_used_timestamp, ("to.unique", "to.order")),
        "low-timestamp": Mutation(_low_timestamp, ("to.causal",)),
        "no-timestamp": Mutation(
            lambda window: window.edits.change(window.first(kind="deliver", service="agreed"), ts=None),
            ("to.unique",),
        ),
        "wrong-configuration": Mutation(_change("deliver", conf="1"), ("evs.1.3", "evs.2.2")),
        "wrong-sender": Mutation(_change("deliver", sender="nobody"), ("evs.1.3",)),
        "wrong-service": Mutation(
            lambda window: window.edits.change(window.first(kind="deliver", service="causal"), service="fifo"),
            ("evs.1.3",),
        ),
        "number-repeats": Mutation(_number_repeats, ("evs.1.2",)),
        "cycle": Mutation(_cycle("send"), ("evs.1.1",)),
        "other-members": Mutation(_other_members("conf"), ("evs.2.3",), stage=0),
    },
    "corel": {
        "lose-accept": Mutation(_lose("accept"), ("corel.3.1",)),
        "lose-log": Mutation(_lose("log"), ("corel.causal", "corel.green")),
        "lose-green": Mutation(_lose("green"), ("corel.3.6", "corel.3.8", "corel.green")),
        "accept-twice": Mutation(_repeat("accept"), ("corel.3.2",)),
        "log-twice": Mutation(_repeat("log"), ("corel.3.2",)),
        "green-twice": Mutation(_repeat("green"), ("corel.3.2", "corel.green")),
        "swap-logs": Mutation(_swap("log", "msg"), ("corel.causal",)),
        "swap-greens": Mutation(_swap_greens, ("corel.3.6", "corel.3.7", "corel.agreed")),
        "wrong-position": Mutation(_wrong_position, ("corel.green", "corel.agreed")),
        "redden": Mutation(_redden, ("corel.green", "corel.yellow")),
        "other-timestamp": Mutation(_other_log_timestamp, ("corel.ts",)),
        "lose-attempt": Mutation(_lose("attempt"), ("corel.phases",), stage=COMMIT),
        "lose-commit": Mutation(_lose("commit"), ("corel.phases",), stage=COMMIT),
        "establish-twice": Mutation(_repeat("establish"), ("corel.phases",), stage=ESTABLISH),
        "other-members": Mutation(_other_members("attempt"), ("corel.phases",), stage=COMMIT),
        "other-incarnation": Mutation(_change("log", inc=2), ("evs.2.2",)),
        "number-repeats": Mutation(_number_repeats, ("evs.1.2",)),
    },
    "filter": {
        "lose-agreed": Mutation(_lose("deliver", service="agreed"), ("vs.C3",)),
        "lose-causal": Mutation(_lose("deliver", service="causal"), ("vs.C1", "vs.C3")),
        "lose-own": Mutation(_lose_own, ("vs.C2", "vs.C3")),
        "lose-cast": Mutation(_lose("cast"), ("vs.C1",)),
        "deliver-twice": Mutation(_repeat("deliver"), ("vs.C2",)),
        "cast-twice": Mutation(_repeat("cast"), ("vs.C2",)),
        "swap-agreed": Mutation(_swap("deliver", "sender", service="agreed"), ("vs.L2", "vs.L5")),
        "swap-fifo": Mutation(_swap("deliver", "=sender", service="fifo"), ("vs.C1",)),
        "other-timestamp": Mutation(_other_timestamp, ("vs.L5",)),
        "wrong-view": Mutation(_wrong_view, ("vs.L4",)),
        "wrong-sender": Mutation(_change("deliver", sender="n00:1:77"), ("vs.C1",)),
        "cycle": Mutation(_cycle("cast"), ("vs.L1",)),
        "other-members": Mutation(_other_members("view"), ("vs.L3",), stage=0),
    },
}
"""By stack and name."""
