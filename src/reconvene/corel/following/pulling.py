"""Which source a follower asks, for what, and when. It makes no connections: the shell does, and reports.

    idle ──connect──▶ opening ──opened──▶ pulling ──(its log is truncated here)──▶ base ──whole──▶ pulling
      ▲                  │                  │  ▲                                     │
      │                  │                  ▼  │ (beside: one piece of a snapshot)   │
      └───── broken, silent for too long, refused: the next source ──────────────────┘

Given: the storage of a follower, and names of sources, best first. Promised: at most one thing is asked at a time,
and each step is taken again after a crash. A source of another log, or one that follows this follower, is refused
until it answers otherwise.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

from msgspec import Struct, msgpack

from reconvene.corel.events import LogEvent
from reconvene.corel.following.follower import Follower
from reconvene.corel.following.messages import (
    PULL_BYTES,
    Answer,
    Ask,
    BaseAnswer,
    BaseAsk,
    Joint,
    PieceAnswer,
    PieceAsk,
    Pull,
    Pulled,
)
from reconvene.corel.following.source import joint_before
from reconvene.corel.keeping.snapshot_transfer import Fetch, Piece, Row, Table, decode_message
from reconvene.corel.messages import SNAPSHOT
from reconvene.errors import Malformed
from reconvene.storage.tables import Op

__all__ = ["Connect", "FollowTurn", "HangUp", "LinkAction", "Pulling", "Timing"]

NEVER = 1 << 62
_UNSYNCED_BYTES = 4 << 20
"""So much may be received and not on stable storage before the next batches are asked for."""
_LEAST_PULL_BYTES = 8 << 10
_SOURCE = "source"
"""The name under which the snapshots' transfer knows whichever source is connected."""


@dataclass(frozen=True, slots=True)
class Timing:
    retry_ns: int = 500_000_000
    """After all sources were tried in vain, so long until the first is tried again."""
    patience_ns: int = 5_000_000_000
    """A source that is silent for so long is given up. Where answers take long, as on a thin line, this is not enough
    for any of them: it doubles each time that a source was connected and silent, …"""
    patience_most_ns: int = 80_000_000_000
    """… up to this, and shrinks again to four times what an answer takes."""
    prefer_ns: int = 2_000_000_000
    """After so long with another source than the first, the first is tried again; after twice as long each time that
    it could not be had, …"""
    prefer_most_ns: int = 60_000_000_000
    """… up to this."""
    gather_ns: int = 20_000_000
    """After an answer with all that the source had, the next one is asked for no sooner. So under load an answer has
    many batches, and a follower costs its source little. After a quiet time the follower waits at its source, and has
    what comes next at once."""
    rest_ns: int = 100_000_000
    """The same while nobody waits at this follower for what comes next. A turn with one batch takes a follower nearly
    as long as one with many, so with 20 ms each follower would need several percent of a core, however little there
    is."""


class Connect(Struct, frozen=True):
    """Connect to this source, by its place in the list; then report `opened` or `broken`."""

    source: int


class HangUp(Struct, frozen=True):
    """End the connection. Nothing more is reported of it."""


LinkAction = Connect | HangUp | Ask


class FollowTurn(Struct):
    token: int
    """Of `ops`; 0: nothing is to be written."""
    ops: list[Op]
    """To be written and synced as one; then the token is reported to `synced`."""
    events: list[LogEvent]
    """What is on stable storage now: record it, then show it."""
    link: list[LinkAction]
    """In order. They depend on no write."""


class State(Enum):
    IDLE = "idle"
    OPENING = "opening"
    PULLING = "pulling"
    BASE = "base"


class Pulling:
    """`me`: this follower's name among all followers and replicas, as in `Pulled.chain`. `sources`: as people know
    them; how they are reached is the shell's matter. `cluster`: once a source is known to be in it,
    those that are known to be in another one are tried last."""

    def __init__(
        self,
        follower: Follower,
        me: str,
        sources: Sequence[str],
        now: int,
        timing: Timing | None = None,
        cluster: str = "",
        places: Sequence[str] = (),
        own: Collection[str] = (),
    ) -> None:
        """`places`: of each source, how everyone would name it before it was reached; `own`: this follower's such
        names."""
        self.follower = follower
        self.me = me
        self.sources = tuple(sources)
        self.refused: dict[str, str] = {}
        """By source: why nothing is taken from it."""
        self.trouble: dict[str, str] = {}
        """By source: why it could not be reached when that was last tried."""
        self.answered_once = False
        """A source has answered that was not refused."""
        self.head = follower.green
        """The highest green line that it has heard of."""
        self._places = tuple(places)
        self._own = frozenset((me, *own))
        self._chains: dict[int, list[str]] = {}
        self._clusters: dict[int, str] = {}
        """By source that was reached: the cluster that it is in."""
        self._cluster = cluster
        self._timing = timing or Timing()
        self._state = State.IDLE
        self._due = now
        """When the next source is tried, while idle; when the present one is given up, otherwise."""
        self._turn_to: list[int] = []
        """Sources that are left of this round, best first."""
        self._first = 0
        """The best source of this round."""
        self._current: int | None = None
        self._prefer_at = NEVER
        self._prefer_ns = self._timing.prefer_ns
        self._patience_ns = self._timing.patience_ns
        self._asked: Ask | None = None
        self._asked_at = now
        self._pull_bytes = PULL_BYTES
        """Less, where a source was silent: a line may be so thin that an answer of that size takes longer than this
        follower waits."""
        self._answered = False
        """The connected source has answered something."""
        self._piece: PieceAsk | None = None
        """A piece of a snapshot that is wanted."""
        self._caught_up = False
        """The last answer had no batches, and no piece has come since."""
        self._pull_at = now
        """No batches are asked for before."""
        self._pulled_at = now
        """When the last batches came."""
        self._expected = -1
        """The highest position that somebody has waited for here."""
        self._snapshots: list[Row] = []
        """What the source keeps, as it was last told."""
        self._base: bytes | None = None
        self._sessions: list[tuple[bytes, bytes]] = []
        self._unsynced = 0
        self._joint: tuple[int, Joint | None] = (-1, None)
        self._actions: list[LinkAction] = []
        self._now = now

    # -- what is known

    @property
    def source(self) -> str | None:
        """The one that it pulls from now."""
        connected = self._state in (State.PULLING, State.BASE)
        return self.sources[self._current] if connected and self._current is not None else None

    @property
    def step(self) -> str:
        return f"follower: {self._state.value}"

    @property
    def behind(self) -> int:
        """How many messages it lacks, as far as it has heard."""
        return max(0, self.head - self.follower.green)

    def chain(self) -> list[str]:
        """This follower, and everyone from whom it may get the log, as far as it has heard."""
        found = dict.fromkeys([self.me])
        for chain in self._chains.values():
            found.update(dict.fromkeys(chain))
        # Of a source that was never reached, only its place is known: it may be just about to follow this follower.
        found.update(dict.fromkeys(place for at, place in enumerate(self._places) if at not in self._chains))
        return list(found)

    def expect(self, position: int) -> None:
        """Somebody waits here until this position can be read: a program, or another follower. A turn has to
        follow."""
        self._expected = max(self._expected, position)
        if self._expected >= self.follower.received:
            self._pull_at = min(self._pull_at, self._pulled_at + self._timing.gather_ns)

    # -- the connection

    def opened(self, now: int) -> None:
        assert self._state is State.OPENING
        self._now = now
        self._state = State.PULLING
        self.trouble.pop(self.sources[self._source], None)
        self._prefer_at = NEVER if self._current == self._first else now + self._prefer_ns
        self.follower.snapshots.open((_SOURCE,))
        self._pull_at = now
        self._wait(now)

    def broken(self, why: str, now: int) -> None:
        """The connection could not be made, or ended."""
        self._now = now
        if self._state is not State.IDLE:
            self.trouble[self.sources[self._source]] = why
            self._end(now)

    def answered(self, answer: Answer, now: int) -> None:
        """To what was asked last."""
        self._now = now
        asked, self._asked = self._asked, None
        self._answered = True
        took = now - self._asked_at
        if took < self._timing.patience_ns // 4:
            self._pull_bytes = min(2 * self._pull_bytes, PULL_BYTES)
        self._patience_ns = max(self._timing.patience_ns, min(self._patience_ns, 4 * took))
        if self._current == self._first:
            self._prefer_ns = self._timing.prefer_ns
        self._wait(now)
        match asked, answer:
            case Pull(), Pulled():
                self._pulled(answer)
            case BaseAsk(), BaseAnswer():
                self._take_base(answer)
            case PieceAsk(), PieceAnswer():
                self._take_piece(asked, answer)
            case _:
                self._refuse("it answered something else than what was asked")

    @property
    def _source(self) -> int:
        assert self._current is not None, "a source is being asked"
        return self._current

    def _wait(self, now: int) -> None:
        self._due = now + self._patience_ns

    def _end(self, now: int) -> None:
        """Of the connection: the next source is tried, at once while there are more in this round."""
        if self._state is not State.OPENING:
            self.follower.snapshots.close()
        if self._answered:
            self._turn_to = []  # the next round begins with the first
        self._state = State.IDLE
        self._asked = self._piece = self._base = None
        self._snapshots = []
        self._prefer_at = NEVER
        self._due = now if self._turn_to else now + self._timing.retry_ns

    def _hang_up(self, now: int) -> None:
        self._actions.append(HangUp())
        self._end(now)

    def _refuse(self, why: str) -> None:
        self.refused[self.sources[self._source]] = why
        # Nothing comes from there. Else those who follow this follower would find themselves in its chain, in which a
        # circle that was refused goes on, and refuse it too.
        self._chains[self._source] = []
        left = self._turn_to
        self._hang_up(self._now)
        self._turn_to = [source for source in left if source != self._current]
        if self._turn_to:
            self._due = self._now

    # -- what a source answers

    def _pulled(self, answer: Pulled) -> None:
        follower = self.follower
        self._chains[self._source] = answer.chain
        if answer.chain:
            self._clusters[self._source] = answer.chain[0].rpartition("/")[0]
        if not self._own.isdisjoint(answer.chain):
            self._refuse("it follows this follower: they would follow each other in a circle")
            return
        if follower.origin and answer.origin and answer.origin != follower.origin:
            self._refuse(f"its log is that of cluster {answer.origin}; this follower holds that of {follower.origin}")
            return
        if answer.other:
            self._refuse(f"its log is another one: it differs before position {follower.received}")
            return
        self.answered_once = True
        self.refused.pop(self.sources[self._source], None)
        self.head = max(self.head, answer.head)
        if not follower.origin or follower.received < answer.base:
            if answer.origin:
                self._state = State.BASE
                self._base, self._sessions = None, []
            return
        try:
            follower.take_batches(answer.batches)
        except Malformed as error:
            self._refuse(f"what it sent can't be next: {error}")
            return
        self._unsynced += sum(len(batch.body) for batch in answer.batches)
        self._caught_up = not answer.batches
        if answer.batches and follower.received >= answer.green:
            self._pulled_at = self._now
            awaited = self._expected >= follower.received
            self._pull_at = self._now + (self._timing.gather_ns if awaited else self._timing.rest_ns)
        if answer.snapshots != self._snapshots:
            self._snapshots = answer.snapshots
            self._learn_snapshots(answer.snapshots)

    def _learn_snapshots(self, rows: list[Row]) -> None:
        snapshots = self.follower.snapshots
        told = {row.name for row in rows}
        for name, use in sorted(snapshots.uses.items()):
            if name not in told and not use.here:
                snapshots.forget(name)  # it was dropped where the log is
        self._hear(Table(rows))

    def _take_base(self, answer: BaseAnswer) -> None:
        if answer.base != self._base:
            self._sessions = []
            if self._base is not None:
                self._base = None  # another one by now: from its beginning
                return
        self._base = answer.base
        self._sessions += answer.sessions
        if not answer.last:
            return
        try:
            self.follower.take_base(answer.origin, answer.base, self._sessions)
        except Malformed as error:
            self._refuse(f"what it has truncated can't be taken over: {error}")
            return
        self._state = State.PULLING
        self._base, self._sessions = None, []
        self._joint = (-1, None)

    def _take_piece(self, asked: PieceAsk, answer: PieceAnswer) -> None:
        self._piece = None
        self._caught_up = False
        self._hear(Piece("", asked.name, asked.position, asked.piece, answer.data))

    def _hear(self, message: Table | Piece) -> None:
        self.follower.snapshots.receive(_SOURCE, bytes((SNAPSHOT,)) + msgpack.encode(message))

    # -- turns

    def synced(self, token: int) -> None:
        self.follower.synced(token)

    def deadline(self) -> int:
        wanted = self.follower.deadline()
        waits = self._due if self._state is State.IDLE or self._state is State.OPENING or self._asked else NEVER
        gathers = self._state is State.PULLING and self._asked is None and self._pull_at > self._now
        return min(
            waits,
            self._prefer_at,
            self._pull_at if gathers else NEVER,
            NEVER if wanted is None else wanted,
        )

    def tick(self, now: int) -> None:
        self._now = now
        if now >= self._prefer_at and (self._state is State.BASE or self.follower.snapshots.fetching):
            self._prefer_at = now + self._prefer_ns  # what was transferred is not thrown away
        elif now >= self._prefer_at:
            self._prefer_ns = min(2 * self._prefer_ns, self._timing.prefer_most_ns)
            self._hang_up(now)
            self._due = now
        if now < self._due:
            return
        if self._state is State.IDLE:
            self._connect(now)
        elif self._state is State.OPENING or self._asked is not None:
            if self._state is not State.OPENING:
                self._patience_ns = min(2 * self._patience_ns, self._timing.patience_most_ns)
                self._pull_bytes = max(self._pull_bytes // 4, _LEAST_PULL_BYTES)
            self.trouble[self.sources[self._source]] = "it does not answer"
            self._hang_up(now)

    def _connect(self, now: int) -> None:
        if not self._turn_to:
            away = [at for at, cluster in sorted(self._clusters.items()) if cluster != self._cluster]
            if len(away) == len(self._clusters):
                away = []  # none is known to be in this cluster: the order that was given counts
            self._turn_to = [*(at for at in range(len(self.sources)) if at not in away), *away]
            self._first = self._turn_to[0]
        self._current = self._turn_to.pop(0)
        self._state = State.OPENING
        self._answered = False
        self._wait(now)
        self._actions.append(Connect(self._current))

    def flush(self, now: int, time: int) -> FollowTurn:
        """Ends the turn. `time`: ns since 1970."""
        self._now = now
        follower = self.follower
        follower.close_batches(time)
        follower.settle()
        self._carry_snapshots()
        effects = follower.flush(now)
        self.head = max(self.head, follower.green)
        if follower.received == follower.green:
            self._unsynced = 0
        self._ask()
        actions, self._actions = self._actions, []
        return FollowTurn(effects.token, effects.ops, effects.events, actions)

    def _carry_snapshots(self) -> None:
        """What the snapshots' transfer would send to another replica: only its wish for a piece matters here."""
        outgoing = self.follower.outgoing
        while outgoing:
            _, payload = outgoing.popleft()
            message = decode_message(payload) if payload[0] == SNAPSHOT else None
            if isinstance(message, Fetch):
                self._piece = PieceAsk(message.name, message.position, message.checksum, message.piece)

    def _ask(self) -> None:
        if self._asked is not None or self._state not in (State.PULLING, State.BASE):
            return
        if self._state is State.BASE:
            ask: Ask = BaseAsk(len(self._sessions))
        elif self._piece is not None:
            ask = self._piece
        elif self._unsynced >= _UNSYNCED_BYTES or self._now < self._pull_at:
            return
        else:
            # The next piece of a snapshot is wanted once the one before is on stable storage.
            fetching = self.follower.snapshots.fetching
            if fetching and self._caught_up:
                return
            ask = Pull(self.follower.received, self._pull_bytes, not fetching, self._last_batch())
        self._asked = ask
        self._asked_at = self._now
        self._wait(self._now)
        self._actions.append(ask)

    def _last_batch(self) -> Joint | None:
        received = self.follower.received
        if self._joint[0] != received:
            self._joint = received, joint_before(self.follower, received)
        return self._joint[1]
