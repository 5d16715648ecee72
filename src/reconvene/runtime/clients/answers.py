"""How a client's requests are answered, whether the client is behind a socket or in the same program."""

from collections.abc import Callable
from typing import Protocol

from reconvene.errors import ReconveneError, Rejected
from reconvene.wire.client_log import Appended
from reconvene.wire.clients import ToClient

__all__ = ["Answers", "LogAnswers", "Overstepped"]


class Answers(Protocol):
    def push(self, struct: ToClient, size: int = 64) -> None:
        """Sends an answer or event. `size`: about how many bytes it takes."""

    def answer(self, request: int) -> None:
        """The request was carried out."""

    def fail(self, request: int, error: ReconveneError, taken: int = 0) -> None:
        """The request failed. `taken`: how many of a send's messages were accepted, from the first on."""


class LogAnswers(Answers, Protocol):
    @property
    def appended(self) -> Callable[[Appended], None]:
        """Sends what became of an append."""


class Overstepped(Rejected):
    """The client breaks the protocol: its connection ends."""
