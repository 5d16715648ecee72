"""What is appended, cut into what one request carries."""

from collections.abc import Iterable, Iterator

from reconvene.client.arguments import check_payloads
from reconvene.client.group import Data, as_bytes

__all__ = ["APPEND_BYTES", "APPEND_MESSAGES", "pieces"]

APPEND_BYTES = 256 << 10
APPEND_MESSAGES = 4_096
"""What one request carries, but for one longer message."""


def pieces(payloads: Iterable[Data]) -> Iterator[list[bytes]]:
    """Lazily: no more is taken of it than is asked for."""
    check_payloads(payloads)
    piece: list[bytes] = []
    size = 0
    for data in payloads:
        message = data if type(data) is bytes else as_bytes(data)
        if piece and (size + len(message) > APPEND_BYTES or len(piece) == APPEND_MESSAGES):
            yield piece
            piece, size = [], 0
        piece.append(message)
        size += len(message)
    if piece:
        yield piece
