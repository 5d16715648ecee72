"""The log and groups over HTTP: what each path does.

Given: requests whose key `HttpServer` has checked. Promised: the same roles as for clients, and the limits of
`limits`. Everything is asked of the site through `runtime.site.interface`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from aiohttp import web

from reconvene.errors import ReconveneError, Rejected
from reconvene.ids import Service
from reconvene.runtime.config.settings import Config
from reconvene.runtime.diagnostics.structured_logging import WARNING, event
from reconvene.runtime.http.answers import Refusal, json_answer
from reconvene.runtime.http.api import asking
from reconvene.runtime.http.api.appends import append
from reconvene.runtime.http.api.documents import LogHealth, LogPage, LogPending, Sent, log_entry, pending_messages
from reconvene.runtime.http.api.following import check_start, follow
from reconvene.runtime.http.api.groups import GroupSenders, Listening, check_name
from reconvene.runtime.http.api.limits import Connections, Places
from reconvene.runtime.http.api.operations import API, ENCODINGS, SERVICES, Operation
from reconvene.runtime.http.api.pages import Cursor, read_page
from reconvene.runtime.http.api.refusals import refused
from reconvene.runtime.http.api.streams import CutOff, Stream
from reconvene.runtime.log.interface import SiteLog
from reconvene.runtime.log.pending import pending_within
from reconvene.runtime.site.interface import Engine
from reconvene.wire.client_log import FETCH_MESSAGES, log_message_bytes

__all__ = ["Api"]

_FIRST_PAGE = 100
_GRACE_S = 5.0
"""For the answer, after the time that a request may wait."""

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Api:
    def __init__(self, config: Config, engine: Engine, log: logging.Logger, connections: Connections) -> None:
        self._config = config
        self._engine = engine
        self._log = log
        self._connections = connections
        self.places = Places(config, connections)
        self._senders = GroupSenders(engine)
        self._closing = asyncio.Event()

    def add_to(self, router: web.UrlDispatcher) -> None:
        for operation in API:
            handler = partial(self._handle, operation, getattr(self, f"_{operation.name}"))
            if operation.method == "GET":
                router.add_get(operation.path, handler, allow_head=not operation.events)
            else:
                router.add_post(operation.path, handler)

    def close(self) -> None:
        """Ends all streams."""
        self._closing.set()
        self._senders.close()

    async def _handle(self, operation: Operation, handler: _Handler, request: web.Request) -> web.StreamResponse:
        asking.check_origin(request)
        self._need(operation, request)
        asking.check_names(request, operation.query)
        if request.body_exists and not operation.body:
            raise Refusal(413, "body: expected none")
        try:
            return await handler(request)
        except ReconveneError as error:
            raise refused(error) from None

    def _need(self, operation: Operation, request: web.Request) -> None:
        own, needed = self._connections.role_of(request), operation.role
        assert needed is not None, "every operation of the API has a role"
        if own is None or own < needed:
            have = "none" if own is None else own.label
            event(
                self._log, WARNING, "request refused", client=request.remote, what=operation.what, role=have,
                needed=needed.label,
            )  # fmt: skip
            raise Refusal(403, f"the role {needed.label} is needed to {operation.what}, this client has {have}")

    @property
    def _port(self) -> SiteLog:
        port = self._engine.log
        if port is None:
            raise Rejected(f"site {self._config.name} takes no part in the log: see log.enabled")
        return port

    # -- the log

    async def _append(self, request: web.Request) -> web.Response:
        port = self._port
        ordered = asking.choice(request, "wait", ("durable", "ordered")) == "ordered"
        seconds = asking.duration_s(request, "timeout", "30s")
        key = asking.idempotency(request)
        most = log_message_bytes(self._config.limits.message_bytes)
        with self.places.wait(request, asking.BODY_S + seconds + _GRACE_S):
            async with asking.body(request, most, self.places) as data:
                receipt = await append(port, data, key, ordered, seconds)
        if ordered and not receipt.ordered:
            return json_answer(receipt, 202)
        answer = json_answer(receipt, 200 if receipt.duplicate else 201)
        if receipt.position is not None:
            answer.headers["Location"] = f"/v1/log/entries/{receipt.position}"
        return answer

    async def _read(self, request: web.Request) -> web.Response:
        port, base64 = self._port, _base64(request)
        start = asking.cursor(request.query.get("start", "0"), "start")
        stop = asking.number(request, "stop", -1, 0, 1 << 62)
        limit = asking.number(request, "limit", _FIRST_PAGE, 1, FETCH_MESSAGES)
        page = read_page(port, start, None if stop < 0 else stop, limit)
        entries = [log_entry(str(cursor), entry, base64) for cursor, entry in page.entries]
        return json_answer(LogPage(port.base, port.green, str(page.next), entries))

    async def _entry(self, request: web.Request) -> web.Response:
        port, text = self._port, request.match_info["position"]
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise Refusal(400, "position: expected a number")
        position = int(text)
        check_start(port, Cursor(position))
        batches = port.read(position, 1, 1) if position < port.green else []
        found = [entry for batch in batches for entry in batch.cut(position, position + 1).entries()]
        if not found:
            raise Refusal(404, f"position {position}: there is no message of an application")
        entry = found[0]
        headers = {"Reconvene-Id": entry.id, "Reconvene-Time": str(entry.time)}
        return web.Response(body=entry.data, content_type="application/octet-stream", headers=headers)

    async def _follow(self, request: web.Request) -> web.StreamResponse:
        port, base64 = self._port, _base64(request)
        last = request.headers.get("Last-Event-ID")
        if last is not None:
            start = asking.cursor(last, "Last-Event-ID").after
        elif request.query.get("start") == "end":
            start = Cursor(port.green)
        else:
            start = asking.cursor(request.query.get("start", "0"), "start")
        check_start(port, start)
        with self.places.stream(request) as cut:
            stream = Stream(request, cut, self._closing)
            return await self._run(request, stream, lambda _: follow(port, stream, start, base64))

    async def _pending(self, request: web.Request) -> web.Response:
        port, base64 = self._port, _base64(request)
        limit = asking.number(request, "limit", _FIRST_PAGE, 1, FETCH_MESSAGES)
        found, _ = pending_within(port, limit)
        messages = [one for color, batch in found for one in pending_messages(color, batch, base64)]
        return json_answer(LogPending(port.green, messages[:limit]))

    async def _log_status(self, request: web.Request) -> web.Response:
        return json_answer(self._port.status())

    async def _log_health(self, request: web.Request) -> web.Response:
        port = self._port
        ordering = asking.choice(request, "require", ("appends", "order")) == "order"
        no_appends, no_order = port.why_no_appends(), port.why_no_order()
        well = no_appends is None and (no_order is None or not ordering)
        health = LogHealth(no_appends is None, no_order is None, no_appends, no_order)
        return json_answer(health, 200 if well else 503)

    # -- groups

    async def _send(self, request: web.Request) -> web.Response:
        group = self._group(request)
        service = Service[asking.choice(request, "service", SERVICES).upper()]
        seconds = asking.duration_s(request, "timeout", "30s")
        with self.places.wait(request, asking.BODY_S + seconds + _GRACE_S):
            async with asking.body(request, self._config.limits.message_bytes, self.places) as data:
                await self._senders.send(group, service, data, seconds)
        return json_answer(Sent(group, service.label), 202)

    async def _listen(self, request: web.Request) -> web.StreamResponse:
        group, primary, base64 = self._group(request), asking.flag(request, "primary"), _base64(request)
        most = self._config.limits.inbox_bytes

        with self.places.stream(request) as cut:
            # It joins before the answer begins, so that a refusal is a status.
            listening = Listening(self._engine, group, primary, base64, most)
            try:
                return await self._run(request, Stream(request, cut, self._closing), listening.run)
            finally:
                listening.close()

    def _group(self, request: web.Request) -> str:
        group = request.match_info["group"]
        check_name(group, self._config.limits.group_name_bytes)
        return group

    # -- streams

    async def _run(
        self, request: web.Request, stream: Stream, run: Callable[[Stream], Awaitable[None]]
    ) -> web.StreamResponse:
        try:
            await stream.begin()
            await run(stream)
        except ConnectionError:
            pass  # the reader is gone
        except CutOff:
            stream.cut()
            stream.response.cut_off = True
            event(self._log, WARNING, "reader cut off", client=request.remote, path=request.path)
        return stream.response


def _base64(request: web.Request) -> bool:
    return asking.choice(request, "encoding", ENCODINGS) == "base64"
