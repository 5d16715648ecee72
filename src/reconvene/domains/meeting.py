"""The parts of a cluster meet in a local configuration, and elect the gateway that represents it.

Given: LINE of each part, PORT of each gateway, and votes, in the cluster's order. Promised: at the place of the last
LINE or PORT all sites know all of them, and at each place all know the same representative and term.
"""

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING

from reconvene.domains.election import elect
from reconvene.domains.events import Represents
from reconvene.domains.gateway import Gateway
from reconvene.domains.messages import Carried, Line, Port, Vote, bounded, encode
from reconvene.domains.patience import Patience
from reconvene.domains.rules import counting, differing, ranked, rules_of
from reconvene.ids import Service

if TYPE_CHECKING:
    from reconvene.domains.author import Limits
    from reconvene.domains.port import Site

__all__ = ["Meeting", "Phase"]


class Phase(Enum):
    MEETING = "meeting"
    CATCHING_UP = "catching up"
    OPEN = "open"


class Meeting:
    """Of one site; it begins anew with each local configuration."""

    def __init__(self, site: "Site", limits: "Limits") -> None:
        self.lines: list[Line] = []
        self.ports: dict[str, Port] = {}
        self.term = 0
        self.representative: str | None = None
        self.refused: dict[str, tuple[str, ...]] = {}
        """Gateways whose rules are not those that count, and this site if its are not; by name, what differs."""
        self._site = site
        self._rules = rules_of(site.tree, site.domain.name)
        self._gateways: set[int] = set() if site.gateway is None else {site.ordinal}
        """Of the sites that this one has met: each by its own word."""
        self._message_bytes = limits.message_bytes
        self._patience = Patience(limits.confirm_ns)
        self._part: tuple[int, ...] = (site.ordinal,)
        """Sites that have delivered what this one has: it comes from the last configuration together with them, and
        messages flowed there, or they were one part before."""
        self._together: tuple[int, ...] = (site.ordinal,)
        """Who comes from the last configuration together with this site."""
        self._is_ending = False
        """In a transitional configuration. Sites that part may be delivered different messages there, so nothing is
        decided any more: two parts would elect differently in one term."""
        self._resigned: str | None = None
        self._votes = 0
        """In this configuration, to replace a representative."""
        self._told = -1
        """The number above that this gateway's last PORT in this configuration had."""

    # -- a local configuration

    def stay_together(self, members: tuple[int, ...]) -> None:
        """A transitional configuration: these go on together."""
        self._together = members
        self._is_ending = True

    def restart(self) -> None:
        """The next local configuration begins."""
        if self._site.phase is Phase.OPEN:
            self._part = self._together
        else:
            # Parts that have met and were not led to the same place yet are still at different ones.
            self._part = tuple(member for member in self._part if member in self._together)
        self.term, self.representative, self._resigned = 0, None, None
        self.ports, self.lines, self._votes = {}, [], 0
        self._told = -1
        self._is_ending = False

    def say_line(self, carried: list[Carried]) -> None:
        """One site of each part says where it is, and what it carries."""
        site = self._site
        if site.ordinal != min(self._part):
            return
        members = sorted(self._part)
        line = Line(
            members,
            sorted(self._gateways.intersection(members)),
            site.wide.conf,
            max(site.floor, site.wide.number),
            list(site.line),
            site.known.table(),
            *site.views.line(members),
            carried,
        )
        site.say(Service.SAFE, encode(bounded(line, self._message_bytes)))

    def say_port(self, gateway: Gateway, *, resigns: bool = False) -> None:
        if (conf := gateway.conf) is not None:
            site = self._site
            self._told = conf.number
            rank = site.domain.gateways.index(site.name)
            port = Port(conf.number, list(conf.domains), resigns, rank, self._rules)
            site.say(Service.AGREED, encode(port))

    def look_above(self, gateway: Gateway) -> None:
        """In each turn of a gateway: the cluster hears of another configuration above, and `gateway` of how it
        stands in its cluster."""
        if gateway.number != self._told:
            self.say_port(gateway)
        name = self._site.name
        gateway.renew = self._needs_renewal(gateway)
        represents = self._site.phase is not Phase.MEETING and self.representative == name
        gateway.elected = self.ports[name].number if represents else -1

    def _needs_renewal(self, gateway: Gateway) -> bool:
        """This gateway would represent the cluster better, or at all, if another configuration above began: with a
        number that is not below what the cluster has used, and with all told that the cluster has seen."""
        if self._site.phase is Phase.MEETING or gateway.conf is None:
            return False
        if gateway.number >= self._site.floor and not gateway.outdated:
            return False
        if self._site.name in self.refused:
            return False
        if self.representative in (None, self._site.name):
            return True
        present = self.ports[self.representative]
        return len(gateway.conf.domains) > len(present.domains)

    # -- meeting

    def line(self, line: Line) -> None:
        if self._is_ending:
            return
        if self._site.phase is Phase.MEETING and set(line.members) <= set(self._site.members):
            self.lines.append(line)
            self._met()

    def port(self, name: str, port: Port) -> None:
        if self._is_ending:
            return
        gateways = self._site.domain.gateways
        if port.rules.gateways == self._rules.gateways and gateways[port.rank : port.rank + 1] != (name,):
            self._site.malformed += 1
            return
        self.ports[name] = port
        if port.resigns:
            self._resigned = name
        if self._site.phase is Phase.MEETING:
            self._met()
        else:
            self._refuse([name])
            self._elect()

    def _met(self) -> None:
        """Has every part said where it is, and every gateway what it sees above?"""
        site = self._site
        found = {member for line in self.lines for member in line.gateways if member in line.members}
        gateways = [site.name_of(member) for member in sorted(found)]
        told = {member for line in self.lines for member in line.members}
        if told != set(site.members) or any(name not in self.ports for name in gateways):
            return
        self._gateways = found
        site.met(self.lines)
        if gateways:
            site.phase = Phase.CATCHING_UP
            self._refuse(gateways)
            self._elect()
        else:
            self.refused = {}
            site.stand_alone(self.lines)

    # -- election

    def _refuse(self, names: Iterable[str]) -> None:
        """Compares the rules in the PORTs of these gateways with those that count."""
        expected = counting(self.ports, self.representative)
        if expected is not None:
            told = {name: port.rules for name, port in self.ports.items()}
            rules = {self._site.name: self._rules, **told}
            found = {name: differing(each, expected) for name, each in rules.items()}
            self.refused = {name: what for name, what in found.items() if what}
            self._site.malformed += sum(name in self.refused for name in names)

    def _elect(self) -> None:
        order = [name for name in ranked(self.ports) if name not in self.refused]
        chosen = elect(self.ports, order, self.representative, self._resigned, self._site.floor)
        if chosen is None or chosen == self.representative:
            return
        self.representative = chosen
        self.term += 1
        self._site.events.append(Represents(self._site.local, self.term, chosen))
        representing = self._site.representing
        if representing is not None:
            representing.end()
            if chosen == self._site.name:
                representing.begin()

    def is_current(self, sender: str, term: int) -> bool:
        """Does the present representative say it, in its present term?"""
        return term == self.term and sender == self.representative

    # -- votes

    def vote(self, name: str, vote: Vote) -> None:
        """A standby votes the representative out: it counts as one that has resigned."""
        if self._is_ending:
            return
        if name not in self.ports:
            self._site.malformed += 1
        elif vote.term == self.term and self.representative not in (None, name):
            self._votes += 1
            self._resigned = self.representative
            self._elect()

    def look(self, now: int) -> None:
        """In each turn of a gateway. A standby may find that the representative gets nothing across."""
        site = self._site
        progress = (site.local, self.term, site.phase, site.flow.backs if site.is_open else site.line)
        if self._patience.is_over(self._waits_as_standby(), self._votes, progress, now):
            site.say(Service.AGREED, encode(Vote(self.term)))

    def deadline(self) -> int | None:
        return self._patience.deadline()

    def _waits_as_standby(self) -> bool:
        """Could this gateway do what the representative has not done yet?"""
        site = self._site
        mine = self.ports.get(site.name)
        present = None if self.representative is None else self.ports.get(self.representative)
        if mine is None or present is None or mine is present or site.phase is Phase.MEETING:
            return False
        if mine.number < site.floor or len(mine.domains) < len(present.domains) or site.name in self.refused:
            return False
        return not site.is_open or bool(site.home.crossing)
