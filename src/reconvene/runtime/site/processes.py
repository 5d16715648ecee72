"""The processes of a running site: their requests, what each of them receives, and which of them wait for room."""

import asyncio
from collections.abc import Callable, Sequence

from reconvene.core.groups.events import GroupEvent, Process
from reconvene.errors import Rejected, Unavailable
from reconvene.ids import Service
from reconvene.room import UNBOUNDED, Room
from reconvene.runtime.domain.groups import WIDE_FIRST, WideGroups
from reconvene.runtime.site.interface import Receiver
from reconvene.stack.stack import Stack

__all__ = ["LocalProcesses", "ProcessAccess"]


class LocalProcesses:
    """`wake` asks for a turn; `now` is the site's clock."""

    def __init__(self, site: str, stack: Stack, now: Callable[[], int], wake: Callable[[], None]) -> None:
        self.groups = stack.groups
        self.now = now
        self.wake = wake
        self.stopping = False
        """The site stops: every request is refused."""
        self.wide: WideGroups | None = None
        """None: the cluster stands alone."""
        self._site = site
        self._receivers: dict[Process, Receiver] = {}
        self.room = Room(self._free)
        """In the site's queue, for messages of all processes."""

    def __len__(self) -> int:
        return len(self._receivers)

    def open(self, receiver: Receiver) -> "ProcessAccess":
        self.refuse_if_stopping()
        access = ProcessAccess(self, self.groups.open())
        self._receivers[access.process] = receiver
        return access

    def close(self, process: Process) -> None:
        if self._receivers.pop(process, None) is not None:
            self.groups.close(process, self.now())
            if self.wide is not None:
                self.wide.close(process)
            self.wake()

    def stop(self) -> None:
        self.stopping = True
        self.room.wake()
        if self.wide is not None:
            self.wide.stop()

    def refuse_if_stopping(self) -> None:
        if self.stopping:
            raise Unavailable(f"site {self._site} is stopping")

    def join_wide(self, process: Process, group: str, primary: bool) -> int:
        if primary:
            raise Rejected("primary=True can't be had across clusters: a wide group has no primary component")
        if self.wide is None:
            raise Rejected(f"site {self._site} is in no joined cluster: see [domain]")
        return self.wide.join(process, group, self._receivers[process].wide_events)

    def deliver(self, processes: Sequence[tuple[Process, list[GroupEvent]]]) -> None:
        """Hands each process what a turn brought for it."""
        for process, events in processes:
            receiver = self._receivers.get(process)
            if receiver is not None:
                receiver.events(events)
        if self.room.waiting:
            asyncio.get_running_loop().call_soon(self.room.wake)  # not amid the turn

    def _free(self) -> int:
        """Where the site stops, all are refused: nothing has to wait for that."""
        return UNBOUNDED if self.stopping else self.groups.room()


class ProcessAccess:
    """One process's requests to its site (site.interface.Access)."""

    __slots__ = ("_processes", "process")

    def __init__(self, processes: LocalProcesses, process: Process) -> None:
        self._processes = processes
        self.process = process

    def join(self, group: str, primary: bool, wide: bool = False) -> int:
        processes = self._processes
        processes.refuse_if_stopping()
        if wide:
            return processes.join_wide(self.process, group, primary)
        membership = processes.groups.join(self.process, group, primary, processes.now())
        processes.wake()
        return membership

    def leave(self, membership: int) -> None:
        if membership >= WIDE_FIRST and self._processes.wide is not None:
            self._processes.wide.leave(membership)
            return
        self._processes.groups.leave(membership, self._processes.now())
        self._processes.wake()

    def send(
        self,
        membership: int,
        service: Service,
        payloads: Sequence[bytes],
        to: tuple[Process, ...] | None = None,
        cluster: bool = False,
    ) -> int:
        processes = self._processes
        if processes.stopping:
            processes.refuse_if_stopping()
        if membership >= WIDE_FIRST and processes.wide is not None:
            if to is not None:
                raise Rejected("`to` can't be had in a wide group: its messages go to all its members")
            return processes.wide.send(membership, service, payloads, cluster)
        taken = processes.groups.send(membership, service, payloads, to, processes.now())
        if taken:
            processes.wake()
        return taken

    def room_of(self, membership: int) -> Room:
        wide = self._processes.wide
        return self._processes.room if membership < WIDE_FIRST or wide is None else wide.room

    def close(self) -> None:
        self._processes.close(self.process)
