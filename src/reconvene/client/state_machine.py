"""What an application makes of the log: a state that every replica computes alike."""

import copy
from abc import ABC, abstractmethod
from typing import NamedTuple, Self

import msgspec

from reconvene.client.log_entries import Entry
from reconvene.errors import Malformed, Rejected

__all__ = ["Failure", "StateMachine", "unwrap", "wrap"]

_FORMAT = 1
"""Of what is around a snapshot. A newer one is refused."""


class Failure(NamedTuple):
    """Where a state machine stopped, and why."""

    position: int
    error: Exception


class StateMachine(ABC):
    """Deterministic: the same entries in the same order make the same state, at every site and in every run. So
    `apply` looks at no clock, no file and no random number, and its outcome depends on nothing but the entries.

    `async with log.run(machine)` calls it, from one task. An `apply` that raises stops this machine, nothing else.
    """

    failed: Failure | None = None
    """Where it stopped."""

    @property
    def kind(self) -> str:
        """A snapshot is restored by machines of its kind only."""
        return type(self).__name__

    @abstractmethod
    def apply(self, entry: Entry) -> None:
        """Takes the next entry. What it can't make sense of it should ignore: others may append too."""

    @abstractmethod
    def snapshot(self) -> bytes:
        """All of the state."""

    @abstractmethod
    def restore(self, data: bytes) -> None:
        """Replaces the state by what `snapshot` gave, here or at another replica."""

    def copy(self) -> Self:
        """For the optimistic view, which goes on from the state without changing it."""
        return copy.deepcopy(self)


def wrap(machine: StateMachine) -> bytes:
    """Its snapshot, as it is kept: with a format and the machine's kind."""
    return msgspec.msgpack.encode((_FORMAT, machine.kind, machine.snapshot()))


def unwrap(machine: StateMachine, stored: bytes) -> bytes:
    """Raises Rejected where it is a snapshot of something else, Malformed where it is none."""
    try:
        form, kind, data = msgspec.msgpack.decode(stored, type=tuple[int, str, bytes])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise Malformed("the log's snapshot is not one of a state machine's") from None
    if form > _FORMAT:
        raise Rejected(f"the log's snapshot is of format {form}; this program knows up to {_FORMAT}")
    if kind != machine.kind:
        raise Rejected(f"the log's snapshot is of a {kind}, not of a {machine.kind}")
    return data
