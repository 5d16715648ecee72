"""Read and write locks on named items, for the members of a group.

How it is made (after Birman and Joseph, 5.3). Every member has the same table: by item the requests, in one order.

- *Request*: a CBCAST to all members. Their sites reply when it is in their processes' queues. Requests are in the
  order of their clocks. A member whose site has replied casts no request with a lower clock from then on, and a reply
  comes after what its sender cast before. So a process that has all replies knows all requests before its own: one
  round trip after it asked. Two writers never wait for each other.
- *Write*: the writer has the lock when it has all replies, its request is the first of the item, and no read lock is
  registered.
- *Read*: registered at all members by a CBCAST. Nobody replies to it: the reader has the lock when its own copy of
  the registration comes back from its site, unless a write request came before that. So a writer that has all replies
  knows all read locks that it has to wait for. If there is a write request, the read becomes a request as well, and
  waits for the writers before it: no stream of writers keeps it out.
- *Label*: all of them have the default label. If any later message of this process has reached a member, these have,
  too, even if this process fails meanwhile.
- *Release*: a CBCAST as well. What the holder cast before it, updates of replicated data for example, reaches every
  member before it.
- *Kept*: a write lock that nobody else wants is not released at once. For a second its process can take it again
  without a message. The first request of another process that it receives ends that: it releases the lock.
- *Failure*: a view without the holder comes after all that it sent. Its locks and requests are void from there on.

Each lock comes with a *fencing token*. A holder that was cut off may believe for a while that it still has the lock,
while others have it. So pass the token along with what you change, and let the store refuse a token below the highest
that it has seen. Tokens of an item grow for ever: they are made of the view's place among all views, which outlives
even a crash of all sites; of a number in that view, one above all that the holder has heard of, and each holder tells
its own when it releases the lock; and of how often the lock was taken again.

    async with Lock(site.isis, "stock") as lock:
        async with lock.write("coffee", timeout=5) as token:
            await store.put("coffee", 3, token)
"""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from itertools import count
from types import TracebackType
from typing import Any

import msgspec

from reconvene.client.arguments import check_text, check_timeout
from reconvene.client.events import Process
from reconvene.client.isis import Isis
from reconvene.client.isis_events import ALL, Action, Cast, GroupView
from reconvene.client.time_limits import in_time
from reconvene.errors import InvalidArgument, OutcomeUnknown, ReconveneError, Rejected, Unavailable
from reconvene.objects.lock_table import LockTable, Place, Registered, Released, Want, decode
from reconvene.objects.member import Member

__all__ = ["Hold", "Lock", "Token"]

_ITEM_BYTES = 255
_MOST = 1_000
"""Locks of one process that are held or asked for."""
_KEPT = 100
_KEPT_S = 1.0
"""So many write locks of a process, and for so long, are kept after they were used, while nobody else wants them."""
_AGAIN_S = 0.1
"""What could not be sent is tried again after this time."""


class _Claim:
    """A lock that this process holds, or has asked for."""

    def __init__(self, item: str, number: int, owner: Process, *, write: bool, queued: bool) -> None:
        loop = asyncio.get_running_loop()
        self.item = item
        self.number = number
        self.owner = owner
        """This process, as it was then."""
        self.write = write
        self.queued = queued
        """There is a request for it. Otherwise it is a read lock given out here, and registered."""
        self.task = asyncio.current_task()
        """That holds it."""
        self.sent: asyncio.Future[bool] = loop.create_future()
        """Of the request or the registration: False where nothing was sent, or the process was killed."""
        self.granted: asyncio.Future[Place] = loop.create_future()
        self.replied = False
        """Of a request: all replies are in, and what came before them is read."""
        self.over = False
        """Released, given up, or lost."""
        self.lost = False

    @property
    def place(self) -> Place | None:
        """Its token, if this process had the lock."""
        granted = self.granted
        if not granted.done() or granted.cancelled() or granted.exception() is not None:
            return None
        return granted.result()


class Token(int):
    """A fencing token: a number of up to 128 bits."""

    _claim: _Claim
    _lock: "Lock"

    @property
    def held(self) -> bool:
        """As far as this process knows, it has the lock. False as soon as its site is cut off."""
        return not self._claim.over and self._lock.is_current


class Hold:
    """From `Lock.read` and `Lock.write`: `async with` acquires it, and releases it at the end of the block."""

    def __init__(self, lock: "Lock", item: str, timeout: float | None, *, write: bool) -> None:
        self._lock = lock
        self._item = item
        self._timeout = timeout
        self._write = write
        self._claim: _Claim | None = None
        self._nested = False

    async def __aenter__(self) -> Token:
        lock, item = self._lock, self._item
        if self._claim is not None:
            raise Rejected(f"lock {item!r}: this object was used before: one block each")
        claim = lock.own(item)
        if claim is None:
            kind = "write" if self._write else "read"
            why = f"no {kind} lock on {item!r} within {self._timeout} s"
            claim = await in_time(self._timeout, lock.acquire(item, write=self._write), why)
        elif self._write:
            raise Rejected(
                f"lock {item!r}: this task has a lock on it, and would wait for itself: release that first, and take "
                "a write lock from the start where you may have to write"
            )
        else:
            self._nested = True
        self._claim = claim
        token = Token(int(claim.granted.result()))
        token._claim, token._lock = claim, lock
        return token

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        claim = self._claim
        assert claim is not None, "it was acquired"
        if self._nested or kind is GeneratorExit:
            return  # a coroutine that is closed can't send anything
        await self._lock.release(claim)
        if claim.lost and error is None:
            raise OutcomeUnknown(
                f"the lock on {claim.item!r} was lost while it was held: this process was cut off, and others may "
                "have had it meanwhile"
            )


class Lock(Member):
    _answers = False

    def __init__(self, isis: Isis, name: str) -> None:
        super().__init__(isis, name)
        self.table = LockTable()
        """As far as this member knows."""
        self._numbers = count(1)
        self._claims: dict[int, _Claim] = {}
        self._tasks: dict[tuple[asyncio.Task[Any] | None, str], _Claim] = {}
        """By the task that holds it, and the item."""
        self._kept: dict[str, _Claim] = {}
        """By item, the oldest first: write locks that are not used, and not released."""
        self._running: set[asyncio.Task[Any]] = set()

    # -- for programs

    def write(self, item: str, timeout: float | None = None) -> Hold:
        """`async with lock.write("coffee") as token`: nobody else has a lock on the item meanwhile.

        Acquiring raises TimedOut after `timeout` s, Rejected where this task has a lock on the item already, and
        Unavailable where the object is over or a limit is reached. While the process is cut off, it waits. The end of
        the block raises OutcomeUnknown where the lock was lost meanwhile."""
        return self._hold(item, timeout, write=True)

    def read(self, item: str, timeout: float | None = None) -> Hold:
        """As `write`, but others may read meanwhile. It waits for the writers before it. A task that has a lock on
        the item gets it at once. Its token is at least that of the last write lock, and below that of the next."""
        return self._hold(item, timeout, write=False)

    def readers(self, item: str) -> tuple[Process, ...]:
        """Processes that have read locks on the item, or wait for them, as far as this member knows."""
        queued = [request.owner for request in self.table.queues.get(item, ()) if not request.write]
        return (*queued, *(owner for (owner, _), held in self.table.readers.items() if held == item))

    def writers(self, item: str) -> tuple[Process, ...]:
        """Processes that have the write lock on the item, or wait for it, in their order."""
        return tuple(request.owner for request in self.table.queues.get(item, ()) if request.write)

    def _hold(self, item: str, timeout: float | None, *, write: bool) -> Hold:
        check_text(item, "item", _ITEM_BYTES)
        if len(item.encode()) > _ITEM_BYTES:
            raise InvalidArgument(f"item: at most {_ITEM_BYTES} bytes expected, not {len(item.encode())}")
        if timeout is not None:
            check_timeout(timeout)
        return Hold(self, item, timeout, write=write)

    def own(self, item: str) -> _Claim | None:
        """What the running task holds on the item."""
        return self._tasks.get((asyncio.current_task(), item))

    async def acquire(self, item: str, *, write: bool) -> _Claim:
        """`Hold` does this."""
        overtaken = False
        while True:
            await self._ready()
            if write and (claim := self._take_again(item)) is not None:
                return claim
            if len(self._claims) >= _MOST:
                raise Unavailable(
                    f"{self.name!r}: this process holds or waits for {_MOST} locks: no more are allowed"
                )
            queued = write or overtaken or self.table.is_written(item)
            claim = _Claim(item, next(self._numbers), self._isis.me, write=write, queued=queued)
            self._claims[claim.number] = claim
            self._spawn(self._ask(claim) if queued else self._register(claim))
            try:
                await claim.granted
            except _Overtaken:
                overtaken = True
                self._spawn(self._send_release(claim))
            except _Again:
                self._forget(claim)
                await asyncio.sleep(_AGAIN_S)
            except (asyncio.CancelledError, ReconveneError):
                self._spawn(self._send_release(claim))
                raise
            else:
                self._tasks[claim.task, item] = claim
                return claim

    async def release(self, claim: _Claim) -> None:
        """`Hold` does this. Where the process is blocked, the lock is released as soon as that ends."""
        del self._tasks[claim.task, claim.item]
        if not claim.over:
            claim.over = True
            if claim.write and self.is_current and not self.table.is_wanted(claim.item):
                self._keep(claim)
                return
            sent = self._spawn(self._send_release(claim))
            if self.is_current:
                await asyncio.shield(sent)

    # -- locks that are kept

    def _keep(self, claim: _Claim) -> None:
        self._kept[claim.item] = claim
        if len(self._kept) > _KEPT:
            self._let_go(next(iter(self._kept)))
        asyncio.get_running_loop().call_later(_KEPT_S, self._let_go, claim.item, claim)

    def _let_go(self, item: str, only: _Claim | None = None) -> None:
        """Releases what is kept of the item, if it is `only`."""
        claim = self._kept.get(item)
        if claim is not None and only in (None, claim):
            del self._kept[item]
            self._spawn(self._send_release(claim))

    def _take_again(self, item: str) -> _Claim | None:
        kept = self._kept.get(item)
        if kept is None or kept.owner != self._isis.me:
            return None
        del self._kept[item]
        claim = _Claim(item, kept.number, kept.owner, write=True, queued=True)
        claim.sent.set_result(True)
        place = kept.granted.result()
        claim.granted.set_result(place._replace(again=place.again + 1))
        self._claims[claim.number] = self._tasks[claim.task, item] = claim
        return claim

    # -- asking and releasing

    async def _ask(self, claim: _Claim) -> None:
        want = msgspec.msgpack.encode(Want(claim.number, claim.item, claim.write))
        with self._voiding(claim):
            call = await self._in_group().cbcast(want, replies=ALL)
            claim.sent.set_result(True)
            await call.replies()  # each has the request, or has failed, and holds no lock any more
            self._isis.after_read(lambda: self._replied(claim))

    def _replied(self, claim: _Claim) -> None:
        claim.replied = True
        self._advance(claim.item)

    async def _register(self, claim: _Claim) -> None:
        with self._voiding(claim):
            await self._in_group().cbcast(msgspec.msgpack.encode(Registered(claim.number, claim.item)))
            claim.sent.set_result(True)

    @contextmanager
    def _voiding(self, claim: _Claim) -> Iterator[None]:
        """Where it can't be sent, nothing has happened; where the process was killed, all its locks are void."""
        try:
            yield
        except (Unavailable, OutcomeUnknown):
            _fail(claim, _Again())
        except ReconveneError as error:
            _fail(claim, error)
        finally:
            if not claim.sent.done():
                claim.sent.set_result(False)

    async def _send_release(self, claim: _Claim) -> None:
        """Also of one that was given up while it was asked for."""
        claim.over = True
        sent = await claim.sent
        while sent and not claim.lost and self._isis.me == claim.owner:
            try:
                released = Released(claim.number, claim.item, claim.queued, claim.place)
                await self._in_group().cbcast(msgspec.msgpack.encode(released))
                break
            except Unavailable:
                await asyncio.sleep(_AGAIN_S)
            except OutcomeUnknown:
                break  # the process was killed
        self._forget(claim)

    def _forget(self, claim: _Claim) -> None:
        claim.over = True
        self._claims.pop(claim.number, None)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    # -- as a member

    def received(self, cast: Cast | Action) -> None:
        message = decode(cast.data)
        if message is None or cast.sender not in self.members:
            return  # of a process that has left: all members see it so
        match message:
            case Want(item=item):
                if isinstance(cast, Cast):
                    self.table.want(cast.sender, message, cast.clock)
                    self._let_go(item)
            case Registered():
                self.table.register(cast.sender, message)
                if cast.sender == self._isis.me:
                    self._registered(message)
            case Released():
                self.table.release(cast.sender, message)
        self._advance(message.item)

    def _registered(self, registered: Registered) -> None:
        """This process's own. Its site has replied to the write requests that came before it, and to no others."""
        claim = self._claims.get(registered.number)
        if claim is None or claim.granted.done():
            return
        if self.table.is_written(registered.item):
            _fail(claim, _Overtaken())
        else:
            claim.granted.set_result(self.table.last)

    def _advance(self, item: str) -> None:
        """Which requests of this process have the lock now?"""
        for request in self.table.granted(item):
            if request.owner == self._isis.me:
                claim = self._claims.get(request.number)
                if claim is not None and claim.replied and not claim.granted.done():
                    claim.granted.set_result(self.table.next if claim.write else self.table.last)

    def viewed(self, view: GroupView) -> None:
        for item in self.table.viewed(view):
            self._advance(item)

    def state(self) -> object:
        return self.table.state()

    def restore(self, state: Any) -> None:
        self.table.restore(state)

    def interrupted(self, error: ReconveneError) -> None:
        """All locks of this process are void."""
        self._kept.clear()
        claims, self._claims = self._claims, {}
        for claim in claims.values():
            claim.lost = claim.over = True
            _fail(claim, _Again())
        self.table.clear()


class _Again(Exception):
    """The request is void; nothing has happened."""


class _Overtaken(Exception):
    """A write request came before the registration of a read lock."""


def _fail(claim: _Claim, error: Exception) -> None:
    if not claim.granted.done():
        claim.granted.set_exception(error)
        claim.granted.exception()  # perhaps nobody waits for it
