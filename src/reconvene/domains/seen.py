"""Which messages a site has delivered, or a configuration above has given a place: two counters for each sender.

A sender's fifo messages come in the order of their counters, and so do all its others: a fifo one may overtake
these. So a message at or below its lane's counter was there before, or can't come any more.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from reconvene.ids import Service

__all__ = ["Lanes", "Seen", "SenderId"]

_INCARNATIONS = 8
"""Of one site that are remembered; messages of older ones count as seen."""
_TOLD = 4
"""Of one site that others are told of."""


class SenderId(NamedTuple):
    domain: str
    site: str


class Lanes(NamedTuple):
    fifo: int = 0
    ordered: int = 0

    def of(self, service: Service) -> int:
        return self.fifo if service is Service.FIFO else self.ordered


class Seen:
    __slots__ = ("_senders",)

    def __init__(self) -> None:
        self._senders: dict[SenderId, dict[int, Lanes]] = {}

    def has(self, sender: SenderId, incarnation: int, service: Service, counter: int) -> bool:
        known = self._senders.get(sender)
        if known is None:
            return False
        lanes = known.get(incarnation)
        if lanes is None:
            return len(known) >= _INCARNATIONS and incarnation < min(known)
        return counter <= lanes.of(service)

    def add(self, sender: SenderId, incarnation: int, service: Service, counter: int) -> bool:
        """Returns whether it is new."""
        if self.has(sender, incarnation, service, counter):
            return False
        known = self._senders.setdefault(sender, {})
        lanes = known.get(incarnation, Lanes())
        known[incarnation] = lanes._replace(**{"fifo" if service is Service.FIFO else "ordered": counter})
        while len(known) > _INCARNATIONS:
            del known[min(known)]
        return True

    def merge(self, table: Iterable[tuple[str, str, int, int, int]]) -> None:
        for domain, site, incarnation, fifo, ordered in table:
            for service, counter in ((Service.FIFO, fifo), (Service.CAUSAL, ordered)):
                if counter:
                    self.add(SenderId(domain, site), incarnation, service, counter)

    def table(self) -> list[tuple[str, str, int, int, int]]:
        """For others: of each sender the newest incarnations."""
        return [
            (*sender, incarnation, *self._senders[sender][incarnation])
            for sender in sorted(self._senders)
            for incarnation in sorted(self._senders[sender])[-_TOLD:]
        ]

    def of_domain(self, domain: str) -> Iterator[tuple[str, int, Lanes]]:
        """Site, incarnation and lanes of this domain's senders, in order; of each the newest incarnations."""
        for sender in sorted(self._senders):
            if sender.domain == domain:
                for incarnation, lanes in sorted(self._senders[sender].items())[-_TOLD:]:
                    yield sender.site, incarnation, lanes
