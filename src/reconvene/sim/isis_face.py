"""What the simulated application needs of the ISIS layer: requests of processes, and where the layer is."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from reconvene.core.groups.events import Process
from reconvene.ids import MessageId
from reconvene.isis.events import CastId
from reconvene.isis.far_events import FarProcess
from reconvene.sim.isis_scenario import Label

__all__ = ["FarFace", "HasProcesses", "IsisFace"]


class IsisFace(Protocol):
    """Each request raises Rejected or Unavailable where it can't be taken; nothing has happened then."""

    @property
    def blocked(self) -> bool: ...
    def open(self, name: str, *, answers: bool, state: bool) -> Process: ...
    def kill(self, process: Process) -> None: ...
    def join(self, process: Process, group: str) -> None: ...
    def leave(self, process: Process, group: str) -> None: ...
    def cbcast(
        self, process: Process, to: str | Sequence[Process], payload: bytes, label: Label = None, replies: int = 0
    ) -> None: ...
    def abcast(
        self,
        process: Process,
        to: str | Sequence[Process],
        payload: bytes,
        label: str = "",
        *,
        causal: bool = False,
        replies: int = 0,
    ) -> None: ...
    def gbcast(self, process: Process, group: str, payload: bytes, /) -> None: ...
    def rank(self, process: Process, group: str, order: Sequence[Process], /) -> None: ...
    def flush(self, process: Process) -> None: ...
    def watch(self, process: Process, watched: Process, /) -> None: ...
    def reply(self, process: Process, request: CastId, payload: bytes, /) -> None: ...
    def give(
        self, process: Process, group: str, view: int, newcomer: Process, index: int, data: bytes, last: bool, /
    ) -> None: ...


@runtime_checkable
class FarFace(Protocol):
    """The same of requests about processes of other clusters."""

    def far_cast(
        self, process: Process, kind: str, to: str | Sequence[FarProcess], payload: bytes, label: Label, replies: int
    ) -> None: ...
    def far_reply(self, process: Process, request: MessageId, payload: bytes, /) -> None: ...
    def far_watch(self, process: Process, watched: FarProcess, /) -> None: ...


@runtime_checkable
class HasProcesses(Protocol):
    """A site of stack `isis`."""

    @property
    def isis(self) -> IsisFace: ...
