"""ISIS as a site's other parts see it: connections of clients, the program around an embedded site.

Everything here runs in the site's loop. `SiteIsis` is the layer of the site, `IsisHandle` one process's side of it,
and an `IsisReceiver` gets what that process receives.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from reconvene.core.groups.events import Process
from reconvene.ids import MessageId
from reconvene.isis.events import CastId, IsisEvent, Sent
from reconvene.isis.far_events import FarProcess

__all__ = ["IsisHandle", "IsisReceiver", "SiteIsis"]


class IsisReceiver(Protocol):
    def isis_events(self, batch: list[IsisEvent]) -> None:
        """Called with what a turn brought for this process, in order: events that are `isis.events.Seen`. After
        `Killed` the process of its handle is the new one. Must not block, and must bound what it keeps."""


class IsisHandle(Protocol):
    """What a process can ask for. Each request raises Rejected or Unavailable if it is refused: nothing has happened
    then. `done` is called once it is carried out; never where the process is killed before that."""

    process: Process

    def join(
        self,
        group: str,
        *,
        state: bool = False,
        vector: bool = False,
        answers: bool = True,
        last_to_fail: bool = False,
        wide: bool = False,
        done: Sent | None = None,
    ) -> None:
        """`wide`: processes of other clusters can cast to it by the group's name."""

    def leave(self, group: str, done: Sent) -> None: ...

    def cbcast(
        self,
        to: str | Sequence[Process],
        payload: bytes,
        label: str | Mapping[str, int] | None,
        replies: int,
        done: Sent,
        more: Sequence[bytes] = (),
    ) -> None: ...

    def abcast(
        self, to: str | Sequence[Process], payload: bytes, label: str, causal: bool, replies: int, done: Sent
    ) -> None: ...

    def gbcast(self, group: str, payload: bytes, done: Sent) -> None: ...

    def rank(self, group: str, order: Sequence[Process], done: Sent) -> None: ...

    def set_properties(self, group: str, properties: dict[str, bytes], done: Sent) -> None: ...

    def delete(self, group: str, done: Sent) -> None: ...

    def flush(self, done: Sent) -> None: ...

    def watch(self, process: Process) -> None:
        """`Failed` follows, without an id, when that process is over."""

    def reply(self, cast: CastId, payload: bytes, done: Sent) -> None:
        """`done` is called once little enough waits for the other site: so nobody fills up its site's channels."""

    def wide_cbcast(
        self,
        to: str | Sequence[FarProcess],
        payload: bytes,
        label: str | Mapping[str, int] | None,
        replies: int,
        done: Sent,
    ) -> None:
        """To processes of several clusters. The counter of `done`'s id is that of such casts."""

    def wide_abcast(
        self, to: str | Sequence[FarProcess], payload: bytes, label: str, replies: int, done: Sent
    ) -> None: ...

    def wide_watch(self, process: FarProcess) -> None:
        """`FarFailed`, `FarUnreachable` or `FarUnwatched` follows."""

    def wide_reply(self, cast: MessageId, payload: bytes, done: Sent) -> None: ...

    def give(self, group: str, view: int, newcomer: Process, index: int, data: bytes, last: bool, done: Sent) -> None:
        """As `reply`."""

    def close(self) -> None:
        """The process leaves its groups; then it is over. Nothing is delivered to it any more."""

    def kill(self) -> None:
        """The process is dead. Nothing is delivered to it any more."""


class SiteIsis(Protocol):
    name: str
    """Of the site."""

    def open(self, receiver: IsisReceiver, name: str, *, answers: bool = True) -> IsisHandle:
        """A new process. Raises Unavailable at the limit, or when the site is stopping."""

    def groups(self, most: int | None = None) -> list[dict[str, object]]:
        """The first groups that have members, by name: `name`, `view`, `members` by rank, `properties`."""

    def wide_groups(self) -> list[dict[str, object]]:
        """The same of those that processes of other clusters can cast to, with their members in all of them. Raises
        Rejected where there are no other clusters."""

    def status(self) -> dict[str, object]:
        """As JSON-able values: see docs/operations.md."""

    def counters(self) -> dict[str, int]: ...
