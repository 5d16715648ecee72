"""Replicas of the log above a group communication driven by commands: what they send, write and order."""

from collections.abc import Callable

from tests.corel.by_hand import Replicas, Said

from reconvene.corel.batch import messages_of
from reconvene.corel.events import (
    Accepted,
    Adopted,
    Attempted,
    Committed,
    Established,
    Green,
    LogEvent,
    Logged,
    PrimaryLost,
    Recolored,
)
from reconvene.corel.messages import Ack, Claims, Commit, Data, Item, Priority, Ready, Reds, State
from reconvene.quorum import Spec

__all__ = ["Log"]


class Log:
    """Commands, one method each. A configuration is numbered by its place in the transcript."""

    def __init__(self, arguments: list[str]) -> None:
        """replicas p q r [weights=2,1,1]"""
        settings = dict(word.split("=") for word in arguments if "=" in word)
        names = [word for word in arguments if "=" not in word]
        self.lines: list[str] = []
        quorum: Spec = {"kind": "majority"}
        if "weights" in settings:
            weights = map(int, settings["weights"].split(","))
            quorum = {"kind": "weighted", "weights": dict(zip(names, weights, strict=True))}
        self.world = Replicas(names, quorum)
        self.world.on_event = self._event
        self.world.on_said = self._said
        self.quiet = False
        self.commands: dict[str, Callable[[list[str]], None]] = {
            "view": self.view, "append": self.append, "run": self.run, "deliver": self.deliver, "sync": self.sync,
            "disk": self.disk, "hold": self.hold, "crash": self.crash, "start": self.start, "queues": self.queues,
            "quiet": self.hush, "stored": self.stored,
        }  # fmt: skip

    # -- commands

    def view(self, arguments: list[str]) -> None:
        """view p q | r"""
        for component in " ".join(arguments).split("|"):
            self.world.view(*component.split())

    def append(self, arguments: list[str]) -> None:
        name, *texts = arguments
        self.world.append(name, *texts)

    def run(self, arguments: list[str]) -> None:
        """run [NAME…]: delivers and syncs everything."""
        self.world.run(*arguments)

    def deliver(self, arguments: list[str]) -> None:
        """deliver NAME [COUNT]"""
        self.world.deliver(arguments[0], int(arguments[1]) if arguments[1:] else None)

    def sync(self, arguments: list[str]) -> None:
        """sync NAME [COUNT]"""
        self.world.sync(arguments[0], int(arguments[1]) if arguments[1:] else None)

    def disk(self, arguments: list[str]) -> None:
        """disk NAME… by-hand | disk NAME… quick"""
        *names, how = arguments
        if how == "quick":
            self.world.slow -= set(names)
        else:
            self.world.slow |= set(names)

    def hold(self, arguments: list[str]) -> None:
        """hold NAME…: these deliver by the command `deliver` only. Without names: none."""
        self.world.held = set(arguments)

    def crash(self, arguments: list[str]) -> None:
        self.world.crash(arguments[0])

    def start(self, arguments: list[str]) -> None:
        self.world.start(arguments[0])

    def hush(self, arguments: list[str]) -> None:
        """quiet on | quiet off: hides events, or shows them."""
        self.quiet = arguments == ["on"]

    def queues(self, arguments: list[str]) -> None:
        """Green | yellow | red messages, and after + those accepted but not logged."""
        for name in arguments or sorted(self.world.lives):
            waiting = self.world.accepted(name)
            more = f" + {' '.join(waiting)}" if waiting else ""
            self.lines.append(f"{name}: {self.world.queue(name)}{more}".rstrip())

    def stored(self, arguments: list[str]) -> None:
        """The numbers of primary components that the replica knows, and the writes in flight."""
        for name in arguments:
            record = self.world.log(name).record
            self.lines.append(
                f"{name}: attempted {record.last_attempted_primary}, committed {record.last_committed_primary},"
                f" writes under way {len(self.world.lives[name].writes)}"
            )

    # -- events

    def _event(self, name: str, event: LogEvent) -> None:
        match event:
            case Accepted(batch=batch):
                what = f"accepts {self.world.text(name, batch)}"
            case Logged(batch=batch, timestamp=timestamp):
                what = f"logs {self.world.text(name, batch)} at {'.'.join(map(str, timestamp[:2]))}"
            case Recolored(batch=batch, color=color):
                what = f"has {self.world.text(name, batch)} {color.value}"
            case Green(batch=batch, position=position):
                what = f"has {self.world.text(name, batch)} green at {position}"
            case Attempted() | Committed() | Established():
                what = f"{type(event).__name__.lower()} primary {event.primary} of {' '.join(event.members)}"
            case PrimaryLost(primary=primary):
                what = f"lost primary {primary}"
            case Adopted(primary=primary):
                what = f"adopts primary {primary}"
            case _:
                what = type(event).__name__.lower()
        self._line(f"{name} {what}")

    def _said(self, said: Said) -> None:
        match said.content:
            case Data(marked=marked, acknowledged=acknowledged, body=body):
                again = " again" if marked else ""
                what = f"sends {_text(body)}{again}, acknowledging {acknowledged}"
            case Ack(acknowledged=acknowledged):
                what = f"acknowledges {acknowledged}"
            case State() as state:
                has = " ".join(f"{self.world.names[author]}:{last}" for author, last in sorted(state.has.items()))
                what = (
                    f"tells its state: committed {state.last_committed_primary}, attempted"
                    f" {state.last_attempted_primary}, green {state.green}, yellow {state.yellow},"
                    f" has {has or 'nothing'}"
                )
            case Priority(items=items):
                what = f"sends with priority {self._items(items)}"
            case Reds(items=items):
                what = f"sends red {self._items(items)}"
            case Claims(claims=claims):
                what = f"claims {len(claims)}"
            case Ready(primary=primary):
                what = f"attempts {primary}" if primary else "is ready, in no quorum"
            case Commit(primary=primary):
                what = f"commits to {primary}"
            case _:
                what = "sends its base"
        self._line(f"{said.sender} -> {what}")

    def _items(self, items: list[Item]) -> str:
        names = self.world.names
        shown = [
            f"{names[item.id.author]}:{item.id.first} (header)" if item.body is None else _text(item.body)
            for item in items
        ]
        return ", ".join(shown) or "nothing"

    def _line(self, line: str) -> None:
        if not self.quiet:
            self.lines.append(line)


def _text(body: bytes) -> str:
    return " ".join(message.decode() for message in messages_of(body))
