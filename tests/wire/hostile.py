"""Datagrams that a broken or malicious member might send, and sites to send them to, in every phase."""

import sys
from collections.abc import Callable, Iterator
from enum import Enum
from random import Random

from msgspec import Raw, Struct, msgpack
from tests.core.hand import Hand

from reconvene.core.options import Limits, Options
from reconvene.core.site import Site
from reconvene.ids import Service, configuration_number, counter_of
from reconvene.wire.codec import encode
from reconvene.wire.messages import (
    VERSION,
    Alive,
    Beacon,
    Datagram,
    Frame,
    Nack,
    Packet,
    Progress,
    Propose,
    Rebroadcast,
    Relay,
    Report,
    State,
)

__all__ = ["STEPS", "Liar", "Target", "reach", "weight"]

VICTIM = "b"
STEPS = (
    "operational",
    "gathering",
    "forming: sync",
    "forming: states",
    "recovering: exchange",
    "recovering: wait",
)
HUGE = (0, 1, 2, 7, 63, 64, 4_095, 8_192, 2**31, 2**32, 2**40, 2**61, 2**62)

SMALL = Limits(
    frame_bytes=1_000, message_bytes=8_000, buffer_bytes=20_000, early_frames=50, ahead_frames=64, queue_messages=100
)


class Target:
    """One site taken out of its cluster, with datagrams that were in flight in the cluster."""

    def __init__(self, site: Site, now: int, recorded: list[bytes]) -> None:
        self.site = site
        self.now = now
        self.recorded = recorded
        self.sent = 0

    def feed(self, data: bytes, flush: bool = True) -> None:
        site = self.site
        self.now += 50_000
        site.receive(data, self.now)
        if flush:
            self.turn()

    def turn(self) -> None:
        effects = self.site.flush(self.now)
        self.site.drop_packets()
        assert self.site.deadline() >= 0
        self.sent += sum(len(data) for _, data in effects.datagrams)
        for persist in effects.persist:
            self.site.synced(persist.token, self.now)


def reach(step: str, order: str = "atop") -> Target:
    """A site that has reached this step of this phase."""
    hand = Hand("abcd", Options(order=order, limits=SMALL))
    recorded: list[bytes] = []
    hand.on_send = lambda packet: recorded.append(packet.data)
    hand.wait_together()
    for name in "abcd":
        for service in Service:
            hand.submit(name, service, f"{name}{service}".encode())
    hand.run(30)
    if step == "recovering: exchange":
        hand.lose.append(lambda packet: packet.kind == "frame" and packet.source == "d" and packet.to == VICTIM)
        hand.lose.append(lambda packet: packet.kind in ("nack", "rebroadcast"))
        hand.submit("d", Service.AGREED, b"lost")
        hand.run(2)
    if step == "forming: sync":
        hand.slow_disks.add(VICTIM)
    lost = {"forming: states": "state", "recovering: wait": "progress", "gathering": "propose"}.get(step)
    hand.lose.append(lambda packet: packet.to == VICTIM and packet.kind == lost)
    if step == "gathering":
        hand.lose.append(lambda packet: packet.to == VICTIM and packet.kind == "state")
    if step != "operational":
        hand.partition("abc", "d")
    hand.until(lambda: hand.sites[VICTIM].step == step)
    return Target(hand.sites[VICTIM], hand.now, recorded)


class Liar:
    """Makes datagrams from a site's state: real ones changed a little, and well-formed ones with false contents."""

    def __init__(self, target: Target, random: Random) -> None:
        self.site = target.site
        self.recorded = target.recorded
        self.random = random
        self.makers: list[Callable[[], Datagram]] = [
            self.frame, self.alive, self.nack, self.beacon, self.propose, self.state, self.progress,
            self.rebroadcast, lambda: Relay(self.frame()), self.packet,
        ]  # fmt: skip

    def next(self) -> bytes:
        random = self.random
        match random.randrange(6):
            case 0:
                return self.mutated(random.choice(self.recorded))
            case 1:
                return self.changed(random.choice(self.recorded))
            case _:
                return encode(random.choice(self.makers)())

    def mutated(self, data: bytes) -> bytes:
        """Bits flipped, cut short, or doubled in part."""
        random = self.random
        out = bytearray(data)
        for _ in range(random.randrange(4)):
            out[random.randrange(len(out))] ^= 1 << random.randrange(8)
        if random.randrange(4) == 0:
            out = out[: random.randrange(len(out))]
        return bytes(out)

    def changed(self, data: bytes) -> bytes:
        """Still an array, one element of it replaced."""
        fields = msgpack.decode(data)
        fields[self.random.randrange(1, len(fields))] = self.random.choice(
            [self.number(), -1, [], [self.number()], b"", True, None, [[]], {}]
        )
        return msgpack.encode(fields)

    # -- values near the truth

    def number(self) -> int:
        return self.random.choice(HUGE) if self.random.random() < 0.3 else self.random.randrange(12)

    def conf(self) -> int:
        changes = self.site.changes
        near = [self.site.current.number] * 4 + [changes.answered] * 3
        near.append(configuration_number(counter_of(changes.answered) + 1, self.random.randrange(4)))
        return self.random.choice(near)

    def site_or_rank(self) -> int:
        return self.random.choice((0, 1, 2, 3, 3, 2, 0, 4, 63))

    def vector(self, sane: float = 0.8) -> list[int]:
        if self.random.random() < sane:
            received = self.site.current.multicast.received
            return [max(0, value + self.random.randrange(-2, 3)) for value in received]
        return [self.number() for _ in range(self.random.randrange(7))]

    def pairs(self, most: int = 4) -> list[int]:
        out: list[int] = []
        for _ in range(self.random.randrange(most)):
            out += (self.site_or_rank(), self.number())
        return out + [0] * (self.random.random() < 0.1)

    def ranges(self) -> list[int]:
        out: list[int] = []
        for _ in range(self.random.randrange(4)):
            out += (self.site_or_rank(), self.number(), self.number())
        return out + [0] * (self.random.random() < 0.1)

    # -- messages

    def frame(self) -> Frame:
        random = self.random
        current = self.site.current
        sender = random.randrange(max(len(current.members), 1))
        seq = max(1, current.multicast.received[sender] + random.randrange(-1, 4))
        # The slot for which the engine waits, so that it may use the false frame.
        place = getattr(current.engine, "_places", [current.multicast.clock + 1] * 64)[sender]
        slot = random.choice((-1, self.number(), place & 2**62 - 1))
        acks = self.pairs() if random.random() < 0.2 else []
        return Frame(
            self.conf(), sender, seq, current.multicast.clock + random.randrange(-1, 4) if random.random() < 0.9
            else self.number(), acks, random.randrange(4), random.choice((0, 0, 1, 2)), self.number(),
            [b"x" * random.randrange(20)] * random.randrange(3), random.choice((0, 0, self.number())), slot,
            random.choice((0, self.number())), self.vector() if random.random() < 0.1 else [],
            random.choice(([], [0, self.number()], [self.number()])), random.choice((0, self.number())),
            random.random() < 0.2,
        )  # fmt: skip

    def alive(self) -> Alive:
        acks = self.vector()
        sender = self.site_or_rank()
        seq = acks[sender] if sender < len(acks) else self.number()
        return Alive(self.conf(), sender, seq, self.number(), acks, self.number(), self.random.random() < 0.5)

    def nack(self) -> Nack:
        return Nack(self.conf(), self.site_or_rank(), self.ranges())

    def report(self) -> Report:
        random = self.random
        site = random.randrange(4)
        known = self.site.changes.hearing.reports.get(site)
        inc = known.inc if known is not None else 1
        return Report(
            site, inc + (random.random() < 0.02), random.randrange(100_000), random.randrange(64), self.conf(),
            random.choice((0, self.conf())), random.random() < 0.3, self.conf(),
        )  # fmt: skip

    def beacon(self) -> Beacon:
        reports = encode([self.report() for _ in range(self.random.randrange(4))])
        if self.random.random() < 0.1:
            reports = msgpack.encode(self.random.choice([0, [[]], [[1, 2]], {}, None]))
        return Beacon(
            VERSION, self.random.randrange(5), 1, self.number(), self.ranges(), self.number(), Raw(reports),
            self.random.random() < 0.3,
        )  # fmt: skip

    def members(self) -> tuple[list[int], list[int]]:
        members = sorted(self.random.sample(range(5), self.random.randrange(5)))
        if self.site.changes.round is not None and self.random.random() < 0.8:
            members = list(self.site.changes.round.members)
        incarnations = self.site.changes.hearing.incarnations
        return members, [incarnations[site] if site < len(incarnations) else 1 for site in members]

    def propose(self) -> Propose:
        return Propose(self.conf(), self.site_or_rank(), *self.members())

    def state(self) -> State:
        current = self.site.current
        size = len(current.members)
        known = [self.vector(0.98) for _ in range(size)]
        old = list(current.members) if self.random.random() < 0.9 else self.members()[0]
        return State(
            self.conf(), self.site_or_rank(), *self.members(), self.number(), self.conf(), old, self.vector(0.95),
            self.pairs(), known, self.vector(0.95), self.number(),
        )  # fmt: skip

    def progress(self) -> Progress:
        return Progress(self.conf(), self.site_or_rank(), 1, self.number(), self.ranges(), self.random.random() < 0.5)

    def rebroadcast(self) -> Rebroadcast:
        frame = self.frame()
        recovery = self.site.changes.recovery
        if recovery is not None and recovery.lacking and self.random.random() < 0.7:
            frame.sender, frame.seq = self.random.choice(sorted(recovery.lacking))
            frame.conf = self.site.current.number
        return Rebroadcast(self.conf(), frame)

    def packet(self) -> Packet:
        random = self.random
        return Packet(
            self.site_or_rank(), self.number(), self.number(), self.number(), self.number(), self.number(),
            self.number(), self.number(), self.number(), self.number(), self.number(), self.number(),
            random.randrange(3), [b"x" * random.randrange(20)] * random.randrange(3), random.random() < 0.1,
            random.random() < 0.1,
        )  # fmt: skip


def weight(root: object) -> int:
    """Bytes of all objects that are reachable from it and that it could have made."""
    seen: set[int] = set()
    stack = [root]
    total = 0
    while stack:
        thing = stack.pop()
        if id(thing) in seen or isinstance(thing, type | Enum):
            continue
        seen.add(id(thing))
        total += sys.getsizeof(thing)
        stack += _parts(thing)
    return total


def _parts(thing: object) -> Iterator[object]:
    if isinstance(thing, dict):
        yield from thing.keys()
        yield from thing.values()
    elif isinstance(thing, Struct):
        yield from (getattr(thing, name) for name in thing.__struct_fields__)
    elif hasattr(thing, "__iter__") and not isinstance(thing, str | bytes | Raw) and hasattr(thing, "__len__"):
        yield from thing
    elif type(thing).__module__.startswith("reconvene"):
        slots = [name for cls in type(thing).__mro__ for name in getattr(cls, "__slots__", ())]
        yield from (getattr(thing, name) for name in {*getattr(thing, "__dict__", ()), *slots} if name != "__dict__")
