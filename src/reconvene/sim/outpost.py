"""A simulated outpost of the log: the same core as in a real process, between a simulated disk and connections."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from random import Random

from reconvene.corel.events import LogEvent
from reconvene.errors import Unavailable
from reconvene.outpost.forwarding import Refusal
from reconvene.outpost.layout import IDENTITY_BYTES, boot
from reconvene.outpost.limits import OutpostLimits
from reconvene.outpost.outpost import Outpost, OutpostTurn
from reconvene.sim.calls import Connection, End
from reconvene.sim.loop import NEVER, Loop
from reconvene.sim.remote import EPOCH_NS, Remote
from reconvene.stack.turn import Write
from reconvene.trace.events import Row
from reconvene.trace.log_past import log_past
from reconvene.trace.outpost_recorder import OutpostRecorder
from reconvene.wire.client_log import Appended, Confirmed

__all__ = ["LIMITS", "OutpostNode"]

MS = 1_000_000
LIMITS = OutpostLimits(
    messages=5_000, batch_bytes=1_024, batch_messages=16, close_bytes=8_192, cache_bytes=4_096, forward_bytes=1_024,
    forward_messages=16, window_bytes=4_096,
    window_requests=4, patience_ns=1_000 * MS, patience_most_ns=16_000 * MS, retry_ns=50 * MS, retry_most_ns=400 * MS,
)  # fmt: skip
"""Small, so that faults meet it in the midst of its work."""


class OutpostNode(Remote):
    """`sites`: the processes that it may forward to, best first; `outpost`: tests put another in its place."""

    kind = "outpost"

    def __init__(
        self,
        name: str,
        ordinal: int,
        loop: Loop,
        random: Random,
        rows: list[Row],
        sites: Callable[[], Sequence[End]],
        outpost: type[Outpost] = Outpost,
        observe_append: "Callable[[OutpostNode, int, list[bytes]], None] | None" = None,
    ) -> None:
        """`observe_append` is called with what it takes from the application, not yet durable."""
        super().__init__(name, ordinal, loop, random, rows)
        self.outpost: Outpost | None = None
        self._sites = sites
        self._make = outpost
        self._appends: deque[bytes] = deque()
        self._observe_append = observe_append
        self._turn = OutpostTurn()
        self._accepts: OutpostRecorder

    @property
    def up(self) -> bool:
        return self.outpost is not None

    @property
    def step(self) -> str:
        return "down" if self.outpost is None else f"outpost: {self.outpost.forwarding.step.value}"

    @property
    def waiting(self) -> int:
        return len(self._appends)

    @property
    def _core(self) -> Outpost:
        assert self.outpost is not None, f"{self.name} is down"
        return self.outpost

    def begin(self) -> None:
        self.disk.put(boot(self.disk, sha256(self.name.encode()).digest()[:IDENTITY_BYTES]))
        outpost = self.outpost = self._make(self.name, len(self._sites()), self.disk, LIMITS)
        self._accepts = OutpostRecorder(self._recorder)
        self._accepts.accepted(self.now, outpost.queue.waiting(), log_past(self._rows).accepted)

    def end(self) -> None:
        self.outpost = None
        self._appends.clear()
        self._turn = OutpostTurn()

    def deadline(self) -> int:
        return NEVER if self.outpost is None else self.outpost.deadline()

    def tick(self, now: int) -> None:
        """The turn that follows looks at the time."""

    def synced(self, token: int, now: int) -> None:
        self._core.synced(token)

    def append(self, messages: Iterable[bytes]) -> bool:
        self._appends += messages
        if not self.paused:
            self.turn()
        return True

    def drop_waiting(self) -> int:
        dropped = len(self._appends)
        self._appends.clear()
        return dropped

    def flush(self, now: int) -> tuple[list[Write], list[LogEvent]]:
        outpost = self._core
        while self._appends:
            try:
                (taken,) = outpost.append([self._appends[0]])
            except Unavailable:
                break  # it waits, and is lost at a crash
            message = self._appends.popleft()
            if self._observe_append is not None:
                self._observe_append(self, taken.first, [message])
        turn = self._turn = outpost.flush(now, EPOCH_NS + now)
        outpost.invariants()
        return [Write(turn.token, turn.ops)] if turn.token else [], []

    def record(self, now: int, events: Sequence[LogEvent]) -> None:
        self._accepts.accepted(now, self._turn.accepted)

    def perform(self) -> None:
        turn, self._turn = self._turn, OutpostTurn()
        if turn.disconnect:
            self.disconnect()
        if turn.connect is not None:
            self.connect(self._sites()[turn.connect])
        for request in turn.requests:
            self.send(request)

    def opened(self) -> None:
        self._core.connected(self.now)

    def broken(self, reason: str) -> None:
        self._core.lost(reason, self.now)

    def heard(self, connection: Connection, message: object) -> None:
        if connection is self._connection:
            assert isinstance(message, Appended | Confirmed | Refusal)
            self._core.answered(message, self.now)
            self.turn()
