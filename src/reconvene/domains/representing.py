"""What only a gateway does: it brings into its cluster what comes from above, and sends above what crosses.

Only while it represents its cluster; a standby follows the cluster's order like every site, and can go on at any
place of it.
"""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from reconvene.domains.events import BroughtIn, MessageId
from reconvene.domains.gateway import Brought, Gateway, Launch, Told, UpperConf
from reconvene.domains.home import Key
from reconvene.domains.messages import Cross, Crossing, In, Message, News, Placed, Roster, Turn, encode
from reconvene.ids import Service

if TYPE_CHECKING:
    from reconvene.domains.port import Site

__all__ = ["Representing"]

_AHEAD = 16
"""Messages that it has ready at once."""
_CROSS_MESSAGES = 256
_CROSS_BYTES = 256 << 10
_CROSSES = 8
"""CROSSes that are not delivered yet."""
_STANDBY = 2_048
"""Entries above that a standby keeps before it looks which of them its cluster has."""


class Representing:
    def __init__(self, site: "Site", gateway: Gateway) -> None:
        self.active = False
        self._site = site
        self._gateway = gateway
        self._cursor = 0
        """The index above of what it brings in next."""
        self._entered = False
        """The TURN by which all others enter is under way."""
        self._strangers = False
        """Some of its cluster come from wide configurations that it can't lead them on from."""
        self._told: tuple[int, int] | None = None
        """The roster's version and the number above with which it was told last in this term."""
        self._offered: set[Key] = set()
        """In a CROSS that is not delivered yet."""
        self._offers = 0
        self._crosses: dict[int, tuple[str, int, int]] = {}
        """The ids of this configuration's CROSSes, by number."""

    @property
    def offers(self) -> int:
        """CROSSes of its own that are not delivered yet."""
        return self._offers

    # -- terms

    def local_changed(self) -> None:
        """A local configuration begins."""
        self.end()
        self._crosses.clear()

    def end(self) -> None:
        self.active = self._entered = False
        self._told = None
        self._offered.clear()
        self._offers = 0
        self._gateway.resign()

    def begin(self) -> None:
        site, gateway = self._site, self._gateway
        self.active = True
        lines = [(site.wide.conf, site.line)]
        if not site.is_open:
            lines += [(line.conf, tuple(line.line)) for line in site.meeting.lines]
        number = site.meeting.ports[site.name].number
        found = [index for conf, line in lines if (index := gateway.find(conf, line)) is not None]
        self._strangers = len(found) < len(lines)
        self._cursor = min(found) if found else self._present(number)
        for cross in sorted(site.home.crossings):
            self._launch(cross, again=True)

    def _present(self, number: int) -> int:
        """The index of the first entry that can't be told yet by one that was elected with this number."""
        index = self._gateway.end
        while index > self._gateway.first and not self._gateway.permitted(index - 1, number):
            index -= 1
        return index

    # -- down

    def work(self) -> None:
        """Fills the queue of messages to be sent in the cluster."""
        site, gateway = self._site, self._gateway
        if not self.active:
            self._stand_by()
            return
        number = site.meeting.ports[site.name].number
        gateway.trim(self._cursor)
        self._cursor = max(self._cursor, gateway.first)
        while len(site.control) < _AHEAD and gateway.permitted(self._cursor, number):
            entry = gateway.entry(self._cursor)
            if isinstance(entry, Brought):
                if self._has_left(entry):
                    return
                self._bring(entry)
            elif isinstance(entry, Told):
                news = News(site.term, list(entry.place), self._passing(entry.roster))
                site.say(Service.AGREED, encode(news))
            else:
                self._turn(entry)
            self._cursor += 1
        if site.control:
            return
        if not self._entered:
            if gateway.formed and gateway.number == number:
                self._let_in_or_renew()
        elif site.is_open:
            self._tell()
            self._cross()

    def _has_left(self, entry: Brought) -> bool:
        """A member of this local configuration has gone on to a later one, and sent this from there. What it sent
        here before may never come, so nobody may see what follows it as long as this configuration lasts."""
        site, crossing = self._site, entry.crossing
        sender = entry.id[0].removeprefix(f"{site.domain.name}.")
        return (
            crossing.domain == site.domain.name
            and sender in map(site.name_of, site.members)
            and crossing.conf.isdecimal()
            and int(crossing.conf) > int(site.local)
        )

    def _stand_by(self) -> None:
        gateway, site = self._gateway, self._site
        if len(gateway.entries) > _STANDBY:
            reached = gateway.find(site.wide.conf, site.line)
            if reached is not None:
                gateway.trim(reached)

    def _passing(self, roster: Roster) -> Roster:
        """What of it may come into this cluster."""
        domain = self._site.domain
        if roster.domain == domain.name:
            return roster
        return replace(roster, groups=[told for told in roster.groups if domain.passes_in(told[0])])

    def _bring(self, entry: Brought) -> None:
        site, crossing = self._site, entry.crossing
        passing = [
            index
            for index in entry.indices
            if crossing.domain == site.domain.name or site.domain.passes_in(crossing.messages[index].group)
        ]
        if not passing:
            return
        messages = [crossing.messages[index] for index in passing]
        brought = In(
            site.term, list(entry.place), len(crossing.messages), crossing.domain, messages, passing
        )  # fmt: skip
        ids = tuple(MessageId(crossing.domain, m.site, m.incarnation, m.counter) for m in messages)
        name = (crossing.conf, crossing.pos)
        event = BroughtIn(site.local, site.term, entry.id, entry.place, crossing.domain, name, ids)
        site.say(Service.AGREED, encode(brought), event)

    def _turn(self, conf: UpperConf) -> None:
        site = self._site
        upto = self._reached()
        lines = [(site.wide.conf, site.line), *((line.conf, tuple(line.line)) for line in site.meeting.lines)]
        if any(own == conf.after and line > upto for own, line in lines):
            # They got there by another gateway, which parted from this one above: they can't be led on.
            self._entered, self._strangers = False, True
        place = [conf.number] if conf.regular else []
        turn = Turn(
            term=site.term, after=conf.after, upto=list(upto), enters=False, conf=conf.conf, regular=conf.regular,
            number=conf.number, domains=list(conf.domains), place=place, placed=[Placed(*one) for one in conf.floor],
            rosters=[], told=[],
        )  # fmt: skip
        site.say(Service.SAFE, encode(turn))

    def _let_in_or_renew(self) -> None:
        """Strangers have delivered elsewhere what may yet get a place in this configuration above: others would
        deliver it there, and they would not. They enter the next one, in which all are told what they have seen."""
        gateway = self._gateway
        if gateway.outdated:
            return
        if self._strangers and not gateway.has_been_told(self._site.known):
            gateway.outdated = gateway.renew = True
        elif not self._is_behind():
            self._let_in()

    def _is_behind(self) -> bool:
        """Some of its cluster have come further than this gateway in the configuration above, by another gateway that
        was faster. The others must not enter where those are: they would miss what lies between. This gateway
        delivers it soon, or the configuration above ends."""
        site = self._site
        if site.is_open:
            return False  # a hand-over: all of its cluster are at the same place
        reached = self._reached()
        return site.line > reached or any(tuple(line.line) > reached for line in site.meeting.lines)

    def _let_in(self) -> None:
        """All sites that could not be led on enter here."""
        site, gateway = self._site, self._gateway
        conf = gateway.conf
        assert conf is not None, "it was elected with it"
        self._entered = True
        place = max(self._reached(), site.line)  # a standby that takes over may be behind its cluster
        turn = Turn(
            term=site.term, after="", upto=[], enters=True, conf=conf.conf, regular=True, number=conf.number,
            domains=list(conf.domains), place=list(place),
            placed=[Placed(*one) for one in gateway.placed(self._cursor)],
            rosters=[self._passing(roster) for roster in gateway.rosters_at(self._cursor)],
            told=list(self._reached()),
        )  # fmt: skip
        site.say(Service.SAFE, encode(turn))

    def _reached(self) -> tuple[int, ...]:
        """The place before the cursor."""
        return self._gateway.reached(self._cursor)

    # -- up

    def _tell(self) -> None:
        """The cluster's roster, where it is not told yet in this configuration above: some there do not know it. Also
        an empty one: its sites report no views of others' groups before it has come back."""
        site, gateway = self._site, self._gateway
        now = (site.views.version, gateway.number)
        if now == self._told or not gateway.may_launch:
            return
        self._told = now
        gateway.tell(site.views.roster())

    def _cross(self) -> None:
        if self._offers >= _CROSSES:
            return
        ids: list[Key] = []
        size = 0
        for key, waiting in self._site.home.fresh.items():
            if key in self._offered:
                continue
            if ids and (len(ids) >= _CROSS_MESSAGES or size + len(waiting.wide.data) > _CROSS_BYTES):
                break
            ids.append(key)
            size += len(waiting.wide.data)
        if ids:
            self._offered.update(ids)
            self._offers += 1
            self._site.say(Service.SAFE, encode(Cross(self._site.term, ids)))

    def crossed(self, number: int, cross: tuple[str, int, int], ids: list[Key]) -> None:
        """A CROSS was delivered: every site of the cluster has what it names, or will before it goes on."""
        self._crosses[number] = cross
        if self.active:
            self._offers -= 1
            self._offered.difference_update(ids)
            self._launch(number)

    def _launch(self, number: int, *, again: bool = False) -> None:
        """`again`: an earlier representative may have sent it."""
        site = self._site
        unconfirmed = site.home.unconfirmed(number)
        messages = [
            Message(
                site.name_of(waiting.key[0]), waiting.key[1], waiting.key[2],
                waiting.wide.service, waiting.wide.group, waiting.wide.data,
            )
            for waiting in unconfirmed
        ]  # fmt: skip
        if messages:
            again = again or any(waiting.again for waiting in unconfirmed)
            crossing = Crossing(site.domain.name, site.local, number, site.term, again, messages)
            self._gateway.launch(Launch(crossing, self._crosses[number]))
