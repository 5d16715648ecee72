"""Records and control messages that a broken member might send, in the midst of honest work."""

from random import Random

from msgspec import msgpack, structs
from tests.isis.hand import Hand

from reconvene.core.groups.events import Process
from reconvene.errors import Malformed, Rejected, Unavailable
from reconvene.isis.events import ALL, CastId
from reconvene.isis.isis import Isis
from reconvene.isis.messages import (
    Action,
    Announce,
    Answer,
    Ask,
    AttemptId,
    Commit,
    Control,
    Copy,
    Decided,
    Entered,
    FlushedSite,
    GiveState,
    Got,
    GroupEntry,
    MemberEntry,
    Offer,
    OpenEntry,
    Priority,
    Propose,
    Raise,
    Ready,
    Record,
    StoredView,
    Stub,
    Table,
    Takeover,
    Verdict,
    Want,
    WantState,
    decode_control,
    decode_record,
    encode_control,
    encode_record,
)

__all__ = ["SITES", "Busy", "Liar"]

SITES = "abcd"
_GROUPS = ("bank", "till", "tap")
_HUGE = (0, 1, 2, 7, 63, 4_096, 2**31, 2**40, 2**61, 2**62)


class Busy(Hand):
    """Sites whose processes do everything that processes do, while the site view changes."""

    def __init__(self, random: Random, made: type[Isis] = Isis) -> None:
        super().__init__(SITES, made=made)
        self.random = random
        self.install(SITES)
        for site in SITES:
            self.open(site, "bank", answers=site in "bd", state=True)
            self.open(site, *(_GROUPS[1:] if site in "ab" else ()), state=site in "bd")
        self.lost = lambda: random.random() < 0.1

    def processes(self) -> list[Process]:
        return [process for isis in self.sites.values() for process in isis.delivery.locals]

    def act(self) -> None:
        """Something honest."""
        random = self.random
        process, group = random.choice(self.processes()), random.choice(_GROUPS)
        isis = self.at(process)
        to = group if random.random() < 0.7 else random.sample(self.processes(), 2)
        replies = random.choice((0, 0, 1, ALL))
        try:
            match random.randrange(9):
                case 0 | 1:
                    isis.cbcast(process, to, b"c" * random.randrange(50), random.choice((None, "x", {})), replies)
                case 2:
                    isis.abcast(process, to, b"a", random.choice(("", "x")), replies=replies)
                case 3:
                    isis.abcast(process, to, b"b", "x", causal=True, replies=replies)
                case 4:
                    isis.gbcast(process, group, b"g")
                case 5:
                    isis.join(process, group)
                case 6:
                    isis.leave(process, group)
                case 7:
                    isis.flush(process)
                case _ if random.random() < 0.1:
                    isis.kill(process)
                    isis.open(state=random.random() < 0.5)
        except (Rejected, Unavailable):
            pass

    def change(self) -> None:
        """One site is lost, or all come together."""
        if self.members == SITES:
            self.install(SITES.replace(self.random.choice(SITES), ""))
        else:
            self.install(SITES)


class Liar:
    def __init__(self, busy: Busy, random: Random) -> None:
        self.busy = busy
        self.random = random
        self.records: list[bytes] = []
        """Honest ones that were sent."""
        for isis in busy.sites.values():
            self._overhear(isis)
        busy.brings = self.brings  # type: ignore[method-assign]

    def _overhear(self, isis: Isis) -> None:
        send = isis.here.send

        def heard(site: int, record: Record) -> int:
            self.records = [*self.records[-200:], encode_record(record)]
            return send(site, record)

        isis.here.send = heard  # type: ignore[method-assign]

    def brings(self, name: str) -> bytes:
        """Of one in four sites something else than the truth."""
        data = self.busy.sites[name].brings()
        match self.random.randrange(8):
            case 0:
                return self.mutated(data)
            case 1:
                return self.changed(data)
            case _:
                return data

    def lie(self) -> str:
        """From one site to another, or to all. Returns what was said."""
        random, busy = self.random, self.busy
        liar = random.choice(busy.members)
        if random.random() < 0.25:
            payload = self.control()
            busy.submit(liar, payload)
            return f"{liar} to all: {_shown(payload, control=True)}"
        peers = busy.sites[liar].channels.peers
        if not peers:
            return ""
        peer, record = random.choice(peers), self.record()
        busy.sites[liar].channels.send(peer, record)
        return f"{liar} to {SITES[peer]}: {_shown(record, control=False)}"

    def record(self) -> bytes:
        random = self.random
        match random.randrange(5) if self.records else 4:
            case 0:
                return self.mutated(random.choice(self.records))
            case 1:
                return self.changed(random.choice(self.records))
            case 2:
                return random.choice(self.records)  # an honest one, to somebody else or again
            case _:
                return encode_record(self.nonsense())

    def control(self) -> bytes:
        payload = encode_control(self.control_nonsense())
        match self.random.randrange(6):
            case 0:
                return self.mutated(payload)
            case 1:
                return payload[:1] + self.changed(payload[1:])
            case _:
                return payload

    def mutated(self, data: bytes) -> bytes:
        random = self.random
        out = bytearray(data)
        for _ in range(random.randrange(1, 4)):
            out[random.randrange(len(out))] ^= 1 << random.randrange(8)
        return bytes(out[: random.randrange(len(out))]) if random.random() < 0.25 else bytes(out)

    def changed(self, data: bytes) -> bytes:
        """Still an array, one element of it replaced."""
        fields = msgpack.decode(data)
        other = [self.number(), -1, [], [self.number()], b"", "x", True, None, [[]], {}, [1, 1, self.number()]]
        fields[self.random.randrange(len(fields))] = self.random.choice(other)
        return msgpack.encode(fields)

    # -- values near the truth

    def number(self) -> int:
        return self.random.choice(_HUGE) if self.random.random() < 0.2 else self.random.randrange(12)

    def site(self) -> int:
        return self.random.choice((0, 1, 2, 3, 3, 4, 63))

    def process(self) -> Process:
        if self.random.random() < 0.8:
            return self.random.choice(self.busy.processes())
        return Process(self.site(), self.number(), self.number())

    def processes(self) -> list[Process]:
        return [self.process() for _ in range(self.random.randrange(5))]

    def id(self) -> CastId:
        """Of a cast that is open somewhere, or near one."""
        known = [
            cast
            for isis in self.busy.sites.values()
            for cast in (*isis.pool.entries, *isis.abcasts.items, *isis.own.open)
        ]
        if known and self.random.random() < 0.6:
            return self.random.choice(known)
        site = self.random.choice(SITES)
        return CastId(SITES.index(site), 1, max(1, self.busy.sites[site].own.next + self.random.randrange(-3, 4)))

    def priority(self) -> Priority:
        clock = max(isis.here.clock for isis in self.busy.sites.values())
        counter = clock + self.random.randrange(-3, 4) if self.random.random() < 0.8 else self.number()
        return (counter, self.site())

    def group(self) -> str:
        return self.random.choice((*_GROUPS, *_GROUPS, "nowhere", ""))

    def view(self) -> int:
        """Of sites."""
        return self.random.choice((self.busy.number, self.busy.number, self.number()))

    def causes(self) -> list[tuple[int, int, int, int]]:
        return [(*self.id(), self.random.choice((1, 1, 3, 70_000))) for _ in range(self.random.randrange(4))]

    def nonsense(self) -> Record:
        random, id_, attempt, sender = self.random, self.id(), random_attempt(self.random), self.process()
        group = self.group() if random.random() < 0.7 else None
        copy = Copy(
            id_, attempt, sender, [(random.choice(("", "x")), self.number())], self.processes(), group,
            self.number(), random.choice((0, 1, ALL)), self.number(), self.causes(),
            b"lie", random.choice((None, None, "x")), random.random() < 0.3,
        )  # fmt: skip
        ask = Ask(
            id_, attempt, sender, "x", self.processes(), group, self.number(), random.choice((0, 1, ALL)),
            self.number(), b"lie", random.random() < 0.3, random.random() < 0.3, random.choice((0, self.view())),
        )  # fmt: skip
        flag = random.random() < 0.5
        return random.choice(
            (
                copy, copy, Stub(id_, attempt), Offer(id_, attempt), Want(id_), ask, ask, Takeover(ask),
                Propose(id_, attempt, self.priority(), random.choice((0, self.view())), random.random() < 0.2),
                Raise(id_, attempt, self.priority()),
                Commit(id_, attempt, self.priority()),
                Verdict(id_, attempt, random.choice((True, False, None))),
                Answer(id_, sender, random.choice((b"", None)), flag),
                Got(id_),
                WantState(self.group(), self.number(), self.process(), self.process(), self.number()),
                GiveState(self.group(), self.number(), self.process(), self.process(), self.number(), flag, b"lie"),
                Entered(self.view()),
            )
        )  # fmt: skip

    def action(self) -> Action:
        random = self.random
        kind = random.choice(("join", "leave", "failed", "cast", "rank", "set", "delete", "dance"))
        return Action(
            kind, self.group(), self.process(), random.random() < 0.5, random.random() < 0.5,
            self.id() if random.random() < 0.7 else None, b"lie", self.processes(), {"mode": b"ro"}, self.number(),
            random.random() < 0.5, self.stored() if random.random() < 0.5 else None, [self.site()],
        )  # fmt: skip

    def stored(self) -> StoredView:
        return StoredView(self.view(), self.number(), [self.site()])

    def control_nonsense(self) -> Control:
        random = self.random
        casts = [AttemptId(*self.id(), random_attempt(random)) for _ in range(random.randrange(4))]
        announced = max(isis.table.announced for isis in self.busy.sites.values())
        number = max(0, announced + random.randrange(-3, 3))
        ready = Ready(number, self.priority(), casts)
        match random.randrange(5):
            case 0:
                return Announce([self.action() for _ in range(random.randrange(3))])
            case 1:
                return ready
            case 2:
                return FlushedSite(self.view(), self.priority(), casts)
            case 3:
                places = [Commit(self.id(), random_attempt(random), self.priority()) for _ in casts]
                return Decided(self.view(), places, random.random() < 0.5)
            case _:
                groups = [
                    GroupEntry(
                        self.group(), self.number(), self.number(),
                        [MemberEntry(process, False, False) for process in self.processes()], {}, self.number(),
                        [self.action()], {self.site(): self.stored()},
                    )
                    for _ in range(random.randrange(3))
                ]  # fmt: skip
                opened = [
                    OpenEntry(self.number(), self.action(), [(self.site(), ready)])
                    for _ in range(random.randrange(3))
                ]
                return Table(self.view(), groups, opened, number, self.number(), random.random() < 0.5)


def random_attempt(random: Random) -> int:
    return random.choice((0, 0, 0, 1, 2))


def _shown(data: bytes, *, control: bool) -> str:
    try:
        return str(structs.asdict(decode_control(data) if control else decode_record(data)))
    except Malformed:
        return data.hex()
