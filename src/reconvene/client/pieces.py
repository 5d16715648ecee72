"""What is appended, cut into what one request carries."""

from collections.abc import Iterable, Iterator

from reconvene.client.arguments import check_payloads
from reconvene.client.group import Data, as_bytes
from reconvene.client.pending_append import APPEND_BYTES, APPEND_MESSAGES

__all__ = ["pieces"]


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
