"""How a client's requests are answered, whether the client is behind a socket or in the same program."""

from typing import Protocol

from reconvene.errors import ReconveneError, Rejected
from reconvene.wire.clients import ToClient

__all__ = ["Answers", "Overstepped"]


class Answers(Protocol):
    def push(self, struct: ToClient, size: int = 64) -> None:
        """`size`: about how many bytes it takes."""

    def answer(self, request: int) -> None:
        """The request was carried out."""

    def fail(self, request: int, error: ReconveneError, taken: int = 0) -> None:
        """It was not. `taken`: of the messages of a send, from the first on."""


class Overstepped(Rejected):
    """The client breaks the protocol: its connection ends."""
