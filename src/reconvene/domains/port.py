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
"""

from collections import deque
from collections.abc import Iterable, Sequence

from msgspec import Struct

from reconvene.core.effects import Changed, ConfKind, Delivered, LayerEvent
from reconvene.domains.author import Author, Limits
from reconvene.domains.events import (
    MessageId,
    Unreachable,
    WideChanged,
    WideEvent,
    WideSent,
)
from reconvene.domains.flow import Flow
from reconvene.domains.gateway import Gateway
from reconvene.domains.home import Home
from reconvene.domains.meeting import Meeting, Phase
from reconvene.domains.messages import (
    Cross,
    In,
    Line,
    Member,
    News,
    Placed,
    Port,
    Turn,
    Vote,
    Wide,
    decoded,
    encode,
)
from reconvene.domains.representing import Representing
from reconvene.domains.seen import Seen
from reconvene.domains.tree import Tree
from reconvene.domains.views import Views
from reconvene.ids import Service

__all__ = ["Site", "WideConf"]


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
        self.floor = 0
        """No lower number above is used any more: places would go back."""
        self.flow = Flow(self)
        self.control: deque[Control] = deque()
        limits = limits or Limits()
        self.author = Author(limits)
        self.meeting = Meeting(self, limits)
        # A TURN tells the rosters of all connected parts; each of these has a gateway.
        self.views = Views(self.domain, ordinal, limits.message_bytes // (2 * len(tree.upper)))
        self._connected: tuple[str, ...] = ()
        """The domains of the last regular wide configuration."""
        self.known = Seen()
        """What must get no place above any more: what came from there, and what a detached part has delivered by
        itself. Of any site of the cluster, as far as it knows: the same at all."""
        if gateway is not None:
            gateway.known = lambda: self.known

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
            self.meeting.say_port(self.gateway, resigns=True)

    # -- time

    def look(self, now: int) -> None:
        """In each turn; `now` is the site's clock."""
        if self.gateway is not None:
            self.meeting.look(now)

    def deadline(self) -> int | None:
        return self.meeting.deadline()

    # -- the local configuration

    def take(self, events: Sequence[LayerEvent]) -> None:
        for event in events:
            if type(event) is Delivered:
                self._delivered(event)
            elif type(event) is Changed:
                if event.kind is ConfKind.TRANSITIONAL:
                    self.meeting.stay_together(event.members)
                elif event.kind is ConfKind.REGULAR:
                    self._changed(event)

    def _changed(self, event: Changed) -> None:
        if self.gateway is not None:
            for member in self.members:
                if member not in event.members and self.name_of(member) in self.domain.gateways:
                    self.gateway.left(self.name_of(member))
        carried = self.flow.restart(was_open=self.is_open)
        self.meeting.restart()
        self.phase = Phase.MEETING
        self.local, self.members = event.conf, event.members
        self.control.clear()
        if self.representing is not None:
            self.representing.local_changed()
        self.meeting.say_line(carried)
        self.views.begin(int(event.conf), event.members)

    def _delivered(self, event: Delivered) -> None:
        for index, message in decoded(event):
            place = None if event.timestamp is None else (*event.timestamp, index)
            match message:
                case Wide():
                    self.flow.wide(event, message, place)
                case Line():
                    self.meeting.line(message)
                case Port():
                    self.meeting.port(self.name_of(event.sender), message)
                case Vote():
                    self.meeting.vote(self.name_of(event.sender), message)
                case Member():
                    self._member(event.sender, message, place)
                case In() | Turn() | Cross() | News():
                    if not self.meeting.is_current(self.name_of(event.sender), message.term):
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

    def name_of(self, ordinal: int) -> str:
        return self.domain.sites[ordinal]

    # -- meeting

    @property
    def term(self) -> int:
        """Of this local configuration; 0: it has no representative."""
        return self.meeting.term

    @property
    def representative(self) -> str | None:
        return self.meeting.representative

    @property
    def refused(self) -> dict[str, tuple[str, ...]]:
        """Gateways, or this site, whose rules are not those that count; by name, what differs."""
        return self.meeting.refused

    def met(self, lines: Sequence[Line]) -> None:
        """All parts have said where they are."""
        self.floor = max(line.number for line in lines)
        for line in lines:
            self.known.merge(line.seen)
        self.views.met(lines, self.domain.sites)
        self.flow.meet(lines)

    def stand_alone(self, lines: Sequence[Line]) -> None:
        """There is no gateway: a wide configuration of these parts alone begins, after the last place of all."""
        told = [(line.conf, tuple(line.line)) for line in lines]
        # Others that were in the same wide configuration may have delivered more there, by another gateway.
        is_behind = any(conf == self.wide.conf and line > self.line for conf, line in told)
        seen = [Placed(site, born, *lanes) for site, born, lanes in self.known.of_domain(self.domain.name)]
        self._leave(self.floor, seen, is_apart=is_behind)
        self.line = max(line for _, line in told)
        self._enter(WideConf(f"{self.domain.name}/{self.local}", True, self.floor, (self.domain.name,), True))
        self.events += self.views.alone(self.wide.conf, self.line)
        self._open()

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
                self._leave(turn.number, turn.placed, is_apart=not self.wide.detached)
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
                self._leave(turn.number, turn.placed, is_apart=False)
            self.line = max(self.line, tuple(turn.place))
            self._enter(WideConf(turn.conf, turn.regular, turn.number, tuple(turn.domains), False), reg)
            self.flow.skip(turn)

    def _leave(self, number: int, seen: Iterable[Placed], *, is_apart: bool) -> None:
        """Another wide configuration begins. A site that is not led there from where it is (`is_apart`), or of which
        messages can get no place in it, since others have seen them, leaves the last one through one of its own:
        there it delivers those. Its fifo messages wait for nobody: it has delivered all of them before it goes on."""
        for wide in self.author.fifo():
            self.flow.deliver_own(wide, self.line)
        placed = {(one.site, one.incarnation): one for one in seen}.get((self.name, self.incarnation))
        lost = [] if placed is None else self.author.passed_over(placed)
        if lost or is_apart:
            conf = f"{self.domain.name}/{self.local}/{self.name}/{number}"
            self._enter(WideConf(conf, True, self.wide.number, (self.domain.name,), True))
        for wide in lost:
            self.flow.deliver_own(wide, self.flow.after_line((0, wide.counter)))
            self.author.done(wide.counter)

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
            self.meeting.look_above(self.gateway)
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
