"""One site of a cluster in a tree of clusters. Every site of the cluster runs the same machine over the same order.

What each site knows at a place of its local order:

    meeting     a local configuration has begun. One site of each part that came together says how far its part is
                (LINE); each gateway says what it sees above (PORT). At the place of the last of these all know all of
                them, elect a representative, and the first term begins. Without a gateway the cluster is detached: a
                wide configuration of its own begins, and messages are delivered at their place in the local order.
    catching up the representative brings in what the parts lack that it can lead on from where they are (IN, TURN),
                then all others enter where it stands (TURN, `enters`). Nothing new is sent meanwhile.
    open        messages flow.

Why nothing gets lost or doubled: what has not come back from above, all sites carry into the next local
configuration, in order. A message that has a place in a configuration above gets no second one there (gateway), and a
site delivers each message once (seen). Why sites that go together from one wide configuration to the next deliver the
same: what is brought in between is the representative's log above, from the place where they were, without gaps; a
site that can't be led on that way leaves through a wide configuration of its own.

A part that was detached has delivered its own messages, and the others may be about to let the same ones cross. So
when it comes back, no gateway represents the cluster before another configuration above has begun, in which all
gateways were told what that part has seen (SEEN): there these messages get no place.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from reconvene.core.effects import Changed, ConfKind, Delivered, LayerEvent
from reconvene.domains.author import Author, Limits
from reconvene.domains.election import elect
from reconvene.domains.events import (
    MessageId,
    Represents,
    Unreachable,
    WideChanged,
    WideEvent,
    WideSent,
)
from reconvene.domains.flow import Flow
from reconvene.domains.gateway import Gateway
from reconvene.domains.home import Home
from reconvene.domains.messages import (
    Cross,
    In,
    Line,
    Member,
    News,
    Port,
    Turn,
    Vote,
    Wide,
    bounded,
    decoded,
    encode,
)
from reconvene.domains.patience import Patience
from reconvene.domains.representing import Representing
from reconvene.domains.rules import counting, differing, ranked, rules_of
from reconvene.domains.seen import Seen
from reconvene.domains.tree import Tree
from reconvene.domains.views import Views
from reconvene.ids import Service

__all__ = ["Phase", "Site", "WideConf"]


class Phase(Enum):
    MEETING = "meeting"
    CATCHING_UP = "catching up"
    OPEN = "open"


class WideConf(Struct, frozen=True):
    conf: str
    """Empty: none yet."""
    regular: bool
    number: int
    """The highest number above that its places go by."""
    domains: tuple[str, ...]
    detached: bool


class Control(Struct, frozen=True):
    """A message of this layer that is to be sent in the present local configuration, and what is recorded then."""

    service: Service
    payload: bytes
    event: WideEvent | None = None


class Site:
    def __init__(
        self,
        tree: Tree,
        domain: str,
        ordinal: int,
        incarnation: int,
        gateway: Gateway | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.tree = tree
        self.domain = tree.domains[domain]
        self.ordinal = ordinal
        self.name = self.domain.sites[ordinal]
        self.incarnation = incarnation
        self.gateway = gateway
        self.representing = None if gateway is None else Representing(self, gateway)
        self.phase = Phase.MEETING
        self.events: list[WideEvent] = []
        self.malformed = 0
        """Messages that no correct member sends."""
        self.wide = WideConf("", True, 0, (), True)
        self.line: tuple[int, ...] = (0,)
        """The last place that is delivered."""
        self.local = ""
        self.members: tuple[int, ...] = ()
        self.term = 0
        self.representative: str | None = None
        self.floor = 0
        """No lower number above is used any more: places would go back."""
        self.ports: dict[str, Port] = {}
        self.rules = rules_of(tree, domain)
        self.refused: dict[str, tuple[str, ...]] = {}
        """Gateways whose rules are not those that count, and this site if its are not; by name, what differs."""
        self.gateways: set[int] = set() if gateway is None else {ordinal}
        """Of the sites that this one has met: each by its own word."""
        self.lines: list[Line] = []
        self.flow = Flow(self)
        self.control: deque[Control] = deque()
        limits = limits or Limits()
        self.author = Author(limits)
        self._message_bytes = limits.message_bytes
        self._patience = Patience(limits.confirm_ns)
        # A TURN tells the rosters of all connected parts; each of these has a gateway.
        self.views = Views(self.domain, ordinal, limits.message_bytes // (2 * len(tree.upper)))
        self._part: tuple[int, ...] = (ordinal,)
        """Sites that know what this one knows: it comes from the last configuration together with them, and all
        parts had met there, or they were one part before."""
        self._together: tuple[int, ...] = (ordinal,)
        """Who comes from the last configuration together with this site."""
        self._connected: tuple[str, ...] = ()
        """The domains of the last regular wide configuration."""
        self.known = Seen()
        """What any site of its cluster has got from above, as far as it knows: the same at all."""
        if gateway is not None:
            gateway.known = lambda: self.known
        self._resigned: str | None = None
        self._votes = 0
        """In this configuration, to replace a representative."""
        self._told = -1
        """The number above that this gateway's last PORT in this configuration had."""

    # -- requests

    def room(self) -> int:
        """How many messages `send` would take now."""
        return self.author.room()

    def send(self, service: Service, group: str, crosses: bool, data: bytes) -> None:
        """`crosses`: to other clusters too, if the group passes. Raises Unavailable where there is no room."""
        self.author.send(service, group, crosses, data)

    def withdraw(self) -> int:
        """Takes back what is not sent; returns how many."""
        return self.author.withdraw()

    def join(self, group: str, process: str) -> None:
        """The process joins this wide group; views report it (`WideView`). Raises Rejected where the group does not
        leave the cluster, Unavailable at a limit."""
        self.views.join(group, process)

    def leave(self, group: str, process: str) -> None:
        self.views.leave(group, process)

    def hand_over(self) -> None:
        """If this site represents its cluster, it gives way to a standby."""
        if self.gateway is not None and self.representative == self.name:
            self._say_port(resigns=True)

    # -- time

    def look(self, now: int) -> None:
        """In each turn; `now` is the site's clock. A standby may find that the representative gets nothing across."""
        progress = (self.local, self.term, self.phase, self.flow.backs if self.is_open else self.line)
        if self.gateway is not None and self._patience.is_over(self._waits_as_standby(), self._votes, progress, now):
            self.say(Service.AGREED, encode(Vote(self.term)))

    def deadline(self) -> int | None:
        return self._patience.deadline()

    def _waits_as_standby(self) -> bool:
        """Could this gateway do what the representative has not done yet?"""
        mine = self.ports.get(self.name)
        present = None if self.representative is None else self.ports.get(self.representative)
        if mine is None or present is None or mine is present or self.phase is Phase.MEETING:
            return False
        if mine.number < self.floor or len(mine.domains) < len(present.domains) or self.name in self.refused:
            return False
        return not self.is_open or bool(self.home.crossing)

    # -- the local configuration

    def take(self, events: Sequence[LayerEvent]) -> None:
        for event in events:
            if type(event) is Delivered:
                self._delivered(event)
            elif type(event) is Changed:
                if event.kind is ConfKind.TRANSITIONAL:
                    self._together = event.members
                elif event.kind is ConfKind.REGULAR:
                    self._changed(event)

    def _changed(self, event: Changed) -> None:
        if self.gateway is not None:
            for member in self.members:
                if member not in event.members and self.name_of(member) in self.domain.gateways:
                    self.gateway.left(self.name_of(member))
        if self.phase is Phase.MEETING:
            self._part = tuple(member for member in self._part if member in self._together)
        else:
            self._part = self._together
        carried = self.flow.restart(was_open=self.is_open)
        self.phase = Phase.MEETING
        self.local, self.members = event.conf, event.members
        self.term, self.representative, self._resigned = 0, None, None
        self.ports, self.lines, self._votes = {}, [], 0
        self.control.clear()
        if self.representing is not None:
            self.representing.local_changed()
        if self.ordinal == min(self._part):
            members = sorted(self._part)
            number = max(self.floor, self.wide.number)
            brings = self.views.line(members)
            line = Line(
                members,
                sorted(self.gateways.intersection(members)),
                self.wide.conf,
                number,
                list(self.line),
                self.known.table(),
                self.flow.untold,
                *brings,
                carried,
            )
            self.say(Service.SAFE, encode(bounded(line, self._message_bytes)))
        self.views.begin(int(event.conf), event.members)
        self._told = -1

    def _say_port(self, *, resigns: bool = False) -> None:
        if self.gateway is not None and (conf := self.gateway.conf) is not None:
            self._told = conf.number
            complete = self.phase is not Phase.MEETING and not self.gateway.outdated
            rank = self.domain.gateways.index(self.name)
            port = Port(conf.number, list(conf.domains), resigns, complete, rank, self.rules)
            self.say(Service.AGREED, encode(port))

    def _delivered(self, event: Delivered) -> None:
        for index, message in decoded(event):
            place = None if event.timestamp is None else (*event.timestamp, index)
            match message:
                case Wide():
                    self.flow.wide(event, message, place)
                case Line():
                    self._line(message)
                case Port():
                    self._port(self.name_of(event.sender), message)
                case Vote():
                    self._vote(self.name_of(event.sender), message)
                case Member():
                    self._member(event.sender, message, place)
                case In() | Turn() | Cross() | News():
                    if not self._is_current(event.sender, message.term):
                        continue
                    if isinstance(message, In):
                        self.flow.take_in(message)
                    elif isinstance(message, Turn):
                        self._turn(message)
                    elif isinstance(message, News):
                        self._news(message)
                    else:
                        self.flow.cross(message, (self.name_of(event.sender), event.incarnation, event.first + index))
                case _:
                    self.malformed += 1

    def _is_current(self, sender: int, term: int) -> bool:
        """Did the present representative say it, in its present term?"""
        return term == self.term and self.name_of(sender) == self.representative

    def _needs_renewal(self, gateway: Gateway) -> bool:
        """This gateway would represent the cluster better, or at all, if another configuration above began: with a
        number that is not below what the cluster has used, and with all told that the cluster has seen."""
        if self.phase is Phase.MEETING or gateway.conf is None:
            return False
        if gateway.number >= self.floor and not gateway.outdated:
            return False
        if self.name in self.refused:
            return False
        present = None if self.representative is None else self.ports[self.representative]
        return present is None or len(gateway.conf.domains) > len(present.domains)

    def name_of(self, ordinal: int) -> str:
        return self.domain.sites[ordinal]

    # -- meeting

    def _line(self, line: Line) -> None:
        if self.phase is Phase.MEETING and set(line.members) <= set(self.members):
            self.lines.append(line)
            self._met()

    def _port(self, name: str, port: Port) -> None:
        if port.rules.gateways == self.rules.gateways and self.domain.gateways[port.rank : port.rank + 1] != (name,):
            self.malformed += 1
            return
        usable = port.complete or self.phase is Phase.MEETING or not self.flow.untold
        self.ports[name] = port if usable else _unusable(port)
        if port.resigns:
            self._resigned = name
        if self.phase is Phase.MEETING:
            self._met()
        else:
            self._refuse([name])
            self._elect()

    def _refuse(self, names: Iterable[str]) -> None:
        """Compares the rules in the PORTs of these gateways with those that count."""
        expected = counting(self.ports, self.representative)
        if expected is not None:
            told = {name: port.rules for name, port in self.ports.items()}
            found = {name: differing(rules, expected) for name, rules in {self.name: self.rules, **told}.items()}
            self.refused = {name: what for name, what in found.items() if what}
            self.malformed += sum(name in self.refused for name in names)

    def _vote(self, name: str, vote: Vote) -> None:
        """A standby votes the representative out: it counts as one that has resigned."""
        if name not in self.ports:
            self.malformed += 1
        elif vote.term == self.term and self.representative not in (None, name):
            self._votes += 1
            self._resigned = self.representative
            self._elect()

    def _met(self) -> None:
        """Has every part said where it is, and every gateway what it sees above?"""
        found = {member for line in self.lines for member in line.gateways if member in line.members}
        gateways = [self.name_of(member) for member in sorted(found)]
        told = {member for line in self.lines for member in line.members}
        if told != set(self.members) or any(name not in self.ports for name in gateways):
            return
        self.gateways = found
        self.floor = max(line.number for line in self.lines)
        for line in self.lines:
            self.known.merge(line.seen)
        self.flow.untold = any(line.untold for line in self.lines)
        if self.flow.untold:
            self._learned()
        self.views.met(self.lines, self.domain.sites)
        self.flow.meet(self.lines)
        if gateways:
            self.phase = Phase.CATCHING_UP
            self._refuse(gateways)
            self._elect()
        else:
            self.refused = {}
            self.line = max(tuple(line.line) for line in self.lines)
            self._enter(WideConf(f"{self.domain.name}/{self.local}", True, self.floor, (self.domain.name,), True))
            self.events += self.views.alone(self.wide.conf, self.line)
            self._open()

    def _learned(self) -> None:
        """Some of what its parts have seen nobody above knows: a configuration there must begin with it."""
        self.ports = {name: _unusable(port) for name, port in self.ports.items()}
        if self.gateway is not None:
            self.gateway.learned()

    def _elect(self) -> None:
        order = [name for name in ranked(self.ports) if name not in self.refused]
        chosen = elect(self.ports, order, self.representative, self._resigned, self.floor)
        if chosen is None or chosen == self.representative:
            return
        self.representative = chosen
        self.term += 1
        self.events.append(Represents(self.local, self.term, chosen))
        if self.representing is not None:
            self.representing.end()
            if chosen == self.name:
                self.representing.begin()

    # -- wide configurations

    def _enter(self, wide: WideConf, reg: str | None = None) -> None:
        self.wide = wide
        self.events.append(WideChanged(wide.conf, wide.regular, wide.domains, self.line, reg))
        if wide.regular:
            self.views.enter(wide.number)
            for domain in self._connected:
                if domain not in wide.domains:
                    self.events.append(Unreachable(wide.conf, domain))
            self._connected = wide.domains

    def _turn(self, turn: Turn) -> None:
        self.floor = max(self.floor, turn.number)
        if turn.enters:
            if self.wide.conf != turn.conf:
                self._leave(turn)
                self.line = max(self.line, tuple(turn.place))
                self._enter(WideConf(turn.conf, True, turn.number, tuple(turn.domains), False))
            self.line = max(self.line, tuple(turn.place))
            self.views.learn(turn.rosters, tuple(turn.told))
            if not self.is_open:
                self._open()
            self.flow.skip(turn)
        elif self.wide.conf == turn.after and self.line <= tuple(turn.upto):
            reg = None if turn.regular else self.wide.conf
            if turn.regular:
                self._leave(turn)
            self.line = max(self.line, tuple(turn.place))
            self._enter(WideConf(turn.conf, turn.regular, turn.number, tuple(turn.domains), False), reg)
            self.flow.skip(turn)

    def _leave(self, turn: Turn) -> None:
        """Another wide configuration begins. A site that was not led there, or of which messages can get no place in
        it, since some cluster has seen them, leaves the last one through one of its own: there it delivers those."""
        placed = {(one.site, one.incarnation): one for one in turn.placed}.get((self.name, self.incarnation))
        lost = [] if placed is None else self.author.passed_over(placed)
        if lost or (turn.enters and not self.wide.detached):
            conf = f"{self.domain.name}/{self.local}/{self.name}/{turn.number}"
            self._enter(WideConf(conf, True, self.wide.number, (self.domain.name,), True))
        for wide in lost:
            self.flow.deliver_own(wide, self.flow.after_line((0, wide.counter)))

    # -- messages

    @property
    def is_open(self) -> bool:
        return self.phase is Phase.OPEN

    @property
    def home(self) -> Home:
        return self.flow.home

    def _open(self) -> None:
        self.phase = Phase.OPEN
        self.flow.open()

    def _member(self, sender: int, member: Member, place: tuple[int, ...] | None) -> None:
        if self.views.member(sender, member) and self.is_open and self.wide.detached and place is not None:
            self.events += self.views.alone(self.wide.conf, self.flow.after_line(place))

    def _news(self, news: News) -> None:
        place = tuple(news.place)
        if not self.wide.detached and place[0] == self.wide.number:
            self.events += self.views.news(news, self.wide.conf, self.line)
            self.line = max(self.line, (*place, 0))

    # -- speaking

    def say(self, service: Service, payload: bytes, event: WideEvent | None = None) -> None:
        """Sends a message of this layer in the present local configuration; `event` is recorded then."""
        self.control.append(Control(service, payload, event))

    def next(self) -> Control | None:
        """What is to be sent next in this configuration; `sent` follows, if it is taken."""
        if self.gateway is not None:
            if self.gateway.number != self._told:
                self._say_port()
            self.gateway.renew = self._needs_renewal(self.gateway)
            represents = self.phase is not Phase.MEETING and self.representative == self.name
            self.gateway.elected = self.ports[self.name].number if represents else -1
        if not self.control and self.representing is not None:
            self.representing.work()
        if self.control:
            return self.control[0]
        if self.phase is not Phase.OPEN:
            return None
        member = self.views.due()
        if member is not None:
            self.views.sent(member)
            self.say(Service.AGREED, encode(member))
            return self.control[0]
        mine = self.author.next()
        if mine is None:
            return None
        wide, is_new = mine
        service = Service(wide.service)
        name = MessageId(self.domain.name, self.name, self.incarnation, wide.counter)
        event = WideSent(self.wide.conf, name, service, wide.group, wide.crosses) if is_new else None
        return Control(service, encode(wide), event)

    def sent(self, control: Control) -> None:
        if control.event is not None:
            self.events.append(control.event)
        if self.control:
            self.control.popleft()
        else:
            self.author.sent()

    def invariants(self) -> None:
        assert self.term >= 0
        self.author.invariants()


def _unusable(port: Port) -> Port:
    """Its gateway can't be elected with it."""
    return replace(port, number=-1)
