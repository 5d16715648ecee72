"""Questions and orders to sites over their Unix sockets, from code that waits for the answer.

Given: where each site listens. Promised: every call ends within its time-out, whatever a site does or fails to do;
several sites are asked at the same time, so that an order reaches all of them within a millisecond or so.
"""

import secrets
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from reconvene.errors import Malformed, Rejected, Unavailable
from reconvene.wire.clients import (
    HANDSHAKE_BYTES,
    MAJOR,
    MINOR,
    SLACK_BYTES,
    Block,
    Done,
    Failed,
    Goodbye,
    Hello,
    Refused,
    Status,
    Told,
    ToSite,
    Welcome,
    decode_from_site,
    encode,
)
from reconvene.wire.handshake import NONCE_BYTES
from reconvene.wire.records import RecordReader, frame

__all__ = ["Line", "Lines"]

_GRACE_S = 0.05
"""What is left for a site's answer when the others have used up the time: it may have come long ago."""


class Line:
    """A connection to one site. Whatever goes wrong with it is Unavailable; what the site refuses is Rejected."""

    def __init__(self, path: Path, timeout_s: float = 2.0) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._reader = RecordReader(HANDSHAKE_BYTES)
        self._structs: deque[Any] = deque()
        self._number = 0
        self._socket.settimeout(timeout_s)
        try:
            self._socket.connect(str(path))
            self._write(Hello(MAJOR, MINOR, "", secrets.token_bytes(NONCE_BYTES)))
            welcome = self._read(Welcome, time.monotonic() + timeout_s)
        except OSError as error:
            self.close()
            raise Unavailable(f"{path}: no site answers there: {error.strerror or error}") from None
        except BaseException:
            self.close()
            raise
        self._reader.limit = welcome.message_bytes + SLACK_BYTES

    def close(self) -> None:
        self._socket.close()

    def ask(self, make: Callable[[int], ToSite]) -> int:
        """Sends the request that `make` makes from its number."""
        self._number += 1
        try:
            self._write(make(self._number))
        except OSError as error:
            raise Unavailable(f"{self._path}: {error.strerror or error}") from None
        return self._number

    def answer(self, number: int, deadline: float) -> Any:
        """What the site answered: a document, or None where it just did it."""
        while True:
            answer = self._read(Told | Done | Failed, deadline)
            match answer:
                case Told() if answer.request == number:
                    return answer.document
                case Done() if number in answer.requests:
                    return None
                case Failed() if answer.request == number:
                    error = Rejected if answer.kind == "rejected" else Unavailable
                    raise error(answer.reason)

    def _write(self, struct: ToSite) -> None:
        self._socket.sendall(b"".join(frame(encode([struct]))))

    def _read(self, wanted: Any, deadline: float) -> Any:
        """The next struct that is wanted; others are passed over."""
        while True:
            while self._structs:
                struct = self._structs.popleft()
                if isinstance(struct, Refused | Goodbye):
                    raise Unavailable(f"{self._path}: {struct.reason}")
                if isinstance(struct, wanted):
                    return struct
            self._receive(deadline)

    def _receive(self, deadline: float) -> None:
        left_s = deadline - time.monotonic()
        if left_s < -1.0:
            raise Unavailable(f"{self._path}: the site talks, and does not answer")
        self._socket.settimeout(max(left_s, _GRACE_S))
        try:
            data = self._socket.recv(1 << 16)
            if not data:
                raise Unavailable(f"{self._path}: the site ended the connection")
            for record in self._reader.feed(data):
                self._structs += decode_from_site(record)
        except TimeoutError:
            raise Unavailable(f"{self._path}: the site does not answer in time") from None
        except (OSError, Malformed) as error:
            raise Unavailable(f"{self._path}: {error}") from None


class Lines:
    """Connections to several sites, kept for the next question; one that broke is made again."""

    def __init__(self, sockets: Mapping[str, Path], timeout_s: float = 2.0) -> None:
        self._sockets = sockets
        self._timeout_s = timeout_s
        self._lines: dict[str, Line] = {}

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        for line in self._lines.values():
            line.close()
        self._lines.clear()

    def statuses(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Of those that answer."""
        answers = self._ask_all(dict.fromkeys(names, Status))
        statuses = {name: answer for name, answer in answers.items() if isinstance(answer, dict)}
        for status in statuses.values():
            status["processes"] -= 1  # this line itself, which is no user of the site's
        return statuses

    def block(self, blocked: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
        """By site: with whom it exchanges nothing from now on. Gives those that did not do it, and why."""
        requests = {name: partial(_order, list(others)) for name, others in blocked.items()}
        answers = self._ask_all(requests)
        return {name: str(answer) for name, answer in answers.items() if isinstance(answer, Exception)}

    def _ask_all(self, requests: Mapping[str, Callable[[int], ToSite]]) -> dict[str, Any]:
        """By site: its answer, or the error. All connections first, then all requests, then all answers."""
        deadline = time.monotonic() + self._timeout_s
        answers: dict[str, Any] = {}
        asked: dict[str, int] = {}
        for name in requests:
            if name not in self._lines:
                try:
                    self._lines[name] = Line(self._sockets[name], max(deadline - time.monotonic(), _GRACE_S))
                except Unavailable as error:
                    answers[name] = error
        for name, make in requests.items():
            if name not in answers:
                try:
                    asked[name] = self._lines[name].ask(make)
                except Unavailable as error:
                    answers[name] = self._lost(name, error)
        for name, number in asked.items():
            try:
                answers[name] = self._lines[name].answer(number, deadline)
            except Unavailable as error:
                answers[name] = self._lost(name, error)
            except Rejected as error:
                answers[name] = error
        return answers

    def _lost(self, name: str, error: Unavailable) -> Unavailable:
        self._lines.pop(name).close()
        return error


def _order(others: list[str], number: int) -> Block:
    return Block(number, others, others)
