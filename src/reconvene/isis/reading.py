"""Packets of other sites: each record goes to the part of the layer that it is for.

Packets that come while a site view is being adopted wait until it is. What a peer says in a site view that this site
has not adopted waits too. A malformed record is counted and acknowledged, and nothing else comes of it.
"""

from collections import deque
from collections.abc import Callable, Iterable

from reconvene.errors import Malformed
from reconvene.isis.abcast import Abcasts
from reconvene.isis.calls import Calls
from reconvene.isis.casting import Casting
from reconvene.isis.gbcast import Gbcasts
from reconvene.isis.here import Here
from reconvene.isis.limits import IsisLimits
from reconvene.isis.messages import (
    Answer,
    Ask,
    Commit,
    Copy,
    Entered,
    GiveState,
    Got,
    HasState,
    Marked,
    Missing,
    Offer,
    Over,
    Propose,
    Raise,
    Record,
    Stub,
    Takeover,
    Verdict,
    Want,
    WantState,
    Watch,
    decode_record,
)
from reconvene.isis.monitor import Monitor
from reconvene.isis.plausible import is_plausible
from reconvene.isis.pool import Pool
from reconvene.isis.receipts import Receipts
from reconvene.isis.state import StateTransfers
from reconvene.wire.messages import Packet

__all__ = ["Reading"]

_ANSWERS = (Answer, Propose)
"""Nothing waits for their acks, and the site that they come to has often something to send soon after."""


class Reading:
    def __init__(
        self,
        here: Here,
        receipts: Receipts,
        pool: Pool,
        abcasts: Abcasts,
        casting: Casting,
        calls: Calls,
        monitor: Monitor,
        gbcasts: Gbcasts,
        state: StateTransfers,
        limits: IsisLimits,
    ) -> None:
        self._here = here
        self._receipts = receipts
        self._pool = pool
        self._abcasts = abcasts
        self._casting = casting
        self._calls = calls
        self._monitor = monitor
        self._gbcasts = gbcasts
        self._state = state
        self._limits = limits
        self.dropped = 0
        """Packets that came while a site view was being adopted, beyond the limit."""
        self._early: deque[Packet] = deque()
        self._paused: dict[int, deque[tuple[int, Record]]] = {}
        """By peer that speaks in a site view which this site has not adopted, or after crossings that it has not
        taken: what it said."""
        self.is_reached: Callable[[Marked], bool] = _always
        """This site has taken those crossings."""

    def receive(self, packets: Iterable[Packet], now: int) -> None:
        for packet in packets:
            if self._here.open:
                self._receive(packet, now)
            elif len(self._early) < self._limits.early_packets:
                self._early.append(packet)
            else:
                self.dropped += 1

    def _receive(self, packet: Packet, now: int) -> None:
        peer = packet.site
        records = self._here.channels.receive(packet, now)
        awaited = not records
        for number, data in records:
            try:
                record = decode_record(data)
                if not is_plausible(record, peer, self._here.site):
                    raise Malformed("a record that no correct site sends")
            except Malformed:
                self._here.malformed += 1
                self._receipts.add(peer, number, None)
                continue
            if type(record) not in _ANSWERS:
                awaited = True
            if peer in self._paused:
                self._paused[peer].append((number, record))
            else:
                self._read(record, peer, number)
        if not awaited:
            self._here.channels.hold(peer, now)

    def adopt(self, now: int) -> None:
        """A site view is adopted: what waited for that is read."""
        for peer in list(self._paused):
            self._read_paused(peer)
        early, self._early = self._early, deque()
        for packet in early:
            self._receive(packet, now)

    def resume(self) -> None:
        """Crossings were taken: what waited for that is read."""
        for peer in [peer for peer, paused in self._paused.items() if isinstance(paused[0][1], Marked)]:
            self._read_paused(peer)

    def _read_paused(self, peer: int) -> None:
        paused = self._paused.pop(peer)
        while paused:
            number, record = paused.popleft()
            self._read(record, peer, number)
            if peer in self._paused:
                self._paused[peer].extend(paused)
                return

    def _read(self, record: Record, peer: int, number: int) -> None:
        match record:
            case Copy():
                self._monitor.hear(record.sender)
                self._pool.receive(record, peer, number)
                return
            case Commit():
                self._abcasts.receive_commit(record, peer, number)
                return
            case Offer():
                self._pool.receive_offer(record, peer, number)
                return
            case Want():
                self._pool.receive_want(record.id, peer)
            case Stub():
                self._pool.receive_stub(record)
            case Ask():
                self._monitor.hear(record.sender)
                self._abcasts.receive_ask(record, peer)
            case Propose():
                self._abcasts.receive_proposal(record, peer)
            case Raise():
                self._abcasts.receive_raise(record)
            case Takeover():
                self._abcasts.receive_takeover(record.ask)
            case Verdict():
                self._casting.take_verdict(record, peer)
            case Answer():
                self._monitor.hear(record.sender)
                self._calls.arrive(record)
            case Missing():
                self._calls.missed(record.process, record.id, record.sender)
            case Watch():
                self._monitor.take_watch(record.process, peer)
            case Over():
                self._monitor.take_over(record.process)
            case Got():
                self._gbcasts.take_got(record.id, peer)
            case WantState():
                self._state.take_want(record)
            case GiveState():
                self._state.take_chunk(record)
            case HasState():
                self._state.take_has(record)
            case Entered():
                view = self._here.view
                if view is None or record.view > view.number:
                    self._paused[peer] = deque([(number, record)])
                    return
            case Marked():
                if not self.is_reached(record):
                    self._paused[peer] = deque([(number, record)])
                    return
        self._receipts.add(peer, number, None)

    def depart(self, sites: Iterable[int]) -> None:
        for site in sites:
            self._paused.pop(site, None)

    def reset(self) -> None:
        self._paused.clear()
        self._early.clear()


def _always(marked: Marked) -> bool:
    return True
