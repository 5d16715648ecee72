"""A state that an application computes from the log, the same at every site."""

import copy
from abc import ABC, abstractmethod
from typing import NamedTuple, Self

import msgspec

from reconvene.client.arguments import check_machine_name
from reconvene.entries import Entry
from reconvene.errors import InvalidArgument, Malformed, Rejected

__all__ = ["Failure", "StateMachine", "snapshot_name", "unwrap", "wrap"]

_FORMAT = 2
"""Of what is around a snapshot: 1 had no version of the machine. A newer one is refused."""

_VERSIONS = 1 << 62


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

    name: str = ""
    """Its snapshots are kept under this name, so it is the same at every site and in every run, and no other machine
    of this log has it. "": its kind."""

    version: int = 1
    """Of what `snapshot` returns and of what `apply` does. Raise it when you change either, and say in `upgrade` how
    to read a snapshot of an earlier version."""

    @property
    def kind(self) -> str:
        """A snapshot is restored by machines of its kind only."""
        return type(self).__name__

    @abstractmethod
    def apply(self, entry: Entry) -> None:
        """Takes the next entry. It should ignore entries that it can't read: other programs may append too."""

    @abstractmethod
    def snapshot(self) -> bytes:
        """All of the state."""

    @abstractmethod
    def restore(self, data: bytes) -> None:
        """Replaces the state by one that `snapshot` returned, here or at another site."""

    def upgrade(self, version: int, data: bytes) -> bytes:
        """Converts a snapshot of an earlier `version` of the machine to what this version would have saved."""
        raise NotImplementedError

    def copy(self) -> Self:
        """For `optimistic`, which goes on from the state without changing it."""
        return copy.deepcopy(self)


def snapshot_name(machine: StateMachine) -> str:
    """What its snapshots are kept under. Raises InvalidArgument for a bad name or version."""
    version = machine.version
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version < _VERSIONS:
        raise InvalidArgument(f"state machine {machine.kind}: version: expected a number from 1 on, not {version!r}")
    return check_machine_name(machine.name or machine.kind, f"state machine {machine.kind}: name")


def wrap(machine: StateMachine) -> bytes:
    """Its snapshot, as it is kept: with a format, and the machine's kind and version. Raises TypeError where it is
    not bytes: it could not be restored."""
    data = machine.snapshot()
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"{machine.kind}.snapshot: expected bytes, not {type(data).__name__}")
    return msgspec.msgpack.encode((_FORMAT, machine.kind, machine.version, data))


def unwrap(machine: StateMachine, stored: bytes) -> bytes:
    """What the machine can restore: of an earlier version, upgraded.

    Raises Rejected where it is a snapshot of something else, or of another version that the machine can't read;
    Malformed where it is none."""
    kind, version, data = _parts(stored)
    if kind != machine.kind:
        raise Rejected(
            f"the snapshot is of a {kind}, not of a {machine.kind}: give each state machine a name of its own"
        )
    if version > machine.version:
        raise Rejected(
            f"the snapshot was saved by version {version} of {kind}, and this program has version {machine.version}: "
            "run the newer program here"
        )
    return data if version == machine.version else _upgraded(machine, version, data)


def _parts(stored: bytes) -> tuple[str, int, bytes]:
    """(kind, version, data)"""
    try:
        number = msgspec.msgpack.decode(msgspec.msgpack.decode(stored, type=list[msgspec.Raw])[0], type=int)
        if number > _FORMAT:
            raise Rejected(f"the log's snapshot is of format {number}; this program knows up to {_FORMAT}")
        if number == 1:
            _, kind, data = _FIRST.decode(stored)
            return kind, 1, data
        _, kind, version, data = _WRAPPED.decode(stored)
    except (msgspec.MsgspecError, ValueError, IndexError, RecursionError):
        raise Malformed("the log's snapshot is not one of a state machine's") from None
    return kind, version, data


_FIRST = msgspec.msgpack.Decoder(tuple[int, str, bytes])
_WRAPPED = msgspec.msgpack.Decoder(tuple[int, str, int, bytes])


def _upgraded(machine: StateMachine, version: int, data: bytes) -> bytes:
    try:
        upgraded = machine.upgrade(version, data)
    except NotImplementedError:
        raise Rejected(
            f"the snapshot was saved by version {version} of {machine.kind}, and this program has version "
            f"{machine.version}: give the class a method upgrade(version, data) that returns the state as version "
            f"{machine.version} saves it"
        ) from None
    except Exception as error:
        raise Rejected(
            f"the snapshot of version {version} of {machine.kind} can't be upgraded to version {machine.version}: "
            f"{error!r}"
        ) from error
    if not isinstance(upgraded, bytes):
        raise Rejected(f"{machine.kind}.upgrade: expected bytes, not {type(upgraded).__name__}")
    return upgraded
