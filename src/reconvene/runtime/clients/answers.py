"""How a client's requests are answered, whether the client is behind a socket or in the same program."""

from typing import Protocol

from reconvene.errors import ReconveneError, Rejected
from reconvene.wire.clients import ToClient

__all__ = ["Answers", "Overstepped"]


class Answers(Protocol):
    def push(self, struct: ToClient, size: int = 64) -> None:
        """Sends an answer or event. `size`: about how many bytes it takes."""

    def answer(self, request: int) -> None:
        """The request was carried out."""

    def fail(self, request: int, error: ReconveneError, taken: int = 0) -> None:
        """The request failed. `taken`: how many of a send's messages were accepted, from the first on."""


class Overstepped(Rejected):
    """The client breaks the protocol: its connection ends."""
