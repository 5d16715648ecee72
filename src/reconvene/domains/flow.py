"""What flows at one site: messages of its own cluster and of others, until applications have them.

Given: messages in the cluster's order, and what the representative brings in. Promised: each message is delivered
once (`seen`); what crosses waits at home for its place above, and is carried into the next local configuration until
it has come back.
"""

from typing import TYPE_CHECKING

from reconvene.core.effects import Delivered
from reconvene.domains.events import MessageId, WideDelivered
from reconvene.domains.home import Home, Kept, Waiting
from reconvene.domains.messages import Carried, Cross, In, Line, Message, Turn, Wide
from reconvene.domains.seen import Seen, SenderId
from reconvene.ids import Service

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reconvene.domains.port import Site

__all__ = ["Flow"]

_KEPT_PLACE = 1 << 40
"""After all places that a configuration's own order gives."""


class Flow:
    def __init__(self, site: "Site") -> None:
        self.home = Home()
        self.backs = 0
        """Messages of this cluster that came back."""
        self._site = site
        self._carried: list[Carried] = []
        """What waits to cross, as the parts have brought it into this configuration; until messages flow to other
        clusters."""
        self._seen = Seen()
        """What this site has delivered."""
        self._kept = Kept()
        self._early: list[tuple[Delivered, Wide, tuple[int, ...] | None]] = []
        """Fifo messages of sites that knew before this one that all is open."""

    # -- the local configuration

    def restart(self, *, was_open: bool) -> list[Carried]:
        """The local configuration has ended. Returns what this site carries into the next one."""
        if was_open and self._site.wide.detached:
            # Authors that had no time to deliver them here send them again, or others for them, in the same order.
            self._carried = [one for one in self._carried if not self._is_known(one)]
        elif was_open:
            self._carried = self.home.carried()
        for behind, waiting in self.home.blocked():
            self._kept.add(self._site.name_of(waiting.key[0]), behind, waiting)
        self.home = Home()
        self._early.clear()
        return self._carried

    def meet(self, lines: "Iterable[Line]") -> None:
        """All parts have said what they carry."""
        sites = len(self._site.domain.sites)
        carried = {one.key: one for line in lines for one in line.carried if one.site < sites}
        self._carried = list(carried.values())

    def _is_known(self, one: Carried) -> bool:
        sender = SenderId(self._site.domain.name, self._site.name_of(one.site))
        return self._site.known.has(sender, one.incarnation, Service(one.wide.service), one.wide.counter)

    def open(self) -> None:
        carried: list[Carried] = []
        if not self._site.wide.detached:
            # Else it can't cross, and is for the authors that are here to deliver: they send it again.
            carried, self._carried = self._carried, []
        for index, one in enumerate(carried):
            if self._is_known(one):
                continue  # it has its place: a site that entered after that place does not deliver it any more
            # Before all that is sent in this configuration.
            place = (int(self._site.local), 0, 0, index) if one.wide.service >= Service.AGREED else None
            self._take_home(one.site, one.incarnation, one.wide, place, again=True)
        self._site.author.restart(self.home.counters(self._site.ordinal, self._site.incarnation))
        early, self._early = self._early, []
        for event, wide, at in early:
            self.wide(event, wide, at)

    def wide(self, event: Delivered, wide: Wide, place: tuple[int, ...] | None) -> None:
        if self._site.is_open:
            self._take_home(event.sender, event.incarnation, wide, place)
        else:
            self._early.append((event, wide, place))

    def _take_home(
        self, site: int, incarnation: int, wide: Wide, place: tuple[int, ...] | None, *, again: bool = False
    ) -> None:
        crosses = not self._site.wide.detached and self._may_cross(wide)
        waiting = Waiting((site, incarnation, wide.counter), wide, place, crosses, again or wide.again)
        if self.home.take(waiting):
            self._deliver_home(waiting)

    def _may_cross(self, wide: Wide) -> bool:
        return wide.crosses and self._site.domain.passes_out(wide.group)

    def _deliver_home(self, waiting: Waiting) -> None:
        site, incarnation, counter = waiting.key
        wide = waiting.wide
        message = Message(self._site.name_of(site), incarnation, counter, wide.service, wide.group, wide.data)
        self._deliver(
            self._site.domain.name, message, None if waiting.place is None else self.after_line(waiting.place)
        )
        if self._site.wide.detached and waiting.again and self._may_cross(wide):
            # Others may be about to let it cross, since it was sent before.
            sender = SenderId(self._site.domain.name, message.site)
            self._site.known.add(sender, incarnation, Service(wide.service), counter)
        if (site, incarnation) == (self._site.ordinal, self._site.incarnation) and not waiting.crosses:
            self._site.author.done(counter)

    def deliver_own(self, wide: Wide, place: tuple[int, ...]) -> None:
        message = Message(self._site.name, self._site.incarnation, wide.counter, wide.service, wide.group, wide.data)
        self._deliver(self._site.domain.name, message, place)

    def after_line(self, local: tuple[int, ...]) -> tuple[int, ...]:
        """The place of a message that has one in the cluster's own order only."""
        return (*self._site.line, 1 + self._site.tree.numbers[self._site.domain.name], *local)

    def _deliver(self, domain: str, message: Message, place: tuple[int, ...] | None) -> None:
        service = Service(message.service)
        sender = SenderId(domain, message.site)
        if self._seen.add(sender, message.incarnation, service, message.counter):
            name = MessageId(domain, message.site, message.incarnation, message.counter)
            at = place if service >= Service.AGREED else None
            self._site.events.append(
                WideDelivered(self._site.wide.conf, name, service, message.group, at, message.data)
            )

    def has_delivered(self, sender: SenderId, incarnation: int, counter: int) -> bool:
        """This site has delivered the sender's message of this counter, which is not fifo, or a later one."""
        return self._seen.has(sender, incarnation, Service.CAUSAL, counter)

    def take_in(self, brought: In) -> None:
        place = tuple(brought.place)
        if self._site.wide.detached or place[0] != self._site.wide.number or place <= self._site.line:
            return
        own = brought.domain == self._site.domain.name
        for index, message in zip(brought.indices, brought.messages, strict=True):
            if own:
                # Messages for this cluster alone that waited behind an earlier one of their sender when the
                # configuration changed come before this one.
                self._release(self._kept.before(message))
            self._site.line = (*place, index)
            sender = SenderId(brought.domain, message.site)
            self._site.known.add(sender, message.incarnation, Service(message.service), message.counter)
            self._deliver(brought.domain, message, (*place, index))
            if own and message.site in self._site.domain.sites:
                self._back(message)
            if own and not self._site.is_open:
                # Others, for whom messages flow, have delivered them here: what follows may depend on them.
                self._release(self._kept.behind(message))
        self._site.line = (*place, brought.count)

    def _release(self, kept: "Iterable[Waiting]") -> None:
        for waiting in kept:
            place = None if waiting.place is None else (int(self._site.local), _KEPT_PLACE, *waiting.key)
            self._deliver_home(Waiting(waiting.key, waiting.wide, place, False))

    def _back(self, message: Message) -> None:
        """A message of this cluster has come back."""
        self.backs += 1
        ordinal = self._site.domain.sites.index(message.site)
        if (ordinal, message.incarnation) == (self._site.ordinal, self._site.incarnation):
            self._site.author.done(message.counter)
        released = self.home.back((ordinal, message.incarnation, message.counter), Service(message.service))
        for waiting in released:
            self._deliver_home(waiting)

    def cross(self, cross: Cross, named: tuple[str, int, int]) -> None:
        number = self.home.cross(cross.ids)
        if self._site.representing is not None:
            self._site.representing.crossed(number, named, cross.ids)

    def skip(self, turn: Turn) -> None:
        for one in turn.placed:
            if one.site in self._site.domain.sites:
                ordinal = self._site.domain.sites.index(one.site)
                for waiting in self.home.skip(ordinal, one.incarnation, one.fifo, one.ordered):
                    self._deliver_home(waiting)
