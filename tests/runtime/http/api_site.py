"""A real site with its API over HTTP, and a client that is nothing but HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
from msgspec.structs import replace
from tests.client.places import cluster
from tests.ports import free_ports

from reconvene.runtime.config.settings import Config, Http
from reconvene.runtime.node.main import running
from reconvene.runtime.site.engine import SiteEngine

__all__ = ["Api", "Event", "Said", "api_site", "events_of", "with_api"]


class Said(NamedTuple):
    status: int
    json: Any
    headers: Any


class Event(NamedTuple):
    name: str
    id: str
    data: Any


class Api:
    def __init__(self, session: aiohttp.ClientSession, port: int, engine: SiteEngine | None = None) -> None:
        self.session = session
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._engine = engine

    @property
    def engine(self) -> SiteEngine:
        assert self._engine is not None
        return self._engine

    async def ask(self, method: str, path: str, data: bytes | None = None, **headers: str) -> Said:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        body = None if data is None else BytesIO(data)
        async with self.session.request(method, f"{self.url}{path}", data=body, headers=names) as answer:
            said = await answer.read()
            is_json = answer.content_type == "application/json"
            return Said(answer.status, json.loads(said) if is_json else said, answer.headers)

    async def get(self, path: str, **headers: str) -> Said:
        return await self.ask("GET", path, None, **headers)

    async def append(self, data: bytes, query: str = "", **headers: str) -> Said:
        return await self.ask("POST", f"/v1/log{query}", data, **headers)

    @asynccontextmanager
    async def stream(self, path: str, **headers: str) -> AsyncIterator[AsyncIterator[Event]]:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.get(f"{self.url}{path}", headers=names) as answer:
            assert answer.status == 200, await answer.text()
            assert answer.content_type == "text/event-stream"
            yield events_of(answer.content)


async def events_of(content: aiohttp.StreamReader) -> AsyncIterator[Event]:
    """As a browser's EventSource reads them."""
    text = b""
    async for chunk in content.iter_any():
        *events, text = (text + chunk).split(b"\n\n")
        for event in events:
            fields = dict(line.split(": ", 1) for line in event.decode().split("\n") if not line.startswith(":"))
            if "data" in fields:
                yield Event(fields.get("event", "message"), fields.get("id", ""), json.loads(fields["data"]))


def with_api(config: Config, **http: Any) -> Config:
    settings: dict[str, Any] = {"address": ("127.0.0.1", free_ports(1)[0]), "api": True, **http}
    return replace(config, http=Http(**settings))


@asynccontextmanager
async def api_site(directory: Path, config: Config | None = None, **http: Any) -> AsyncIterator[Api]:
    """By default the only site of its cluster, so it orders by itself."""
    made = with_api(cluster(directory)[0] if config is None else config, **http)
    assert made.http.address is not None
    async with running(made) as engine, aiohttp.ClientSession() as session:
        api = Api(session, made.http.address[1], engine)
        if config is None:
            await until_ordering(api)
        yield api


async def until_ordering(api: Api) -> None:
    while api.engine.log is None or api.engine.log.why_no_order() is not None:
        await asyncio.sleep(0.01)
