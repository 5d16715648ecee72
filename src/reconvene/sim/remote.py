"""A simulated process beside the sites: a follower or an outpost of the log. It has a disk and a clock of its own, is
in no configuration, and reaches the sites and others of its kind over connections (`sim.calls`).

Given: what `sim.node.Node` is given by scenarios and chaos. Promised: the same: only what was synced is there after a
crash, timers are never early, nothing happens while it is paused. What kind of process it is, a subclass says.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from random import Random

from reconvene.corel.events import LogEvent
from reconvene.sim.calls import Calls, Connection, End
from reconvene.sim.disk import Disk
from reconvene.sim.isis_application import NodeProcesses
from reconvene.sim.loop import NEVER, Loop
from reconvene.stack.turn import Write
from reconvene.trace.events import Row
from reconvene.trace.recorder import Recorder

__all__ = ["EPOCH_NS", "Remote"]

EPOCH_NS = 1_700_000_000_000_000_000
"""The simulated clocks' midnight, as ns since 1970."""
_OPENING_NS = 1_000_000
"""Until a connection is there, or was refused."""
_MOST_TURNS = 1_000
"""At one instant: else a process that always wants another turn would stop time."""


class Remote(ABC):
    """`up` says whether its process runs. It is an end of connections (`sim.calls.End`)."""

    kind = "remote"

    def __init__(self, name: str, ordinal: int, loop: Loop, random: Random, rows: list[Row]) -> None:
        """`ordinal`: in the network, above those of all nodes. `rows`: where it records."""
        self.name = name
        self.ordinal = ordinal
        self.loop = loop
        self.disk = Disk(loop, random, self._synced)
        self.paused = False
        self.offset = 0
        """This process's clock, less the loop's time."""
        self.submitted = 0
        self.processes: NodeProcesses | None = None
        """It never has any."""
        self.incarnation = 0
        self.calls: Calls
        self._rows = rows
        self._recorder = Recorder(name, (name,), rows)
        self._random = random
        self._connection: Connection | None = None
        """The one that it opened; None: none, or it was closed or lost."""
        self._held_tokens: list[int] = []
        self._timer_at = NEVER
        self._doomed = False
        self._doom_sync: tuple[Callable[[], None], bool] | None = None
        self._turned = (-1, 0)

    def join(self, calls: Calls) -> None:
        """Completes the making of a cluster, whose parts refer to each other."""
        self.calls = calls

    # -- what a kind of process is

    @property
    @abstractmethod
    def up(self) -> bool: ...

    @property
    @abstractmethod
    def step(self) -> str:
        """Where it is, in words, for tables of what was tested."""

    @property
    def waiting(self) -> int:
        """Messages that the application holds because there is no room for them."""
        return 0

    @abstractmethod
    def begin(self) -> None:
        """The process starts: it has its incarnation, and its disk as it was synced."""

    @abstractmethod
    def end(self) -> None:
        """The process is gone, with all that it had in memory."""

    @abstractmethod
    def deadline(self) -> int:
        """By its own clock: when it wants a turn though nothing happens."""

    @abstractmethod
    def tick(self, now: int) -> None:
        """The deadline has come."""

    @abstractmethod
    def synced(self, token: int, now: int) -> None: ...

    @abstractmethod
    def flush(self, now: int) -> tuple[list[Write], list[LogEvent]]:
        """Ends a turn: what is to be written, and what happened, which is recorded. Then `perform` is called."""

    @abstractmethod
    def record(self, now: int, events: Sequence[LogEvent]) -> None: ...

    @abstractmethod
    def perform(self) -> None:
        """Sends what the turn has to send. It is not called where the process crashes before that."""

    def append(self, messages: Iterable[bytes]) -> bool:
        """From the application. False: this kind of process takes none."""
        return False

    def drop_waiting(self) -> int:
        return 0

    @abstractmethod
    def opened(self) -> None:
        """The connection that it asked for is there. A turn follows."""

    @abstractmethod
    def broken(self, reason: str) -> None:
        """The connection that it asked for was refused, or is lost. A turn follows."""

    @abstractmethod
    def heard(self, connection: Connection, message: object) -> None:
        """Over a connection, also to one that others have opened. Ends with a turn."""

    def lost(self, connection: Connection) -> None:
        """A connection is gone, also one that others have opened."""
        if connection is self._connection:
            self._connection = None
            self.broken("the connection broke")
            self.turn()

    # -- the process

    @property
    def now(self) -> int:
        return self.loop.now + self.offset

    @property
    def doomed(self) -> bool:
        return self._doomed or self._doom_sync is not None

    def start(self) -> None:
        assert not self.up, f"{self.name} is up"
        self.incarnation += 1
        self._recorder.begin(self.incarnation)
        self.begin()
        self.turn()

    def crash(self) -> None:
        assert self.up, f"{self.name} is down"
        self._recorder.fail(self.now)
        self.end()
        self._connection = None
        self.calls.crashed(self)
        self.paused = False
        self.disk.crash()
        self._held_tokens.clear()
        self._timer_at = NEVER
        self._doomed = False
        self._doom_sync = None

    def doom(self, copies: int | None) -> None:
        """Crash in the next turn, before anything of it is sent. None cancels every planned crash."""
        self._doomed = copies is not None
        if copies is None:
            self._doom_sync = None

    def doom_sync(self, before: Callable[[], None], *, completes: bool) -> None:
        """Crash at its next write: before it is durable, or, if it `completes`, when it is durable, and the process
        does not know it yet."""
        self._doom_sync = before, completes

    def _crash_at_sync(self, completes: bool) -> bool:
        if self._doom_sync is None or self._doom_sync[1] is not completes:
            return False
        self._doom_sync[0]()
        self.crash()
        return True

    def pause(self) -> None:
        assert self.up, f"{self.name} is down"
        assert not self.paused, f"{self.name} is paused"
        self.paused = True

    def resume(self) -> None:
        assert self.up, f"{self.name} is down"
        assert self.paused, f"{self.name} is not paused"
        self.paused = False
        tokens, self._held_tokens = self._held_tokens, []
        for token in tokens:
            self.synced(token, self.now)
        self.calls.resumed(self)
        if self.up:
            if self.deadline() <= self.now:
                self.tick(self.now)
            self.turn()

    def jump(self, by_ns: int) -> None:
        """The clock jumps forward."""
        assert by_ns >= 0
        self.offset += by_ns
        if self.up and not self.paused:
            self._arm()

    # -- its connection

    def connect(self, to: End) -> None:
        """Opens a connection in place of the one that there is. `opened` or `broken` follows."""
        self._connection = self.calls.open(self, to)
        self.loop.at(self.loop.now + _OPENING_NS, self._opened, (self.incarnation, self._connection))

    def _opened(self, opening: tuple[int, Connection | None]) -> None:
        incarnation, connection = opening
        if incarnation != self.incarnation or not self.up or connection is not self._connection:
            return
        if self.paused:
            self.loop.at(self.loop.now + _OPENING_NS, self._opened, opening)
            return
        if connection is None:
            self.broken("no connection")
        else:
            self.opened()
        self.turn()

    def disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close(self)
            self._connection = None

    def send(self, message: object) -> None:
        """Over its connection; without one it is dropped."""
        if self._connection is not None:
            self._connection.send(self, message)

    # -- turns

    def turn(self) -> None:
        """Ends a turn: what it wants written is handed to the disk, what happened is recorded, then it sends."""
        assert self.up
        assert not self.paused
        at, count = self._turned
        self._turned = (self.loop.now, count + 1 if at == self.loop.now else 1)
        assert self._turned[1] < _MOST_TURNS, f"{self.name} wants one turn after the other at {self.loop.now}"
        now = self.now
        writes, events = self.flush(now)
        if writes:
            self.disk.write(writes)
        self.record(now, events)
        if self._doomed:
            self.crash()
            return
        self.perform()
        if writes and self._crash_at_sync(completes=False):
            return
        self._arm()

    def _synced(self, token: int) -> None:
        if self.paused:
            self._held_tokens.append(token)
        elif not self._crash_at_sync(completes=True):
            self.synced(token, self.now)
            self.turn()

    def _arm(self) -> None:
        at = max(self.deadline() - self.offset, self.loop.now)
        if at < self._timer_at:
            self._timer_at = at
            self.loop.at(at, self._timer, at)

    def _timer(self, at: int) -> None:
        if at != self._timer_at:
            return  # an earlier deadline took its place, or the process it belonged to is gone
        self._timer_at = NEVER
        if not self.up or self.paused:
            return
        if self.deadline() <= self.now:
            self.tick(self.now)
            self.turn()
        else:
            self._arm()
