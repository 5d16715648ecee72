"""One order of all agreed and safe messages of a wide configuration, and agreement between those that go on together.

A message of scope `cluster` has no upper place: what is promised of it is the cluster's business.
"""

from reconvene.verify.codes import CONF, DELIVER, NONE, SEND
from reconvene.verify.wide.accountable import Accountable
from reconvene.verify.wide.home import Home
from reconvene.verify.wide.judged import Findings, WideCheck, judged
from reconvene.verify.wide_history import Entry, Life, Place, WideHistory

__all__ = ["CHECKS", "lacking_at_change"]


@judged
def _order(wide: WideHistory, found: Findings) -> None:
    home = wide.once(Home)
    last: dict[tuple[Life, int], Place] = {}
    owner: dict[tuple[int, Place], int] = {}
    for event, kind in enumerate(wide.kind):
        if kind != DELIVER or not wide.ordered(wide.msg[event]):
            continue
        found.case()
        message, root, ts = wide.msg[event], wide.root(event), wide.rows[event].ts
        if not isinstance(ts, list):
            if home.has_gateway(wide.node[event], wide.rows[event].n):
                found.violate(event, "it has no ts")
            continue
        place = tuple(ts)
        before = last.get((wide.life(event), root))
        last[wide.life(event), root] = place
        first = owner.setdefault((root, place), message)
        if first != message:
            found.violate(event, f"{wide.messages[first]} has the same ts {ts} in {wide.confs[root].id}")
        elif wide.told[message].places[root] != place:
            other = list(wide.told[message].places[root])
            found.violate(event, f"its ts is {ts}, and {other} at its lowest delivery in {wide.confs[root].id}")
        elif before is not None and place <= before:
            found.violate(event, f"its ts {ts} is not above that of the one before it, {list(before)}")


def _groups(wide: WideHistory) -> dict[tuple[int, int], list[Entry]]:
    """By two configurations: who went from the one directly to the other, where more than one node did."""
    found: dict[tuple[int, int], list[Entry]] = {}
    for entries in wide.entries:
        for entry in entries:
            if entry.next != NONE:
                found.setdefault((entry.conf, entry.next), []).append(entry)
    return {key: group for key, group in found.items() if len({entry.node for entry in group}) > 1}


def _earliest(wide: WideHistory, group: list[Entry]) -> dict[int, Place]:
    """Of each ordered message that any of them delivered there, placed after that one entered: its place."""
    found: dict[int, Place] = {}
    for entry in group:
        root = wide.confs[entry.conf].root
        for message in entry.delivered:
            place = wide.told[message].places.get(root)
            if place is not None and wide.ordered(message) and place > entry.place:
                found[message] = place
    return found


def lacking_at_change(wide: WideHistory) -> dict[tuple[int, int], tuple[int, list[tuple[Entry, int]]]]:
    """By two configurations: how many cases `wide.agree` has there, and where one lacks what another delivered."""
    found = {}
    for key, group in _groups(wide).items():
        cases = 0
        lacking: list[tuple[Entry, int]] = []
        messages = _earliest(wide, group)
        for entry in group:
            domain = wide.home[entry.node]
            for message, place in messages.items():
                if place > entry.place and wide.is_for(message, domain):
                    cases += 1
                    if message not in entry.delivered:
                        lacking.append((entry, message))
        found[key] = cases, lacking
    return found


@judged
def _agree(wide: WideHistory, found: Findings) -> None:
    for (conf, to), (cases, lacking) in wide.once(lacking_at_change).items():
        found.case(cases)
        for entry, message in lacking:
            found.violate(
                _left_at(wide, entry),
                f"it went from {wide.confs[conf].id} to {wide.confs[to].id} with others, one of which delivered"
                f" {wide.messages[message]} in the former, without delivering it there",
            )


def _left_at(wide: WideHistory, entry: Entry) -> int:
    """The event of the configuration that it was left for."""
    event = entry.begin + 1
    while wide.kind[event] != CONF:
        event += 1
    return event


@judged
def _self(wide: WideHistory, found: Findings) -> None:
    judge = _SelfDelivery(wide)
    for event, kind in enumerate(wide.kind):
        if kind == SEND and wide.sent[wide.msg[event]] == event and judge.went_on(event):
            found.case()
            message = wide.msg[event]
            if message not in wide.got.get(wide.life(event), ()):
                problem = judge.problem(event, message)
                if problem is not None:
                    found.violate(event, f"not delivered by its sender, which {problem}")


class _SelfDelivery:
    """Whether a sender had to deliver its own message, which it did not.

    A message may be sent in one wide configuration and cross in the next, or cross again after the representative
    crashed. So one that is not delivered when its sender's file ends, or when its sender fails, may be on its way.
    """

    def __init__(self, wide: WideHistory) -> None:
        self.wide = wide
        self.home = wide.once(Accountable).home
        self.lacking = {
            (entry.node, entry.inc, message)
            for _, lacking in wide.once(lacking_at_change).values()
            for entry, message in lacking
        }
        self.last_regular: dict[Life, Entry] = {}
        """The last regular configuration that each life entered."""
        for entries in wide.entries:
            for entry in entries:
                if wide.confs[entry.conf].kind == "regular":
                    self.last_regular[entry.node, entry.inc] = entry
        self.last_own: dict[tuple[Life, bool], int] = {}
        """Of each life, fifo or not: the last one of its own messages that it delivered, by its sending."""
        for life, got in wide.got.items():
            for message in got:
                told = wide.told[message]
                if told.sent != NONE and (told.node, told.inc) == life:
                    key = (life, told.service == 0)
                    self.last_own[key] = max(self.last_own.get(key, NONE), told.sent)

    def went_on(self, event: int) -> bool:
        """Did the life enter another regular configuration after this sending?"""
        last = self.last_regular.get(self.wide.life(event))
        return last is not None and last.begin > event and last.conf != self.wide.conf[event]

    def problem(self, event: int, message: int) -> str | None:
        wide, life = self.wide, self.wide.life(event)
        is_fifo = wide.msg_service[message] == 0
        last = wide.last_entry(life[0])
        stands = wide.domains.settled and last is not None and last.inc == life[1]
        if stands and (is_fifo or self.home.has_gateway(life[0])):
            return "was up at the end"
        if self.last_own.get((life, is_fifo), NONE) > event:
            return "delivered a later one of its own"
        if (*life, message) in self.lacking:
            return "went on with others that delivered it"
        if is_fifo and self.home.legs_after(life, wide.rows[event].n) > 1:
            return "went on through two local configurations"
        return None


CHECKS = (
    WideCheck(
        id="wide.order",
        layer="wide",
        source="Domains",
        case="a delivery of an agreed or safe message of scope `wide`",
        violated="it has no ts, though there is a gateway in the node's local configuration; or, in the same regular"
        " wide configuration or what followed it, the lowest delivery with its ts is of another message,"
        " or the message's lowest delivery has another ts, or its ts is not above"
        " that of the one before it at the same incarnation of the node",
        check=_order,
    ),
    WideCheck(
        id="wide.agree",
        layer="wide",
        source="Domains",
        case="of two or more nodes that went from one wide configuration directly to the same next one: a node, and"
        " an agreed or safe message of scope `wide` that one of them delivered in the first, placed after both"
        " entered it, which may pass to the node's domain",
        violated="the node did not deliver it in that very configuration",
        check=_agree,
    ),
    WideCheck(
        id="wide.self",
        layer="wide",
        source="Domains",
        case="a sending whose node, in the same incarnation, later entered another regular wide configuration",
        violated="the node did not deliver the message in that incarnation, and had to, see below",
        check=_self,
    ),
)
