"""Reliable causal multicast in one configuration, derived from Trans.

Given: datagrams of this configuration, in any order, some lost, some twice.
Promised: every frame that any later frame names is accepted, each sender's in the order of their numbers
and after every frame that its acks name. Frames that all members have are known and dropped. The unstable bytes stay
within the network sliding window.
"""

from dataclasses import dataclass

from reconvene.core.multicast.acks import Acks
from reconvene.core.multicast.nacks import Nacks
from reconvene.core.multicast.packing import FRAGMENT
from reconvene.core.multicast.window import Window
from reconvene.core.options import Limits, Timing
from reconvene.ids import Service
from reconvene.wire.messages import Alive, Frame, Nack

__all__ = ["Counters", "Multicast"]

_AGREED, _SAFE = int(Service.AGREED), int(Service.SAFE)
_CLOCK_JUMP = 1 << 40
"""No clock runs ahead of the others by more than this; one that does would soon be too large for the wire."""
_ACTIVE_NS = 100_000_000
"""A member that sent within this time and two round trips counts as sending, and has a share of the window."""


@dataclass(slots=True)
class Counters:
    """Counts of what was dropped, repeated or asked for: everything outside the normal path."""

    alives: int = 0
    duplicates: int = 0
    malformed: int = 0
    nacks: int = 0
    other_lists: int = 0
    """Ignored beacons of sites whose list of the cluster's sites contradicts this one's."""
    overflow: int = 0
    resent: int = 0
    stale: int = 0


class Multicast:
    def __init__(
        self, number: int, size: int, rank: int, timing: Timing, limits: Limits, counters: Counters, now: int
    ) -> None:
        self.number = number
        self.size = size
        self.rank = rank
        self.clock = 0
        self.known: list[list[int]] = [[0] * size for _ in range(size)]
        """known[i][j]: up to where member i is known to have accepted j's frames."""
        self.received = self.known[rank]
        """Up to where this site has accepted each member's frames: its own row of `known`."""
        self.stable = [0] * size
        """Up to where all members have accepted each member's frames."""
        self.highest = [0] * size
        """The highest number of each member's frames that any frame has named."""
        self.accepted: list[Frame] = []
        """Frames in causal order that the layer above has not taken yet."""
        self.acks = Acks(timing, now)
        self.window = Window(size, limits)
        self.nacks = Nacks(size, timing)
        self.heard: list[tuple[int, int]] = []
        """(member, clock) of alive frames that were counted and the layer above has not taken yet."""
        self._limits = limits
        self._counters = counters
        self._kept: list[dict[int, Frame]] = [{} for _ in range(size)]
        """Accepted and not yet stable."""
        self._early: list[dict[int, Frame]] = [{} for _ in range(size)]
        """Received beyond a gap."""
        self._held = 0
        self._waiting: list[Alive | None] = [None] * size
        """An alive frame that names frames still missing: the last one of each member."""
        self._waits = False
        """There may be some."""
        self._claims: list[list[int]] = [[0] * size for _ in range(size)]
        """Like `known`, from frames and alive frames that still wait: which members to ask for missing frames."""
        self._told = [0] * size
        """What this site's numbered frames have acknowledged so far."""
        self._moved = True
        self._progress_at = [now] * size
        self._sent_at = [-(1 << 62)] * size
        """When each other member's last frame with messages came."""

    # -- sending

    def compose(self, frame: Frame, size: int, full: bool, now: int) -> None:
        """Numbers an own frame; it is accepted here at once."""
        rank = self.rank
        received = self.received
        told = self._told
        seq = received[rank] + 1
        acks: list[int] = []
        for q, has in enumerate(received):
            if has != told[q] and q != rank:
                acks += (q, has)
        self.clock += 1
        frame.seq = seq
        frame.clock = self.clock
        frame.acks = acks
        received[rank] = self.highest[rank] = seq
        self._kept[rank][seq] = frame
        # Only a numbered frame may shorten the next one's acks: an alive frame can be lost, and edges with it.
        self._told = received.copy()
        self.window.sent(seq, size, full, now)
        frame.ask = self.window.presses
        self.acks.told(now)
        if self.size == 1:
            self._moved = True  # no other member has it yet, so it makes nothing stable
        self.accepted.append(frame)

    def takes(self, size: int, now: int) -> bool:
        """Whether the network sliding window has room for a frame of this size."""
        window = self.window
        since = now - _ACTIVE_NS - 2 * max(self.nacks.round_trip_ns)
        if window.proven_at > since:
            window.senders = 1 + sum(at > since for at in self._sent_at)
        else:
            window.senders = self.size  # after a silence others may begin at the same moment
        return window.takes(size)

    def turn(self, now: int, wanted: bool) -> list[tuple[int | None, Alive | Nack]]:
        """Ends a turn. Returns what to send, to which member (None: all). `wanted`: others wait for this clock."""
        self.settle(now)
        out: list[tuple[int | None, Alive | Nack]] = list(self._due_nacks(now))
        if self.size == 1:
            return out
        ask = self._asks(now)
        if self.acks.due(now) or wanted or ask:
            self.acks.told(now)
            out.append((None, self._alive(ask)))
        elif self.acks.askers:
            out += [(asker, self._alive(False)) for asker in self.acks.take_askers()]
        return out

    def _alive(self, ask: bool) -> Alive:
        self._counters.alives += 1
        own = self.received[self.rank]
        # A copy: the frame may be encoded after this site has accepted more than its acks say.
        acks = self.received.copy()
        return Alive(self.number, self.rank, own, self.clock, acks, self._limits.window_bytes, ask)

    def _asks(self, now: int) -> bool:
        if self.stable == self.received:
            self.acks.progressed()
            return False
        return self.acks.asks(now, max(self.nacks.round_trip_ns))

    def deadline(self) -> int | None:
        at = self.acks.deadline()
        if not self.nacks.pending:
            return at
        due_at = self.nacks.deadline()
        return due_at if at is None else at if due_at is None else min(at, due_at)

    # -- receiving

    def receive(self, frame: Frame, now: int) -> None:
        sender = frame.sender
        seq = frame.seq
        received = self.received
        if not self.sane(frame):
            self._counters.malformed += 1
            return
        if seq <= received[sender] or seq in self._early[sender]:
            self._counters.duplicates += 1
            return
        if seq > received[sender] + self._limits.ahead_frames:
            self._counters.overflow += 1
            return
        if frame.ask:
            self.acks.askers.add(sender)
        if seq > self.highest[sender]:
            self.highest[sender] = seq
        if seq == received[sender] + 1 and self._complete(frame):
            self._accept(frame, now)
            if self._held:
                self._accept_held(now)
            if self._waits:
                self._count_waiting(now)
            return
        self._early[sender][seq] = frame
        self._held += 1
        # A gap that the sender's own later frame shows is a loss; what others name may still be under way.
        if seq - 1 not in self._early[sender]:
            self.nacks.gap(sender, received[sender], seq - 1, sender, now)
        self._note_named(frame.acks, sender, now)

    def hear(self, alive: Alive, now: int) -> None:
        """Takes an alive frame. Its acks count as soon as none of the frames that they name is missing."""
        sender = alive.sender
        if sender >= self.size or sender == self.rank or len(alive.acks) != self.size:
            self._counters.malformed += 1
            return
        if alive.acks[self.rank] > self.received[self.rank] or alive.acks[sender] != alive.seq:
            self._counters.malformed += 1
            return
        if alive.clock - self.clock > _CLOCK_JUMP:
            self._counters.malformed += 1
            return
        if alive.ask:
            self.acks.askers.add(sender)
        self.window.report(sender, alive.buffer)
        if alive.seq > self.received[sender]:
            if alive.seq > self.highest[sender]:
                self.highest[sender] = alive.seq
            self.nacks.gap(sender, self.received[sender], alive.seq, sender, now)
            self._claim(sender, alive.acks)
            waiting = self._waiting[sender]
            if waiting is None or alive.clock > waiting.clock or alive.seq > waiting.seq:
                self._waiting[sender] = alive
                self._waits = True
            return
        self._count(alive, now)

    def _count(self, alive: Alive, now: int) -> None:
        """An alive frame counts: all frames that its acks name are here."""
        sender = alive.sender
        row = self.known[sender]
        acks = alive.acks
        for q in range(self.size):
            if acks[q] > row[q]:
                row[q] = acks[q]
                self._moved = True
                self._progress_at[sender] = now
                if acks[q] > self.highest[q]:
                    self.highest[q] = acks[q]
                    self.nacks.gap(q, self.received[q], acks[q], sender, now)
        if alive.clock > self.clock:
            self.clock = alive.clock
        self.heard.append((sender, alive.clock))

    def _count_waiting(self, now: int) -> None:
        """Alive frames whose frames have come."""
        self._waits = False
        for q in range(self.size):
            waiting = self._waiting[q]
            if waiting is None:
                continue
            if waiting.seq <= self.received[q]:
                self._waiting[q] = None
                self._count(waiting, now)
            else:
                self._waits = True

    def sane(self, frame: Frame) -> bool:
        """Refuses frames that no correct member makes. A false frame that passes can only delay progress."""
        acks = frame.acks
        part = frame.part
        if frame.sender >= self.size or len(acks) & 1 or frame.clock - self.clock > _CLOCK_JUMP:
            return False
        if (frame.slot >= 0) != (frame.service >= _AGREED and part != FRAGMENT and bool(frame.messages)):
            return False
        if part and len(frame.messages) != 1:
            return False
        size, rank = self.size, self.rank
        for i in range(0, len(acks), 2):
            q = acks[i]
            if q >= size or (q == rank and acks[i + 1] > self.received[rank]):
                return False
        return True

    def _complete(self, frame: Frame) -> bool:
        received = self.received
        acks = frame.acks
        for i in range(0, len(acks), 2):
            if received[acks[i]] < acks[i + 1]:
                return False
        return True

    def _accept(self, frame: Frame, now: int) -> None:
        sender = frame.sender
        seq = frame.seq
        row = self.known[sender]
        acks = frame.acks
        for i in range(0, len(acks), 2):
            q = acks[i]
            if acks[i + 1] > row[q]:
                row[q] = acks[i + 1]
        row[sender] = seq
        self.received[sender] = seq
        self._kept[sender][seq] = frame
        if frame.clock > self.clock:
            self.clock = frame.clock
        self._progress_at[sender] = now
        if frame.messages:
            self._sent_at[sender] = now
            if frame.service == _SAFE:
                self.acks.urgent = True
        self._moved = True
        self.acks.owes = True
        if self.nacks.pending:
            self.nacks.progress(sender, seq)
        self.accepted.append(frame)

    def _accept_held(self, now: int) -> None:
        """Frames that waited for the one that was just accepted."""
        moved = True
        while moved and self._held:
            moved = False
            for q in range(self.size):
                early = self._early[q]
                while early:
                    frame = early.get(self.received[q] + 1)
                    if frame is None or not self._complete(frame):
                        break
                    del early[frame.seq]
                    self._held -= 1
                    self._accept(frame, now)
                    moved = True

    def _claim(self, member: int, acks: list[int]) -> None:
        """An alive frame that does not count yet still shows what its sender has."""
        self._claims[member] = list(map(max, self._claims[member], acks))

    def _note_named(self, acks: list[int], namer: int, now: int) -> None:
        """Early loss detection: a frame that can't be accepted yet names others that are missing."""
        claims = self._claims[namer]
        for i in range(0, len(acks), 2):
            q, seq = acks[i], acks[i + 1]
            if seq > claims[q]:
                claims[q] = seq
            if seq > self.highest[q]:
                self.highest[q] = seq
                self.nacks.gap(q, self.received[q], seq, namer, now)

    # -- repair

    def missing(self, q: int) -> list[tuple[int, int]]:
        """Ranges of q's frames that are known to exist and are not here."""
        early = self._early[q]
        ranges: list[tuple[int, int]] = []
        start = self.received[q] + 1
        for seq in [*sorted(early), self.highest[q] + 1]:
            if seq > start:
                ranges.append((start, seq - 1))
            start = seq + 1
        return ranges

    def _due_nacks(self, now: int) -> list[tuple[int, Nack]]:
        """(member to ask, what to ask it for), by member."""
        if not self.nacks.pending:
            return []
        wants: dict[int, list[int]] = {}
        for q, tries in self.nacks.due(now):
            ranges = self.missing(q)
            if not ranges:
                self.nacks.settle(q)
                continue
            target = self._helper(q, ranges[0][0], tries)
            asked = wants.setdefault(target, [])
            for low, high in ranges[:8]:
                asked += (q, low, high)
        self._counters.nacks += len(wants)
        return [(target, Nack(self.number, self.rank, wants[target][:768])) for target in sorted(wants)]

    def _helper(self, q: int, seq: int, tries: int) -> int:
        """The sender first; if it does not answer, the members known to have the frame, in turn."""
        if tries < 2:
            return q
        others = [
            i
            for i in range(self.size)
            if i not in (self.rank, q) and max(self.known[i][q], self._claims[i][q]) >= seq
        ]
        candidates = [*others, q]
        return candidates[(tries - 2) % len(candidates)]

    def answer(self, nack: Nack, now: int) -> list[Frame]:
        """The frames that a member asks for, as far as they are here, up to a limit in bytes."""
        if nack.sender >= self.size or nack.sender == self.rank or len(nack.wants) % 3:
            self._counters.malformed += 1
            return []
        frames: list[Frame] = []
        budget = self.window.bytes
        for i in range(0, len(nack.wants), 3):
            q, low, high = nack.wants[i : i + 3]
            if q >= self.size:
                self._counters.malformed += 1
                return frames
            kept = self._kept[q]
            for seq in range(max(low, self.stable[q] + 1), min(high, self.received[q]) + 1):
                frame = kept[seq]
                weight = sum(map(len, frame.messages)) + 64
                if weight > budget:
                    return frames
                if self.nacks.may_resend(nack.sender, q, seq, now):
                    budget -= weight
                    frames.append(frame)
                    self._counters.resent += 1
        return frames

    # -- stability

    def settle(self, now: int) -> bool:
        """Once a turn: computes what is stable now and forgets it. True if something became stable."""
        if not self._moved:
            return False
        self._moved = False
        if self.size == 1:
            stable = self.received.copy()
        else:
            stable = list(map(min, *self.known))
        if stable == self.stable:
            return False
        for kept, before, after in zip(self._kept, self.stable, stable, strict=True):
            while before < after:
                before += 1
                kept.pop(before, None)
        self.stable = stable
        self.acks.progressed()
        self.window.settled(stable[self.rank], now)
        return True

    def slept(self, gap_ns: int) -> None:
        """This site was paused; the others were not."""
        self._progress_at = [at + gap_ns for at in self._progress_at]

    def stalled(self, now: int, patience_ns: list[int]) -> list[int]:
        """Members whose acks do not advance while others wait for them."""
        found: list[int] = []
        for q in range(self.size):
            row = self.known[q]
            if q == self.rank or all(row[j] >= self.received[j] for j in range(self.size)):
                self._progress_at[q] = now
            elif now - self._progress_at[q] > patience_ns[q]:
                found.append(q)
        return found

    # -- recovery

    def extras(self) -> list[tuple[int, int]]:
        """Frames that are here beyond a gap."""
        return [(q, seq) for q in range(self.size) for seq in sorted(self._early[q])]

    def keep_extras(self, most: int) -> list[tuple[int, int]]:
        """Returns at most this many; drops the rest, as if they had been lost."""
        extras = self.extras()
        for q, seq in extras[most:]:
            del self._early[q][seq]
            self._held -= 1
        return extras[:most]

    def held(self, q: int, seq: int) -> Frame | None:
        return self._kept[q].get(seq) or self._early[q].get(seq)

    def store(self, frame: Frame) -> None:
        """Takes a frame of this configuration after it was frozen; `accept_stored` puts it to use."""
        if frame.seq > self.received[frame.sender] and frame.seq not in self._early[frame.sender]:
            self._early[frame.sender][frame.seq] = frame
            self._held += 1

    def accept_stored(self, now: int) -> None:
        """Accepts all frames that are causally complete; no member here can deliver the rest."""
        self._accept_held(now)

    def invariants(self) -> None:
        assert self.received is self.known[self.rank]
        assert self._held == sum(map(len, self._early))
        for q in range(self.size):
            assert self.stable[q] <= self.received[q]
            assert all(seq > self.received[q] for seq in self._early[q])
            assert len(self._kept[q]) == self.received[q] - self.stable[q]
