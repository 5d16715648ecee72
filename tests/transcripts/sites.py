"""Whole sites on a network that the transcript controls: configurations form, break and form again."""

from collections.abc import Callable

from tests.core.hand import MS, Hand, Packet, Rule, show_conf, show_number

from reconvene.core.effects import Changed, ConfKind, Delivered, Event, Sent
from reconvene.core.options import Options
from reconvene.ids import Service
from reconvene.wire.messages import Progress, Propose, Rebroadcast, State

__all__ = ["Sites"]


class Sites:
    """The commands, one method each. A datagram arrives after 1 ms unless a rule drops or holds it.

    Numbers of configurations are shown by counter and proposer: 3a is the third counter, proposed by a.
    """

    def __init__(self, arguments: list[str]) -> None:
        """sites a b c [order=…]"""
        settings = dict(word.split("=") for word in arguments if "=" in word)
        names = "".join(word for word in arguments if "=" not in word)
        self.lines: list[str] = []
        self.told: set[str] = set()
        self.shown: set[str] = set()
        self.hand = Hand(names, Options(order=settings.get("order", "all-ack")), start="")
        self.hand.on_event = self._event
        self.hand.on_send = self._sent
        self.commands: dict[str, Callable[[list[str]], None]] = {
            "start": self.start, "restart": self.start, "crash": self.crash, "send": self.send, "run": self.run,
            "until": self.until, "lose": self.lose, "hold": self.hold, "release": self.release,
            "pass": self.pass_all, "partition": self.partition, "heal": self.heal, "disk": self.disk,
            "show": self.show, "status": self.status,
        }  # fmt: skip

    # -- commands

    def start(self, arguments: list[str]) -> None:
        for name in arguments:
            self.hand.start(name)

    def crash(self, arguments: list[str]) -> None:
        self.hand.crash(arguments[0])

    def send(self, arguments: list[str]) -> None:
        name, service, text = arguments
        self.hand.submit(name, Service[service.upper()], text.encode())

    def run(self, arguments: list[str]) -> None:
        self.hand.run(int(arguments[0].removesuffix("ms")))

    def until(self, arguments: list[str]) -> None:
        """until NAME… together  |  until NAME STEP…"""
        if arguments[-1] == "together":
            self.hand.wait_together("".join(arguments[:-1]))
        else:
            step = " ".join(arguments[1:])
            self.hand.until(lambda: self.hand.sites[arguments[0]].step == step)

    def lose(self, arguments: list[str]) -> None:
        """lose KIND [from NAME] [to NAME] [times N]"""
        self.hand.lose.append(_rule(arguments))

    def hold(self, arguments: list[str]) -> None:
        self.hand.hold.append(_rule(arguments))

    def release(self, arguments: list[str]) -> None:
        self.hand.release()

    def pass_all(self, arguments: list[str]) -> None:
        self.hand.lose.clear()

    def partition(self, arguments: list[str]) -> None:
        """partition a b | c"""
        self.hand.partition(*"".join(arguments).split("|"))

    def heal(self, arguments: list[str]) -> None:
        self.hand.heal()

    def disk(self, arguments: list[str]) -> None:
        """disk NAME stalls | disk NAME syncs"""
        name, what = arguments
        if what == "stalls":
            self.hand.slow_disks.add(name)
        else:
            self.hand.slow_disks.discard(name)
            self.hand.sync(name)

    def show(self, arguments: list[str]) -> None:
        """show KIND…: shows these datagrams from now on, and their times (ms)."""
        self.shown = set(arguments)

    def status(self, arguments: list[str]) -> None:
        for name in arguments or sorted(self.hand.sites):
            site = self.hand.sites[name]
            members = " ".join(self.hand.members(name))
            self.lines.append(f"{name}: {site.step} in {show_conf(site.configuration)} {{{members}}}")

    # -- events

    def _event(self, name: str, event: Event) -> None:
        match event:
            case Changed(kind=ConfKind.HIDDEN):
                self.lines.append(f"{name} hidden {show_conf(event.conf)} {self._members(event.members)}")
            case Changed():
                self.lines.append(f"{name} {event.kind.value} {show_conf(event.conf)} {self._members(event.members)}")
            case Delivered():
                texts = " ".join(payload.decode() for payload in event.payloads)
                self.lines.append(f"{name} delivers {event.service.label} {texts} in {show_conf(event.conf)}")
            case Sent():
                self.lines.append(f"{name} originates {event.service.label} in {show_conf(event.conf)}")

    def _sent(self, packet: Packet) -> None:
        if packet.kind not in self.shown:
            return
        names = self.hand.names
        match packet.datagram:
            case Propose() as sent:
                what = f"propose {show_number(sent.number)} {self._members(tuple(sent.members))}"
            case State() as sent:
                what = f"state {show_number(sent.number)} from {show_number(sent.conf)} has {sent.received}"
            case Progress() as sent:
                have = [names[site] for site in range(len(names)) if sent.states >> site & 1]
                what = f"progress {show_number(sent.number)} states {' '.join(have)}"
                what += " recovered" if sent.recovered else f" lacks {sent.missing}"
            case Rebroadcast(frame=frame):
                what = f"rebroadcast frame {frame.seq} of member {frame.sender} of {show_number(frame.conf)}"
            case _:
                what = packet.kind
        self.lines.append(f"{packet.source} -> {packet.to} {what} @{self.hand.now // MS}")

    def _members(self, members: tuple[int, ...]) -> str:
        return "{" + " ".join(self.hand.names[member] for member in members) + "}"


def _rule(arguments: list[str]) -> Rule:
    kind, *rest = arguments
    given = dict(zip(rest[::2], rest[1::2], strict=True))
    left = [int(given.get("times", 1_000_000))]

    def matches(packet: Packet) -> bool:
        fits = (
            packet.kind == kind
            and packet.source in given.get("from", packet.source)
            and packet.to in given.get("to", packet.to)
        )
        if fits and left[0] > 0:
            left[0] -= 1
            return True
        return False

    return matches
