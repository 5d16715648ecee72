"""Requests to sites over their Unix sockets, from synchronous code.

Given: the socket of each site. Promised: every call ends within its time-out, whatever a site does. Several sites get
their requests at the same time, so that they reach all of them within about a millisecond.
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
"""Time left for a site's answer when the others have used up the time: it may have arrived long ago."""


class Line:
    """A connection to one site. Raises Unavailable if the connection fails, Rejected if the site refuses a
    request."""

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
        """Sends the request that `make` returns for its number."""
        self._number += 1
        try:
            self._write(make(self._number))
        except OSError as error:
            raise Unavailable(f"{self._path}: {error.strerror or error}") from None
        return self._number

    def answer(self, number: int, deadline: float) -> Any:
        """The site's answer: a document, or None if there is none."""
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
        """The next struct of the wanted type; others are skipped."""
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
            raise Unavailable(f"{self._path}: the site sends, but does not answer")
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
    """Connections to several sites, kept for the next request; a broken one is made again."""

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
        """The statuses of the sites that answer."""
        answers = self._ask_all(dict.fromkeys(names, Status))
        statuses = {name: answer for name, answer in answers.items() if isinstance(answer, dict)}
        for status in statuses.values():
            status["processes"] -= 1  # not counting this connection
        return statuses

    def block(self, blocked: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
        """`blocked`: by site, the sites that it is to be disconnected from. Returns the sites that failed, and
        why."""
        requests = {name: partial(_order, list(others)) for name, others in blocked.items()}
        answers = self._ask_all(requests)
        return {name: str(answer) for name, answer in answers.items() if isinstance(answer, Exception)}

    def block_above(self, blocked: Mapping[str, list[str]]) -> dict[str, str]:
        """The same for gateways' sites in the cluster above."""
        requests = {name: partial(_order_above, list(others)) for name, others in blocked.items()}
        answers = self._ask_all(requests)
        return {name: str(answer) for name, answer in answers.items() if isinstance(answer, Exception)}

    def _ask_all(self, requests: Mapping[str, Callable[[int], ToSite]]) -> dict[str, Any]:
        """The answer or the error of each site. Makes all connections first, then sends all requests, then reads all
        answers."""
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


def _order_above(others: list[str], number: int) -> Block:
    return Block(number, others, others, above=True)
