"""The log at an outpost, as programs use it: they append, wait for places, and see what is still to be confirmed.

An outpost keeps no copy of the log. What needs one is refused, with a line that says where to ask.
"""

from asyncio import Future
from collections.abc import Callable, Sequence
from typing import NoReturn

from reconvene.corel.batch import Kind
from reconvene.corel.events import Color
from reconvene.corel.following.messages import Answer, Ask
from reconvene.entries import EntryBatch
from reconvene.errors import OutcomeUnknown, Rejected, Unavailable
from reconvene.ids import UNNAMED
from reconvene.outpost.outpost import Outpost, OutpostTurn
from reconvene.outpost_site.places import OutpostPlaces
from reconvene.room import UNBOUNDED, Room, Waiter
from reconvene.runtime.log.durable import DurableWaiters
from reconvene.wire.client_log import Append, Appended, Forward, Order, Part
from reconvene.world import world

__all__ = ["OutpostLog"]


class OutpostLog:
    """Implements `runtime.log.interface.SiteLog`. `trouble` returns why nothing is accepted now, or None."""

    base = 0
    green = 0
    begins = False

    def __init__(
        self,
        outpost: Outpost,
        wake: Callable[[], None],
        trouble: Callable[[], str | None],
        site: Callable[[], str | None],
    ) -> None:
        self.name = self.author = outpost.name
        self._outpost = outpost
        self._wake = wake
        self._trouble = trouble
        self._site = site
        self.durable = DurableWaiters(outpost.queue.durable)
        self._places = OutpostPlaces(outpost.name, outpost.queue.green)
        self.room = Room(lambda: UNBOUNDED)
        """An outpost that is full says so: nothing waits for a line that may be cut for days."""
        self._accepted = self._ordered = 0

    # -- the engine's turns

    def after_turn(self, turn: OutpostTurn) -> None:
        """What is in the turn is durable and recorded."""
        for first, count, position in turn.places:
            self._places.add(first, count, position)
            self._ordered += count
        for first, count, _ in turn.accepted:
            self._accepted += count
            self.durable.reached(first + count - 1)

    def close(self) -> None:
        unknown = OutcomeUnknown(
            f"outpost {self.name} has stopped before the outcome was known; it keeps the messages that it accepted"
        )
        self.durable.restart(0, unknown)
        self._places.close(unknown)

    # -- appending

    def append(self, append: Append) -> Appended:
        why = self._trouble()
        if why is not None:
            raise Unavailable(why)
        if append.kind != Kind.DATA:
            raise Rejected(f"{self.name} is an outpost, which takes no transactions: use a site of the cluster")
        taken = self._outpost.append(append.messages, append.session, append.number)
        self._wake()
        parts = [Part(part.count, self.name, part.incarnation, part.first, part.new) for part in taken]
        return Appended(append.request, parts, 0, self._outpost.queue.record.session)

    def why_no_appends(self) -> str | None:
        queue, limits = self._outpost.queue, self._outpost.limits
        if queue.messages < limits.messages and queue.bytes < limits.bytes:
            return self._trouble()
        return f"outpost {self.name}: as many messages wait to be ordered as may (log.red_messages, log.red_bytes)"

    def why_no_order(self) -> str | None:
        return None if self._site() is not None else f"outpost {self.name} is connected to no site that orders"

    def when_room(self, count: int, enter: Callable[[], None]) -> Waiter:
        return self.room.when(count, enter)

    def ordered(self, counter: int) -> "Future[int]":
        self._elsewhere("wait for one counter")

    def find(self, order: Order) -> "Future[list[tuple[int, int]] | None]":
        if order.outpost != self._outpost.queue.record.session:
            raise Unavailable(
                f"{self.name} is an outpost, which knows the places of its own messages only: ask for those of"
                f" {order.author} at a site of the cluster"
            )
        return self._places.find(order.first, order.count)

    # -- what is still to be confirmed

    def pending(self, messages: int, newest: bool = False) -> list[tuple[Color, EntryBatch]]:
        found: list[tuple[Color, EntryBatch]] = []
        position = 0
        for one in self._outpost.pending(messages):
            batch = EntryBatch(position, self.name, one.incarnation, one.first, one.time, Kind.DATA, one.messages)
            found.append((one.color, batch))
            position = batch.end
        return found

    def status(self) -> dict[str, object]:
        queue, forwarding = self._outpost.queue, self._outpost.forwarding
        limits = self._outpost.limits
        oldest = queue.batches[0].time if queue.batches else None
        return {
            "outpost": True,
            "why": f"{self.name} is an outpost: it accepts messages and forwards them, and orders nothing",
            "site": self._site(),
            "step": forwarding.step.value,
            "trouble": forwarding.trouble,
            "accepted": queue.next - 1,
            "durable": queue.durable,
            "forwarded": max(forwarding.forwarded, queue.green),
            "confirmed": queue.green,
            "oldest_s": 0.0 if oldest is None else max(world().time_ns() - oldest, 0) / 1e9,
            "waiting": {"messages": queue.messages, "bytes": queue.bytes},
            "limit": {"messages": limits.messages, "bytes": limits.bytes},
            "yellow": max(forwarding.forwarded - queue.green, 0),
            "red": queue.durable - max(forwarding.forwarded, queue.green),
            "storage": self._trouble() or "ok",
        }

    def counters(self) -> dict[str, int]:
        return {"log_accepted_messages": self._accepted, "log_ordered_messages": self._ordered}

    # -- what needs a copy of the log

    def _elsewhere(self, what: str) -> NoReturn:
        raise Rejected(f"{self.name} is an outpost, which keeps no copy of the log: {what} at a site of the cluster")

    def forward(self, forward: Forward) -> Appended:
        self._elsewhere("forward messages")

    def confirmed(self, session: bytes, first: int) -> list[tuple[int, int, int]]:
        self._elsewhere("confirm messages")

    def committed(self, session: bytes) -> tuple[int, int] | None:
        self._elsewhere("ask for a transaction")

    def cursor(self, session: bytes) -> tuple[int, bytes] | None:
        self._elsewhere("use a cursor")

    def cursors(self, after: bytes, most: int) -> list[tuple[bytes, int, bytes]]:
        self._elsewhere("list cursors")

    def check_readable(self) -> None:
        self._elsewhere("read it")

    def read(self, start: int, messages: int, size: int) -> list[EntryBatch]:
        self._elsewhere("read it")

    def headings(self, start: int, batches: int) -> list[EntryBatch]:
        self._elsewhere("read it")

    def watch(self, moved: Callable[[int], None]) -> Callable[[], None]:
        self._elsewhere("follow it")

    def watch_colors(self, changed: Callable[[list[tuple[Color, str, int, int, int]]], None]) -> Callable[[], None]:
        self._elsewhere("watch it")

    def expect(self, position: int) -> None:
        self._elsewhere("wait for a position")

    def answer_follower(self, ask: Ask, late: bool = False) -> Answer | None:
        self._elsewhere("follow it")

    def barrier(self) -> "Future[None]":
        self._elsewhere("wait for a barrier")

    def snapshot(self, name: str = UNNAMED) -> tuple[int, int] | None:
        self._elsewhere("ask for a snapshot")

    def read_snapshot(self, offset: int, size: int, name: str = UNNAMED) -> bytes:
        self._elsewhere("ask for a snapshot")

    def save_snapshot(self, position: int, data: bytes, name: str = UNNAMED) -> "Future[None]":
        self._elsewhere("save a snapshot")

    def use_snapshot(self, name: str, start: int) -> "Future[None]":
        self._elsewhere("run a state machine")

    def drop_snapshot(self, name: str) -> "Future[None]":
        self._elsewhere("drop a snapshot")

    def change_replicas(
        self, *, add: str | None = None, remove: str | None = None, quorum: dict[str, object] | None = None
    ) -> "Future[int]":
        self._elsewhere("change the replicas")

    def losses(self, lost: Sequence[str]) -> dict[str, object]:
        self._elsewhere("ask for losses")

    def whatif(self, lost: Sequence[str]) -> dict[str, object]:
        self._elsewhere("ask what if")

    def init(self, without: Sequence[str] = ()) -> None:
        self._elsewhere("begin a log")

    def force_lost(self, lost: Sequence[str]) -> None:
        self._elsewhere("give up replicas")
