"""Requests to the log of a site inside the program: a call instead of a socket.

Given: the site's log. Promised: the same requests and answers as over a socket. The limits of the log hold; those of
a connection, which protect a site from its clients, do not.
"""

from collections.abc import Collection
from typing import cast

from reconvene.client.log_link import LogLink
from reconvene.client.requests import Requests
from reconvene.errors import ReconveneError, Rejected
from reconvene.room import UNBOUNDED
from reconvene.runtime.access.auth import Role
from reconvene.runtime.clients.log_requests import ClientLog
from reconvene.runtime.config.settings import Config
from reconvene.runtime.log.interface import SiteLog
from reconvene.wire.client_log import Append, Colored, LogAnswer, LogRequest
from reconvene.wire.clients import MAJOR, MINOR, ToClient, Told, ToSite, Welcome

__all__ = ["LocalChannel"]


class LocalChannel:
    """A `RequestChannel` to the client's side, its `Answers` to the site's side."""

    def __init__(self, port: SiteLog, config: Config, requests: Requests, link: LogLink) -> None:
        self.address = "this program"
        self.closed = False
        self.welcome = Welcome(
            MAJOR, MINOR, config.cluster, config.name, [], (0, 0, 0), Role.ADMIN.label, config.limits.message_bytes,
            UNBOUNDED, UNBOUNDED,
        )  # fmt: skip
        self._requests = requests
        self._link = link
        self.appended = link.appends.answer
        self._log = ClientLog(
            port,
            self,
            lambda role, what: None,
            config.log.red_messages,
            config.log.snapshot_bytes,
            MINOR,
            trusted=True,
            who=self.address,
        )
        self.held: Collection[object] = self._log.appends.held
        """Appends of this program that wait for room in the log. Nothing else bounds what is under way: it takes no
        memory twice. Appends of other clients do not count: no answer to this program would come when they have
        entered."""

    def send(self, struct: ToSite, size: int = 64) -> None:
        request = cast(LogRequest, struct)
        try:
            if type(request) is Append:
                self._log.appends.append(request)
            else:
                self._log.receive(request)
        except Rejected as error:
            self.fail(request.request, error)

    def close(self) -> None:
        """Appends that were sent are still answered."""
        self.closed = True
        self._log.close_questions()

    # -- the site answers

    def push(self, struct: ToClient, size: int = 64) -> None:
        if isinstance(struct, Colored):
            self._link.colored(struct)
        elif isinstance(struct, Told):
            self._requests.answer(struct.request, struct.document)
        else:
            answer = cast(LogAnswer, struct)
            self._requests.answer(answer.request, answer)

    def answer(self, request: int) -> None:
        self._requests.answer(request)

    def fail(self, request: int, error: ReconveneError, taken: int = 0) -> None:
        if not self._link.appends.fail(request, error):
            self._requests.fail(request, error)
