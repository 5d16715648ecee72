"""Members of one configuration, driven by commands: a sent datagram stays in flight until a command delivers it."""

from collections.abc import Callable
from functools import partial

from reconvene.core.effects import Changed, Delivered, Event, Sent
from reconvene.core.evs.configuration import Configuration
from reconvene.core.multicast.multicast import Counters, Multicast
from reconvene.core.multicast.packing import Outbox
from reconvene.core.options import Limits, Options
from reconvene.core.order import make_engine
from reconvene.ids import Service
from reconvene.wire.codec import decode, encode
from reconvene.wire.messages import Alive, Frame, Nack

__all__ = ["Group"]

MS = 1_000_000
NUMBER = 1 << 16


class Member:
    def __init__(self, rank: int, size: int, options: Options) -> None:
        self.events: list[Event] = []
        self.outbox = Outbox(options.limits)
        self.counter = 1
        multicast = Multicast(NUMBER, size, rank, options.timing, options.limits, Counters(), 0)
        members = tuple(range(size))
        engine = make_engine(options, NUMBER, members, rank)
        self.configuration = Configuration(
            NUMBER, members, (1,) * size, multicast, engine, self.events, options.limits.message_bytes
        )
        self.multicast = multicast


class Group:
    """The commands, one method each. The transcript shows what they return."""

    def __init__(self, arguments: list[str]) -> None:
        """members a b c [order=…] [frame=BYTES] [buffer=BYTES]"""
        settings = dict(word.split("=") for word in arguments if "=" in word)
        self.names = [word for word in arguments if "=" not in word]
        limits = Limits(
            frame_bytes=int(settings.get("frame", 8_900)), buffer_bytes=int(settings.get("buffer", 212_992))
        )
        options = Options(order=settings.get("order", "all-ack"), limits=limits)
        self.members = {name: Member(rank, len(self.names), options) for rank, name in enumerate(self.names)}
        self.now = 0
        self.wire: list[tuple[str, str, bytes]] = []
        """(label, to, bytes) of each datagram in flight. The same label twice means two copies."""
        self.commands: dict[str, Callable[[list[str]], list[str]]] = {
            "send": self.send, "deliver": self.deliver, "copy": partial(self.deliver, keep=True), "lose": self.lose,
            "wait": self.wait, "status": self.status, "wire": self.on_the_way,
        }  # fmt: skip

    # -- commands

    def send(self, arguments: list[str]) -> list[str]:
        """send NAME SERVICE TEXT…: sends all of them in one turn; TEXT*N repeats a letter N times."""
        name, service, *texts = arguments
        for text in texts:
            letter, _, times = text.partition("*")
            self.members[name].outbox.submit(Service[service.upper()], letter.encode() * int(times or 1))
        return self.turn(name)

    def deliver(self, arguments: list[str], keep: bool = False) -> list[str]:
        """deliver LABEL… [to NAME…]: to these, or to all its receivers. `all`: everything, until nothing is in
        flight."""
        labels, receivers = self._addressed(arguments)
        lines: list[str] = []
        if labels == ["all"]:
            while found := [packet for packet in self.wire if packet[1] in receivers]:
                lines += self._hand_over(found[0], keep)
            return lines
        for label in labels:
            found = [packet for packet in self.wire if packet[0] == label and packet[1] in receivers]
            if not found:
                return [f"{label} is not on its way"]
            for packet in found:
                lines += self._hand_over(packet, keep)
        return lines

    def lose(self, arguments: list[str]) -> list[str]:
        labels, receivers = self._addressed(arguments)
        self.wire = [
            packet
            for packet in self.wire
            if packet[1] not in receivers or not (packet[0] in labels or labels == ["all"])
        ]
        return []

    def wait(self, arguments: list[str]) -> list[str]:
        """wait MS: every member whose deadline passes takes a turn at it."""
        until = self.now + int(arguments[0].removesuffix("ms")) * MS
        lines: list[str] = []
        while True:
            due = [
                (at, name)
                for name, member in self.members.items()
                if (at := member.configuration.deadline()) is not None and at <= until
            ]
            if not due:
                break
            self.now, name = min(due)
            lines += self.turn(name)
        self.now = until
        return lines

    def status(self, arguments: list[str]) -> list[str]:
        lines: list[str] = []
        for name in arguments:
            multicast = self.members[name].multicast
            multicast.invariants()
            lines.append(f"{name} has {self._vector(multicast.received)}, stable {self._vector(multicast.stable)}")
            early = [f"{self.names[q]}.{seq}" for q, seq in multicast.extras()]
            if early:
                lines.append(f"{name} holds {' '.join(early)}")
            waiting = len(self.members[name].outbox)
            if waiting:
                lines.append(f"{name} has {waiting} waiting to be sent")
        return lines

    def on_the_way(self, arguments: list[str]) -> list[str]:
        return [f"{label} to {to}" for label, to, _ in self.wire] or ["nothing"]

    # -- a turn

    def turn(self, name: str) -> list[str]:
        member = self.members[name]
        outs, member.counter = member.configuration.turn(member.outbox, member.counter, self.now)
        lines = self._heard(name)
        for rank, datagram in outs:
            to = [other for other in self.names if other != name] if rank is None else [self.names[rank]]
            lines.append(self._put(name, to, datagram))
        return lines

    def _hand_over(self, packet: tuple[str, str, bytes], keep: bool) -> list[str]:
        if not keep:
            self.wire.remove(packet)
        _, name, data = packet
        multicast = self.members[name].multicast
        before = multicast.received.copy()
        lines: list[str] = []
        match decode(data):
            case Frame() as frame:
                multicast.receive(frame, self.now)
            case Alive() as alive:
                multicast.hear(alive, self.now)
            case Nack() as nack:
                asker = self.names[nack.sender]
                for frame in multicast.answer(nack, self.now):
                    self._put(name, [asker], frame)
                    lines.append(f"{name} resends {self._label(frame)} to {asker}")
        accepted = [f"{self.names[f.sender]}.{f.seq}" for f in multicast.accepted]
        if accepted and before != multicast.received:
            lines.append(f"{name} accepts {' '.join(accepted)}")
        return lines + self.turn(name)

    def _heard(self, name: str) -> list[str]:
        lines: list[str] = []
        for event in self.members[name].events:
            if isinstance(event, Delivered):
                texts = " ".join(_short(payload) for payload in event.payloads)
                lines.append(f"{name} delivers {event.service.label} {texts}")
            assert not isinstance(event, Changed)
            assert isinstance(event, Delivered | Sent)
        self.members[name].events.clear()
        return lines

    # -- words

    def _put(self, name: str, to: list[str], datagram: Frame | Alive | Nack) -> str:
        label = self._label(datagram)
        data = encode(datagram)
        self.wire += [(label, other, data) for other in to]
        match datagram:
            case Frame():
                acks = [
                    f"{self.names[q]}.{seq}" for q, seq in zip(datagram.acks[::2], datagram.acks[1::2], strict=True)
                ]
                part = ("", " (fragment)", " (last fragment)")[datagram.part]
                content = " ".join(map(_short, datagram.messages)) or "note"
                asks = ", asks" if datagram.ask else ""
                return f"{name} sends {label} acks {' '.join(acks) or '-'}: {content}{part}{asks}"
            case Alive():
                asks = ", asks" if datagram.ask else ""
                return f"{name} is alive up to {datagram.seq}, has {self._vector(datagram.acks)}{asks}"
            case Nack(wants=wants):
                asked = [
                    f"{self.names[q]}.{low}" + (f"-{high}" if high > low else "")
                    for q, low, high in zip(wants[::3], wants[1::3], wants[2::3], strict=True)
                ]
                return f"{name} nacks {' '.join(asked)} to {' '.join(to)}"

    def _label(self, datagram: Frame | Alive | Nack) -> str:
        name = self.names[datagram.sender]
        match datagram:
            case Frame():
                return f"{name}.{datagram.seq}"
            case Alive():
                return f"{name}.alive"
            case Nack():
                return f"{name}.nack"

    def _vector(self, values: list[int]) -> str:
        return " ".join(f"{name}.{value}" for name, value in zip(self.names, values, strict=True))

    def _addressed(self, arguments: list[str]) -> tuple[list[str], list[str]]:
        if "to" in arguments:
            place = arguments.index("to")
            return arguments[:place], arguments[place + 1 :]
        return arguments, self.names


def _short(payload: bytes) -> str:
    text = payload.decode()
    return text if len(text) <= 8 else f"{text[0]}*{len(text)}"
