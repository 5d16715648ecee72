"""A simulated follower of the log: the same core as in a real process, between a simulated disk and connections."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from random import Random

from reconvene.corel.events import LogEvent
from reconvene.corel.following.follower import Follower, first_follower_ops
from reconvene.corel.following.messages import BaseAnswer, PieceAnswer, Pulled
from reconvene.corel.following.pulling import Connect, HangUp, LinkAction, Pulling, Timing
from reconvene.corel.following.source import Source
from reconvene.corel.limits import LogLimits
from reconvene.sim.calls import Connection, End
from reconvene.sim.log_server import LogServer
from reconvene.sim.loop import NEVER, Loop
from reconvene.sim.remote import EPOCH_NS, Remote
from reconvene.stack.turn import Write
from reconvene.trace.events import Row
from reconvene.trace.log_past import log_past
from reconvene.trace.log_recorder import LogRecorder

__all__ = ["LIMITS", "FollowerNode"]

MS = 1_000_000
LIMITS = LogLimits(turn_bytes=64 << 10, turn_messages=24)
_TIMING = Timing(retry_ns=100 * MS, patience_ns=1_000 * MS, patience_most_ns=16_000 * MS, prefer_ns=2_000 * MS)


class FollowerNode(Remote):
    """`sources`: the processes that it may pull from, best first; `follower`: tests put another in its place."""

    kind = "follower"

    def __init__(
        self,
        name: str,
        ordinal: int,
        loop: Loop,
        random: Random,
        rows: list[Row],
        sources: Callable[[], Sequence["End"]],
        follower: type[Follower] = Follower,
    ) -> None:
        super().__init__(name, ordinal, loop, random, rows)
        self.pulling: Pulling | None = None
        self._sources = sources
        self._make = follower
        self._limits = LIMITS
        self._source: Source | None = None
        self._log_recorder: LogRecorder
        self._actions: list[LinkAction] = []
        self.server = LogServer(self, loop, lambda: self._source)

    @property
    def up(self) -> bool:
        return self.pulling is not None

    @property
    def step(self) -> str:
        return "down" if self.pulling is None else self.pulling.step

    @property
    def _core(self) -> Pulling:
        assert self.pulling is not None, f"{self.name} is down"
        return self.pulling

    def begin(self) -> None:
        identity = sha256(self.name.encode()).digest()[:8]
        self.disk.put(first_follower_ops(self.disk, identity, self.incarnation, self.incarnation))
        follower = self._make(self.name, self.incarnation, self.disk, self._limits)
        names = [str(end.ordinal) for end in self._sources()]
        pulling = self.pulling = Pulling(follower, self.name, names, self.now, _TIMING)
        self._source = Source(follower, lambda: follower.origin, pulling.chain, lambda: pulling.head, pulling.expect)
        self._log_recorder = LogRecorder(self._recorder, follower.name_of)
        self._log_recorder.catch_up_green(self.now, log_past(self._rows), follower)

    def end(self) -> None:
        self.pulling = self._source = None
        self._actions = []
        self.server.crashed()

    def deadline(self) -> int:
        return NEVER if self.pulling is None else self.pulling.deadline()

    def tick(self, now: int) -> None:
        self._core.tick(now)

    def synced(self, token: int, now: int) -> None:
        self._core.synced(token)

    def flush(self, now: int) -> tuple[list[Write], list[LogEvent]]:
        turn = self._core.flush(now, EPOCH_NS + now)
        self._actions += turn.link
        return [Write(turn.token, turn.ops)] if turn.token else [], turn.events

    def record(self, now: int, events: Sequence[LogEvent]) -> None:
        self._log_recorder.events(now, events)

    def perform(self) -> None:
        actions, self._actions = self._actions, []
        for action in actions:
            match action:
                case Connect(source=source):
                    self.connect(self._sources()[source])
                case HangUp():
                    self.disconnect()
                case ask:
                    self.send(ask)
        self.server.look()

    def opened(self) -> None:
        self._core.opened(self.now)

    def broken(self, reason: str) -> None:
        self._core.broken(reason, self.now)

    def heard(self, connection: Connection, message: object) -> None:
        if LogServer.is_asked(message):
            self.server.asked(connection, message)  # type: ignore[arg-type]  # an Ask
            self.turn()
        elif connection is self._connection:
            assert isinstance(message, Pulled | BaseAnswer | PieceAnswer)
            self._core.answered(message, self.now)
            self.turn()

    def lost(self, connection: Connection) -> None:
        self.server.lost(connection)
        super().lost(connection)
