"""The end of the log, for the page.

Given: the log. Promised: at most `KEPT` messages are kept, and at most `_READ_BYTES` and one batch are read at a
time, however fast the log grows and however large its messages are.
"""

from collections import deque
from collections.abc import Iterable

from reconvene.entries import EntryBatch
from reconvene.errors import ReconveneError
from reconvene.runtime.http.dashboard.samples import QueueSegment, ShownMessage
from reconvene.runtime.log.interface import SiteLog

__all__ = ["KEPT", "Tail", "excerpt", "segments"]

KEPT = 40
_READ_BYTES = 256 << 10
_TEXT = 120
"""Characters of a message that are shown."""


class Tail:
    def __init__(self, log: SiteLog, payloads: bool) -> None:
        self._log = log
        self._show = excerpt if payloads else _nothing
        self._entries: deque[ShownMessage] = deque(maxlen=KEPT)
        self._next = 0

    def look(self) -> list[ShownMessage]:
        """The last ordered messages, as far as they can be read."""
        start = max(self._next, self._log.green - KEPT, self._log.base)
        try:
            batches = self._log.read(start, KEPT, _READ_BYTES)
        except ReconveneError:  # damaged or just truncated: the messages read before are still right
            batches = []
        for batch in batches:
            self._take(batch)
        return list(self._entries)

    def waiting(self) -> list[ShownMessage]:
        """The last messages after the green line."""
        try:
            batches = self._log.pending(KEPT, newest=True)
        except ReconveneError:
            return []
        found = [
            ShownMessage(
                color.value,
                None,
                batch.author,
                batch.incarnation,
                batch.first + index,
                batch.time // 1_000_000,
                "data",
                False,
                len(message),
                self._show(message),
            )
            for color, batch in batches
            for index, message in list(enumerate(batch.messages))[-KEPT:]
        ]
        return found[-KEPT:]

    def _take(self, batch: EntryBatch) -> None:
        cut = max(len(batch.messages) - KEPT, 0)
        if self._next != batch.position + cut:
            self._entries.clear()  # what is shown has no gaps
        for index, message in enumerate(batch.messages[cut:], cut):
            self._entries.append(
                ShownMessage(
                    "green",
                    batch.position + index,
                    batch.author,
                    batch.incarnation,
                    batch.first + index,
                    batch.time // 1_000_000,
                    batch.kind,
                    index in batch.void,
                    len(message),
                    self._show(message),
                )
            )
        self._next = batch.position + len(batch.messages)


def segments(entries: Iterable[ShownMessage]) -> list[QueueSegment]:
    """The messages as segments, without their content."""
    found: list[QueueSegment] = []
    for entry in entries:
        last = found[-1] if found else None
        follows = last is not None and (last.color, last.author, last.first + last.count) == (
            entry.color,
            entry.author,
            entry.counter,
        )
        if last is not None and follows:
            found[-1] = QueueSegment(last.color, last.author, last.first, last.count + 1)
        else:
            found.append(QueueSegment(entry.color, entry.author, entry.counter, 1))
    return found


def _nothing(_: bytes) -> None:
    return None


def excerpt(message: bytes) -> str:
    """The beginning of a message, as text if it is text, otherwise in hex."""
    data = message[: 4 * _TEXT]
    text = data.decode("utf-8", errors="replace")
    if len(data) < len(message):
        text = text.rstrip("\ufffd")  # a character that was cut in two
    if "\ufffd" in text or not all(letter.isprintable() or letter in "\t\r\n" for letter in text):
        text = data[: _TEXT // 3].hex(" ")
    text = " ".join(text.split())
    return text if len(text) <= _TEXT and len(data) == len(message) else text[:_TEXT] + "…"
