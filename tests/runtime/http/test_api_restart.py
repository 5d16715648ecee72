"""The log over HTTP while sites are killed, and at sites that keep no replica."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest
from tests.client.places import cluster, short_dir
from tests.ports import free_ports
from tests.runtime.http.api_site import Api, Event, api_site, with_api
from tests.runtime.test_outposts import outpost

import reconvene
from reconvene.local import LocalCluster
from reconvene.outpost_site.node import running_outpost
from reconvene.runtime.config.settings import Config, LogSettings, Seal
from reconvene.runtime.node.main import running

PATIENCE_S = 60.0
COUNT = 60


async def stubborn(session: aiohttp.ClientSession, urls: list[str], number: int) -> None:
    """As a program does it: after an unknown outcome, the same request again, at whichever site answers."""
    headers = {"Idempotency-Key": f"till/{number}"}
    for attempt in range(1_000):
        url = urls[attempt % len(urls)]
        try:
            async with session.post(
                f"{url}/v1/log?timeout=2s", data=b"%d" % number, headers=headers, timeout=aiohttp.ClientTimeout(4)
            ) as answer:
                if answer.status in (200, 201):
                    return
                assert answer.status in (429, 503, 504), await answer.text()
        except (aiohttp.ClientError, TimeoutError):
            pass
        await asyncio.sleep(0.05)
    raise AssertionError(f"message {number} was never accepted")


async def resuming(session: aiohttp.ClientSession, port: int) -> AsyncIterator[Event]:
    """As an EventSource does it: whenever the stream ends, it goes on after the last event."""
    api, last = Api(session, port), ""
    while True:
        try:
            headers = {"Last_Event_ID": last} if last else {}
            async with api.stream("/v1/log/events", **headers) as events:
                async for event in events:
                    last = event.id
                    yield event
        except (aiohttp.ClientError, AssertionError):
            await asyncio.sleep(0.05)


@pytest.mark.long("kills and restarts a real site twice")
def test_a_killed_site_loses_nothing_and_a_follower_sees_each_message_once(tmp_path: Path) -> None:
    async def case(made: LocalCluster) -> list[Event]:
        ports = {name: made.choices.ports(name).http for name in made.names}
        urls = [f"http://127.0.0.1:{port}" for port in ports.values()]
        seen: list[Event] = []
        async with aiohttp.ClientSession() as session, asyncio.timeout(150):

            async def follow() -> None:
                async for event in resuming(session, ports["a"]):
                    seen.append(event)
                    if len(seen) == COUNT:
                        return

            following = asyncio.create_task(follow())
            for number in range(1, COUNT + 1):
                await stubborn(session, urls, number)
                if number in (COUNT // 4, COUNT // 2):
                    await asyncio.to_thread(made.crash, "a")
                if number in (COUNT // 4 + 8, COUNT // 2 + 8):
                    await asyncio.to_thread(made.restart, "a")
            await following
            async with session.get(f"{urls[1]}/v1/log?limit=1000") as answer:
                entries = json.loads(await answer.read())["entries"]
            assert [entry["id"] for entry in entries] == [event.data["id"] for event in seen]
        return seen

    with LocalCluster.create(tmp_path / "c", nodes=3, trace=False) as made:
        made.start(timeout_s=PATIENCE_S)
        seen = asyncio.run(case(made))
    assert sorted(int(event.data["data"]) for event in seen) == list(range(1, COUNT + 1))
    positions = [int(event.id) for event in seen]
    assert positions == sorted(set(positions))


def test_an_outpost_takes_appends_and_refuses_the_rest_in_one_line() -> None:
    async def case(directory: Path) -> None:
        told = cluster(directory)[0]
        away = with_api(outpost(directory))
        assert away.http.address is not None
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(running(told))
            await stack.enter_async_context(running_outpost(away))
            session = await stack.enter_async_context(aiohttp.ClientSession())
            api = Api(session, away.http.address[1])
            said = await api.append(b"sold", "?wait=ordered&timeout=20s", Idempotency_Key="till/1")
            assert (said.status, said.json["id"], said.json["position"]) == (201, "o:1:1", 0)
            said = await api.append(b"other", Idempotency_Key="till/1")
            assert said.status in (201, 409)
            assert (await api.get("/v1/log/health?require=order")).status == 200
            assert (await api.get("/v1/log/status")).json["outpost"] is True
            assert (await api.get("/v1/log/pending")).status == 200
            for path in ("/v1/log", "/v1/log/events", "/v1/log/entries/0", "/v1/groups/lobby/events"):
                said = await api.get(path)
                assert (said.status, said.json["outcome"]) == (421, "refused")
                assert "outpost" in said.json["error"]
                assert "\n" not in said.json["error"]

    with short_dir() as directory:
        asyncio.run(asyncio.wait_for(case(directory), 50))


def test_a_follower_is_read_and_refuses_appends() -> None:
    async def case(directory: Path) -> None:
        told = cluster(directory)[0]
        behind = Config(
            cluster="beside",
            name="f",
            sites={"f": ("127.0.0.1", free_ports(1)[0])},
            dir=directory / "f",
            seal=Seal(insecure=True),
            log=LogSettings(follow=(f"unix:{directory}/a/site.sock",)),
        )
        async with api_site(directory, told) as api:
            while (await api.append(b"x", "?wait=ordered&timeout=1s")).status == 202:
                pass
            made = with_api(behind)
            assert made.http.address is not None
            follower = Api(api.session, made.http.address[1])
            async with reconvene.open(made), follower.stream("/v1/log/events") as events:
                assert (await anext(events)).data["data"] == "x"
                assert (await follower.get("/v1/log")).json["entries"]
                said = await follower.append(b"y")
                assert (said.status, said.json["outcome"]) == (421, "refused")
                assert "\n" not in said.json["error"]
                said = await follower.get("/v1/log/health")
                assert (said.status, said.json["appends"]) == (503, False)

    with short_dir() as directory:
        asyncio.run(asyncio.wait_for(case(directory), 50))
