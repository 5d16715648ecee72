"""Requests to the ISIS layer of a site inside the program: a call instead of a socket."""

from collections.abc import Collection
from typing import cast

from reconvene.client.isis_link import IsisLink
from reconvene.client.requests import Requests
from reconvene.errors import ReconveneError, Rejected
from reconvene.room import UNBOUNDED
from reconvene.runtime.access.auth import Role
from reconvene.runtime.clients.isis_requests import ClientIsis
from reconvene.runtime.config.settings import Config
from reconvene.runtime.isis.interface import SiteIsis
from reconvene.wire.client_isis import IsisAnswer, IsisRequest
from reconvene.wire.clients import MAJOR, MINOR, ToClient, Told, ToSite, Welcome

__all__ = ["LocalIsis"]


class LocalIsis:
    """A `RequestChannel` to the client's side, its `Answers` to the site's side."""

    def __init__(self, port: SiteIsis, config: Config, requests: Requests, link: IsisLink) -> None:
        self.address = "this program"
        self.closed = False
        self.held: Collection[object] = ()
        self.welcome = Welcome(
            MAJOR, MINOR, config.cluster, config.name, [], (0, 0, 0), Role.ADMIN.label, config.limits.message_bytes,
            UNBOUNDED, UNBOUNDED,
        )  # fmt: skip
        self._requests = requests
        self._link = link
        self._isis = ClientIsis(port, self, lambda role, what: None, link.casts.sent)

    def send(self, struct: ToSite, size: int = 64) -> None:
        request = cast(IsisRequest, struct)
        try:
            self._isis.receive(request)
        except Rejected as error:
            self.fail(request.request, error)

    # -- the site answers

    def push(self, struct: ToClient, size: int = 64) -> None:
        if isinstance(struct, Told):
            self._requests.answer(struct.request, struct.document)
        else:
            self._link.receive(cast(IsisAnswer, struct))

    def answer(self, request: int) -> None:
        self._requests.answer(request)

    def fail(self, request: int, error: ReconveneError, taken: int = 0) -> None:
        if not self._link.casts.fail(request, error):
            self._requests.fail(request, error)
