"""The log over HTTP, against a real site."""

import asyncio
import base64
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace
from tests.client.places import cluster, short_dir
from tests.runtime.http.api_site import Api, api_site

import reconvene
from reconvene.runtime.access.key_files import add_client_key
from reconvene.runtime.config.settings import Http, LogSettings
from reconvene.runtime.http.api import asking, streams


@pytest.fixture
def place() -> Iterator[Path]:
    with short_dir() as directory:
        yield directory


class Raw:
    """Connections that speak as they please. All are closed at the end."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> "Raw":
        return self

    async def __aexit__(self, *_: object) -> None:
        for writer in self._writers:
            writer.transport.abort()
        for writer in self._writers:
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def send(self, data: bytes) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers.append(writer)
        with suppress(ConnectionError):
            writer.write(data)
            await writer.drain()
        return reader

    async def status(self, data: bytes) -> bytes:
        """Of the answer; empty if there is none."""
        reader = await self.send(data)
        with suppress(ConnectionError):
            return (await reader.readline())[9:12]
        return b""

    def close(self, count: int) -> None:
        """The last so many."""
        for writer in self._writers[-count:]:
            writer.transport.abort()


def run(case: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(50):
            await case()

    asyncio.run(bounded())


# -- appending


def test_an_append_is_durable_and_then_ordered(place: Path) -> None:
    async def case() -> None:
        async with api_site(place) as api:
            said = await api.append(b"one")
            assert said.status == 201
            assert said.json["id"] == "a:1:1"
            assert said.json["duplicate"] is False
            said = await api.append(b"two", "?wait=ordered&timeout=10s")
            assert said.status == 201
            assert said.json == {
                "id": "a:1:2", "duplicate": False, "ordered": True, "position": 1, "why": None,
            }  # fmt: skip
            assert said.headers["Location"] == "/v1/log/entries/1"
            assert (await api.get("/v1/log/entries/1")).json == b"two"
            assert (await api.append(b"")).status == 201, "an empty message is one"

    run(case)


def test_a_retried_append_counts_once_also_at_another_interface(place: Path) -> None:
    async def case() -> None:
        async with api_site(place) as api:
            first = await api.append(b"coffee", Idempotency_Key="till 7/1")
            again = await api.append(b"coffee", "?wait=ordered", Idempotency_Key='"till 7/1"')
            assert (first.status, again.status) == (201, 200)
            assert again.json["duplicate"] is True
            assert again.json["id"] == first.json["id"]
            assert again.json["position"] == 0
            async with reconvene.connect(f"unix:{place}/a/site.sock") as site:
                receipt = await site.log.append(b"coffee", session=b"till 7", number=1)
                assert receipt.duplicate
                assert [entry.data for entry in await site.log.read()] == [b"coffee"]

    run(case)


def test_other_data_under_one_key_is_a_conflict(place: Path) -> None:
    async def case() -> None:
        async with api_site(place) as api:
            await api.append(b"coffee", Idempotency_Key="till/1")
            said = await api.append(b"tea", Idempotency_Key="till/1")
            assert (said.status, said.json["outcome"]) == (409, "refused")
            assert "with other data" in said.json["error"]
            for number in range(3, 3 + 2 * 63, 2):
                assert (await api.append(b"x", Idempotency_Key=f"till/{number}")).status == 201
            said = await api.append(b"x", Idempotency_Key="till/999")
            assert (said.status, said.json["outcome"]) == (409, "refused"), "more gaps than the log remembers"

    run(case)


@pytest.mark.parametrize(
    ("query", "key", "field"),
    [
        ("?wait=forever", None, "wait"),
        ("?timeout=5", None, "timeout"),
        ("?timeout=0s", None, "timeout"),
        ("?timeout=2min", None, "timeout"),
        ("?timout=5s", None, "timout"),
        ("?wait=durable&wait=durable", None, "wait"),
        ("", "8e03978e-40d5-43dd-bc93-6894a57f9324", "Idempotency-Key"),
        ("", "till/0", "Idempotency-Key"),
        ("", "till/x", "Idempotency-Key"),
        ("", "/1", "Idempotency-Key"),
        ("", f"{'x' * 65}/1", "Idempotency-Key"),
    ],
)
def test_bad_input_names_the_field(place: Path, query: str, key: str | None, field: str) -> None:
    async def case() -> None:
        async with api_site(place) as api:
            headers = {} if key is None else {"Idempotency_Key": key}
            said = await api.append(b"x", query, **headers)
            assert said.status == 400
            assert said.json["error"].startswith(f"{field}: ")
            assert said.json["outcome"] == "refused"
            assert "\n" not in said.json["error"]
            assert (await api.get("/v1/log")).json["green"] == 0

    run(case)


def test_in_a_minority_it_is_accepted_and_has_no_place(place: Path) -> None:
    async def case() -> None:
        async with api_site(place, cluster(place, "abc")[0]) as api:
            said = await api.append(b"alone", "?wait=ordered&timeout=300ms")
            assert said.status == 202
            assert said.json["id"] == "a:1:1"
            assert (said.json["ordered"], said.json["position"]) == (False, None)
            assert said.json["why"]
            said = await api.get("/v1/log/pending")
            assert [(one["id"], one["data"]) for one in said.json["messages"]] == [("a:1:1", "alone")]
            said = await api.get("/v1/log/health")
            assert (said.status, said.json["appends"], said.json["orders"]) == (200, True, False)
            said = await api.get("/v1/log/health?require=order")
            assert said.status == 503
            assert said.json["why_no_order"]
            assert (await api.get("/v1/log/status")).json["primary"] == 0

    run(case)


def test_where_the_log_has_no_room_it_says_when_to_try_again(place: Path) -> None:
    async def case() -> None:
        config = cluster(place, "abc", log=LogSettings(red_messages=2))[0]
        async with api_site(place, config) as api:
            for number in (1, 2):
                assert (await api.append(b"x", Idempotency_Key=f"s/{number}")).status == 201
            said = await api.append(b"x", "?timeout=200ms", Idempotency_Key="s/3")
            assert (said.status, said.json["outcome"]) == (429, "refused")
            assert said.headers["Retry-After"] == "1"
            assert "log.red_messages" in said.json["error"]
            assert api.engine.log is not None
            assert not api.engine.log.room.waiting, "a refused append does not wait on"
            health = await api.get("/v1/log/health")
            assert (health.status, health.json["appends"]) == (503, False)
            pending = await api.get("/v1/log/pending")
            assert len(pending.json["messages"]) == 2, "what was refused did not happen later"

    run(case)


def test_a_log_that_has_not_begun_is_unavailable(place: Path) -> None:
    async def case() -> None:
        config = replace(cluster(place)[0], dir=place / "empty")
        async with api_site(place, config) as api:
            said = await api.append(b"x")
            assert (said.status, said.json["outcome"]) == (503, "refused")
            assert "reconvene log init" in said.json["error"]
            assert said.headers["Retry-After"]
            assert (await api.get("/v1/log/health")).status == 503

    run(case)


def test_a_site_that_stops_leaves_the_outcome_open_only_where_it_is(place: Path) -> None:
    """From the moment that the log has taken it until it is durable, nobody knows."""

    async def case() -> None:
        async with api_site(place) as api:
            log = api.engine.log
            assert log is not None
            log.durable.when = lambda *_: None  # type: ignore[method-assign]
            said = await api.append(b"x", "?timeout=200ms", Idempotency_Key="s/1")
            assert (said.status, said.json["outcome"]) == (504, "unknown")

    run(case)


def test_a_site_without_a_replica_says_so(place: Path) -> None:
    async def case() -> None:
        config = replace(cluster(place)[0], log=LogSettings(enabled=False))
        async with api_site(place, config) as api:
            for said in (await api.append(b"x"), await api.get("/v1/log"), await api.get("/v1/log/events")):
                assert (said.status, said.json["outcome"]) == (421, "refused")
                assert "\n" not in said.json["error"]

    run(case)


# -- reading


def test_a_range_page_by_page(place: Path) -> None:
    async def case() -> None:
        async with api_site(place) as api:
            for number in range(25):
                await api.append(b"%d" % number)
            await api.append(b"\xff\x00", "?wait=ordered")
            seen, start = [], "0"
            while True:
                page = (await api.get(f"/v1/log?start={start}&limit=7")).json
                seen += page["entries"]
                assert len(page["entries"]) <= 7
                start = page["next"]
                if start == str(page["green"]):
                    break
            assert [entry["position"] for entry in seen] == list(range(26))
            assert seen[7]["data"] == "7"
            assert base64.b64decode(seen[25]["data_base64"]) == b"\xff\x00"
            page = (await api.get("/v1/log?start=3&stop=5&encoding=base64")).json
            assert [base64.b64decode(entry["data_base64"]) for entry in page["entries"]] == [b"3", b"4"]
            assert (await api.get("/v1/log?start=99")).json["entries"] == []
            assert (await api.get("/v1/log/entries/99")).status == 404
            assert (await api.get("/v1/log/entries/x")).status == 400
            for bad in ("start=-1", "stop=x", "limit=0", "limit=8193", "encoding=hex", "start=1.x"):
                said = await api.get(f"/v1/log?{bad}")
                assert said.status == 400
                assert said.json["error"].startswith(bad.partition("=")[0])

    run(case)


def test_a_transaction_is_read_at_its_commit_page_by_page(place: Path) -> None:
    """The same as a client reads, whatever the pages are; staged messages are seen nowhere else."""

    async def case() -> None:
        async with api_site(place) as api, reconvene.connect(f"unix:{place}/a/site.sock") as site:
            await (await site.log.append(b"before")).ordered()
            async with site.log.staging(timeout=10) as staging:
                await staging.put(b"row %d" % number for number in range(10))
                places = await staging.ordered()
                await (await site.log.append(b"between")).ordered()
                await site.log.commit(places, name="rows", version=1)
            await (await site.log.append(b"after")).ordered()
            expected = [entry.data.decode() for entry in await site.log.read()]
            assert len(expected) == 13
            for limit in (1, 3, 4, 100):
                seen, start = [], "0"
                while True:
                    page = (await api.get(f"/v1/log?start={start}&limit={limit}")).json
                    seen += [entry["data"] for entry in page["entries"]]
                    start = page["next"]
                    if start == str(page["green"]):
                        break
                assert seen == expected
            ids = []
            async with api.stream("/v1/log/events") as events:
                async for event in events:
                    ids.append(event.id)
                    if len(ids) == len(expected):
                        break
            for at, last in enumerate(ids[:-1]):  # from every event on, nothing is missing and nothing comes twice
                async with api.stream("/v1/log/events", Last_Event_ID=last) as events:
                    rest = []
                    async for event in events:
                        rest.append(event.data["data"])
                        if len(rest) == len(expected) - at - 1:
                            break
                assert rest == expected[at + 1 :]

    run(case)


def test_what_is_truncated_is_gone(place: Path) -> None:
    async def case() -> None:
        config = cluster(place, log=LogSettings(retain_bytes=1))[0]
        async with api_site(place, config) as api:
            while (await api.get("/v1/log")).status != 410:
                await api.append(b"x" * 10_000, "?wait=ordered")
            base = (await api.get("/v1/log/status")).json["base"]
            for path in ("/v1/log/entries/0", "/v1/log/events"):
                said = await api.get(path)
                assert (said.status, said.json["outcome"]) == (410, "refused")
                assert str(base) in said.json["error"]

    run(case)


# -- following


def test_follow_gets_what_is_there_and_what_comes(place: Path) -> None:
    async def case() -> None:
        async with api_site(place) as api:
            await api.append(b"one", "?wait=ordered")
            async with api.stream("/v1/log/events") as events, api.stream("/v1/log/events?start=end") as news:
                first = await anext(events)
                assert (first.name, first.id, first.data["data"]) == ("entry", "0", "one")
                await api.append(b"two")
                assert (await anext(events)).data["data"] == "two"
                assert (await anext(news)).data["data"] == "two"
            for bad in ({"Last_Event_ID": "x"}, {"Last_Event_ID": "1.2.3"}):
                said = await api.get("/v1/log/events", **bad)
                assert said.status == 400
                assert said.json["error"].startswith("Last-Event-ID: ")

    run(case)


def test_followers_are_bounded_and_make_room_when_they_go(place: Path) -> None:
    async def case() -> None:
        async with api_site(place, followers=2) as api:
            async with api.stream("/v1/log/events"), api.stream("/v1/groups/lobby/events"):
                said = await api.get("/v1/log/events")
                assert (said.status, said.json["outcome"]) == (429, "refused")
                assert "http.followers" in said.json["error"]
                assert said.headers["Retry-After"] == "5"
                assert (await api.get("/health")).status == 200
            while (await api.get("/v1/log/events?start=x")).status != 400:
                await asyncio.sleep(0.05)
            for _ in range(50):
                try:
                    async with api.stream("/v1/log/events"):
                        return
                except AssertionError:
                    await asyncio.sleep(0.1)  # the reader's end is noticed within a second
            raise AssertionError("a follower's place was not given back")

    run(case)


def test_a_reader_that_does_not_read_is_cut_off(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "STALL_S", 0.3)

    async def case() -> None:
        async with api_site(place) as api, Raw(api.port) as raw:
            for _ in range(20):
                await api.append(b"x" * 1_000_000)
            await raw.send(b"GET /v1/log/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            while b'route="/v1/log/events"' not in (text := (await api.get("/metrics")).json):
                await asyncio.sleep(0.05)
            assert b'reconvene_http_requests_total{outcome="cut_off",route="/v1/log/events"} 1.0' in text
            async with api.stream("/v1/log/events") as events:
                assert (await anext(events)).id == "0", "others are not disturbed"

    run(case)


# -- limits


def test_appends_that_wait_are_bounded(place: Path) -> None:
    async def case() -> None:
        config = cluster(place, "abc")[0]
        async with api_site(place, config, waiting=3) as api:
            waits = [asyncio.create_task(api.append(b"x", "?wait=ordered&timeout=4s")) for _ in range(3)]
            while len((await api.get("/v1/log/pending")).json["messages"]) < 3:
                await asyncio.sleep(0.02)
            said = await api.append(b"y")
            assert (said.status, said.json["outcome"]) == (429, "refused")
            assert "http.waiting" in said.json["error"]
            assert said.headers["Retry-After"] == "1"
            assert (await api.get("/v1/log/health")).status == 200, "what does not wait is answered"
            assert {(await one).status for one in waits} == {202}
            assert (await api.append(b"y")).status == 201

    run(case)


def test_waiting_requests_leave_a_connection_for_health(place: Path) -> None:
    async def case() -> None:
        config = cluster(place, "abc")[0]
        async with api_site(place, config, connections=4, connections_by_host=4) as api:
            waits = [asyncio.create_task(api.append(b"x", "?wait=ordered&timeout=4s")) for _ in range(3)]
            while len((await api.get("/v1/log/pending")).json["messages"]) < 3:
                await asyncio.sleep(0.02)
            said = await api.append(b"y")
            assert (said.status, said.json["outcome"]) == (429, "refused")
            assert "http.connections" in said.json["error"]
            assert (await api.get("/health")).status in (200, 503)
            for one in waits:
                assert (await one).status == 202

    run(case)


def test_the_largest_message_and_one_more_byte(place: Path) -> None:
    most = 16_711_680

    async def case() -> None:
        async with api_site(place) as api, Raw(api.port) as raw:
            said = await api.append(b"x" * most, "?wait=ordered")
            assert said.status == 201
            assert (await api.get(f"/v1/log/entries/{said.json['position']}")).json == b"x" * most
            head = b"POST /v1/log HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n"
            assert await raw.status(head % (most + 1)) == b"413", "before the body is sent"

            async def chunks(count: int) -> AsyncIterator[bytes]:
                for _ in range(count):
                    yield b"x" * 1_000_000

            async with api.session.post(f"{api.url}/v1/log", data=chunks(3)) as answer:
                assert answer.status == 201, "without a length"
            said = await api.append(b"x", Content_Encoding="gzip")
            assert said.status in (400, 415)

    run(case)


def test_bodies_that_are_held_are_bounded(place: Path) -> None:
    async def case() -> None:
        async with api_site(place) as api, Raw(api.port) as raw:
            half = b"POST /v1/log HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 16000000\r\n\r\n" + b"x" * 15_900_000
            for _ in range(4):
                await raw.send(half)
            await asyncio.sleep(0.5)
            said = await api.append(b"x" * 5_000_000)
            assert (said.status, said.json["outcome"]) == (429, "refused")
            raw.close(4)
            while (await api.append(b"x" * 5_000_000)).status != 201:
                await asyncio.sleep(0.1)

    run(case)


def test_half_a_body_is_given_up(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "BODY_S", 0.3)

    async def case() -> None:
        async with api_site(place) as api, Raw(api.port) as raw:
            half = b"POST /v1/log HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\nhalf"
            assert await raw.status(half) == b"408"
            await raw.send(half)
            raw.close(1)  # gone in the middle
            await asyncio.sleep(0.5)
            assert (await api.get("/v1/log")).json["green"] == 0
            assert (await api.append(b"whole", "?wait=ordered")).json["position"] == 0

    run(case)


def test_hundreds_of_followers_do_not_keep_anyone_out(place: Path) -> None:
    """Beyond the limits they are refused or closed; health, appends and the site go on."""

    async def case() -> None:
        limits: dict[str, Any] = {"connections": 40, "connections_by_host": 36, "followers": 8}
        async with api_site(place, **limits) as api, Raw(api.port) as raw:
            kinds: Counter[bytes] = Counter()
            for _ in range(1_000):
                kinds[await raw.status(b"GET /v1/log/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")] += 1
            assert kinds == {b"200": 8, b"429": 992}
            assert (await api.get("/health")).status == 200
            assert (await api.append(b"x", "?wait=ordered")).status == 201

    run(case)


def test_oversized_heads_are_refused(place: Path) -> None:
    async def case() -> None:
        async with api_site(place) as api, Raw(api.port) as raw:
            for head in (
                b"POST /v1/log?timeout=" + b"1" * 10_000 + b" HTTP/1.1\r\n\r\n",
                b"POST /v1/log HTTP/1.1\r\nHost: 127.0.0.1\r\nIdempotency-Key: " + b"x" * 10_000 + b"/1\r\n\r\n",
                b"POST /v1/log HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
            ):
                assert await raw.status(head) in (b"", b"400")
            assert (await api.get("/v1/log")).json["green"] == 0

    run(case)


def test_a_connection_serves_many_requests(place: Path) -> None:
    async def case() -> None:
        async with api_site(place) as api:
            one = aiohttp.TCPConnector(limit=1)
            async with aiohttp.ClientSession(connector=one) as session:
                mine = Api(session, api.port)
                for number in range(20):
                    said = await mine.append(b"x", Idempotency_Key=f"s/{number + 1}")
                    assert said.status == 201
                    assert said.headers.get("Connection") != "close"
            counted = (await api.get("/metrics")).json
            assert b'reconvene_http_requests_total{outcome="answered",route="/v1/log"} 20.0' in counted

    run(case)


# -- roles


def test_roles(place: Path) -> None:
    path = place / "keys.toml"
    keys = {
        role: base64.b64encode(add_client_key(path, role, role).key).decode() for role in ("read", "append", "admin")
    }

    async def case() -> None:
        async with api_site(place, keys=path) as api:
            for role, key in keys.items():
                bearer = {"Authorization": f"Bearer {key}"}
                allowed = role != "read"
                for said in (
                    await api.append(b"x", **bearer),
                    await api.ask("POST", "/v1/groups/lobby/messages", b"x", **bearer),
                ):
                    if allowed:
                        assert said.status in (201, 202)
                    else:
                        assert (said.status, said.json["outcome"]) == (403, "refused")
                        assert "the role append is needed to" in said.json["error"]
                for reading in ("/v1/log", "/v1/log/pending", "/v1/log/status", "/v1/log/health", "/openapi.json"):
                    assert (await api.get(reading, **bearer)).status == 200
                async with api.stream("/v1/log/events", **bearer), api.stream("/v1/groups/x/events", **bearer):
                    pass
            for reading in ("/v1/log", "/v1/log/events", "/v1/groups/x/events", "/openapi.json"):
                assert (await api.get(reading)).status == 401
            said = await api.append(b"x", Authorization="Bearer nonsense")
            assert (said.status, said.json["outcome"]) == (401, "refused")

    run(case)


def test_pages_of_other_origins_are_refused(place: Path) -> None:
    """A page in a browser on this machine could otherwise append without being asked."""

    async def case() -> None:
        async with api_site(place) as api:
            said = await api.append(b"x", Origin="http://evil.example", Content_Type="text/plain")
            assert said.status == 403
            assert said.json["error"].startswith("Origin: ")
            assert (await api.get("/v1/log/events", Origin="null")).status == 403
            assert (await api.append(b"x", Host="evil.example")).status == 403
            assert (await api.append(b"x", Origin=f"http://127.0.0.1:{api.port}")).status == 201

    run(case)


def test_without_the_setting_there_is_no_api(place: Path) -> None:
    async def case() -> None:
        async with api_site(place, api=False) as api:
            for said in (await api.append(b""), await api.get("/v1/log"), await api.get("/v1/groups/x/events")):
                assert said.status == 404
            assert "/v1/log" not in (await api.get("/openapi.json")).json["paths"]

    assert not Http().api
    run(case)
