"""What a service under test looks like, and what it is given."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from reconvene.ids import Service as Promise

__all__ = ["Configuration", "Handle", "Message", "Service"]


@dataclass(frozen=True, slots=True)
class Configuration:
    """The members of a configuration, as a node knows them."""

    kind: str
    """regular, transitional or hidden"""
    id: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it was delivered at one node."""

    sender: str
    payload: bytes
    service: str
    """fifo, causal, agreed or safe"""
    configuration: str
    """Id of the configuration that it was delivered in."""
    id: str
    """SENDER:INCARNATION:COUNTER, the same at every node."""


class Handle:
    """How a service at one node speaks. It is good for one life of that node: after a crash it is silent."""

    def __init__(self, node: str, send: Callable[[bytes, Promise], None], now: Callable[[], int]) -> None:
        self.node = node
        self._send = send
        self._now = now

    def send(self, payload: bytes, service: str = "agreed") -> None:
        self._send(payload, Promise[service.upper()])

    @property
    def now_ns(self) -> int:
        """The node's clock."""
        return self._now()


class Service(Protocol):
    """One instance lives at one node from its start to its crash; a restart makes a new one."""

    def on_configuration(self, configuration: Configuration) -> None: ...
    def on_message(self, message: Message) -> None: ...
