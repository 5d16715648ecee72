"""Groups over HTTP, against a real site."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.client.places import short_dir
from tests.runtime.http.api_site import Event, api_site

import reconvene
from reconvene.runtime.http.api import groups


async def until(events: AsyncIterator[Event], name: str) -> Event:
    async for event in events:
        if event.name == name:
            return event
    raise AssertionError(f"the stream ended before {name}")


def test_what_is_sent_over_http_is_heard_by_members_and_listeners() -> None:
    async def case(place: Path) -> None:
        async with (
            api_site(place) as api,
            reconvene.connect(f"unix:{place}/a/site.sock") as site,
            api.stream("/v1/groups/lobby/events") as events,
        ):
            view = await until(events, "view")
            assert view.data["own"] in view.data["members"]
            assert view.data["primary"] is True
            async with await site.join("lobby") as group:
                for number, service in enumerate(("agreed", "safe", "causal", "fifo")):
                    path = f"/v1/groups/lobby/messages?service={service}"
                    said = await api.ask("POST", path, b"message %d" % number)
                    assert (said.status, said.json) == (202, {"group": "lobby", "service": service})
                    heard = await until(events, "message")
                    assert (heard.data["data"], heard.data["service"]) == (f"message {number}", service)
                await group.send(b"\xff")
                heard = await until(events, "message")
                assert base64.b64decode(heard.data["data_base64"]) == b"\xff"
                received = []
                async for event in group:
                    if isinstance(event, reconvene.Message):
                        received.append(event.data)
                        if len(received) == 5:
                            break
                assert received == [b"message 0", b"message 1", b"message 2", b"message 3", b"\xff"]

    with short_dir() as place:
        asyncio.run(asyncio.wait_for(case(place), 40))


def test_bad_sends() -> None:
    async def case(place: Path) -> None:
        async with api_site(place) as api:
            for path, field in (
                ("/v1/groups/lobby/messages?service=best", "service"),
                (f"/v1/groups/{'x' * 256}/messages", "group"),
                ("/v1/groups/lobby/messages?timeout=x", "timeout"),
            ):
                said = await api.ask("POST", path, b"x")
                assert (said.status, said.json["outcome"]) == (400, "refused")
                assert said.json["error"].startswith(f"{field}: ")
            said = await api.get("/v1/groups/lobby/events?primary=maybe")
            assert said.status == 400
            said = await api.ask("POST", "/v1/groups/lobby/messages", b"x" * (16 << 20))
            assert said.status in (202, 413)

    with short_dir() as place:
        asyncio.run(asyncio.wait_for(case(place), 40))


def test_the_sender_leaves_when_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "IDLE_S", 0.2)

    async def case(place: Path) -> None:
        async with api_site(place) as api, api.stream("/v1/groups/lobby/events") as events:
            await api.ask("POST", "/v1/groups/lobby/messages", b"x")
            sizes: list[int] = []
            while sizes[-2:] != [2, 1]:
                sizes.append(len((await until(events, "view")).data["members"]))
            await api.ask("POST", "/v1/groups/lobby/messages", b"again")
            assert (await until(events, "message")).data["data"] in ("x", "again")

    with short_dir() as place:
        asyncio.run(asyncio.wait_for(case(place), 40))


def test_groups_of_the_sender_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MOST_GROUPS", 2)

    async def case(place: Path) -> None:
        async with api_site(place) as api:
            for name in ("one", "two"):
                assert (await api.ask("POST", f"/v1/groups/{name}/messages", b"x")).status == 202
            said = await api.ask("POST", "/v1/groups/three/messages", b"x")
            assert (said.status, said.json["outcome"]) == (429, "refused")
            assert said.headers["Retry-After"]

    with short_dir() as place:
        asyncio.run(asyncio.wait_for(case(place), 40))


def test_a_listener_that_does_not_read_is_bounded() -> None:
    """What waits for it never exceeds its limit; then it holds nothing any more, and its stream ends."""
    listener = groups._Listener(["a"], False, 1_000)
    for _ in range(100):
        listener._put(b"x" * 99)
        assert sum(map(len, listener._waiting)) <= 1_000
    assert listener.overflow
    assert listener.take() == b""
