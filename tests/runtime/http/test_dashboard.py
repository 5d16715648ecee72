"""The dashboard over HTTP: what it shows, who may inject faults, and its limits."""

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvloop
from aiohttp import web
from tests.client.places import begin_log
from tests.ports import free_ports
from tests.runtime.http.test_server import Authority, client_tls

from reconvene.corel.replicas.sets import ReplicaSet
from reconvene.errors import Rejected
from reconvene.isis.events import IsisEvent
from reconvene.runtime.access.key_files import add_client_key
from reconvene.runtime.config.settings import Config, Dashboard, FaultSettings, Http, IsisSettings, Seal, Tls
from reconvene.runtime.http import server as http_module
from reconvene.runtime.http.dashboard import watchers as watchers_module
from reconvene.runtime.http.dashboard.samples import SiteSample
from reconvene.runtime.http.dashboard.tail import excerpt
from reconvene.runtime.http.dashboard.timelines import Timelines
from reconvene.runtime.http.server import HttpServer
from reconvene.runtime.net.partition import Partition
from reconvene.runtime.net.udp import Udp
from reconvene.runtime.site.engine import SiteEngine
from reconvene.runtime.site.history import KEPT, History, Stay
from reconvene.wire.client_log import Append

LOG = logging.getLogger("reconvene.test")
ORDER = {"X-Reconvene-Order": "1"}


class Place:
    """A real site's HTTP."""

    def __init__(self, engine: SiteEngine, http: HttpServer, session: aiohttp.ClientSession) -> None:
        assert http.address is not None
        self.engine = engine
        self.http = http
        self.session = session
        self.address = http.address
        self.url = f"http://127.0.0.1:{http.address[1]}"

    async def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, Any]:
        async with self.session.request(method, self.url + path, headers=headers) as answer:
            return answer.status, json.loads(await answer.read())

    @asynccontextmanager
    async def watching(self, **headers: str) -> AsyncIterator[Callable[[], Awaitable[Any]]]:
        async with self.session.get(f"{self.url}/dashboard/events", headers=headers) as answer:
            assert answer.status == 200

            async def told() -> Any:
                line = await answer.content.readline()
                assert await answer.content.readline() == b"\n"
                return json.loads(line.removeprefix(b"data: "))

            yield told


@asynccontextmanager
async def site(
    directory: Path,
    name: str = "a",
    sites: dict[str, tuple[str, int]] | None = None,
    http: Http | None = None,
    dashboard: Dashboard | None = None,
    faults: FaultSettings | None = None,
    isis: IsisSettings | None = None,
) -> AsyncIterator[Place]:
    config = Config(
        cluster="shop",
        name=name,
        sites=sites or {name: ("127.0.0.1", free_ports(1)[0])},
        dir=directory / name,
        seal=Seal(insecure=True),
        http=http or Http(address=("127.0.0.1", 0)),
        dashboard=dashboard or Dashboard(),
        faults=faults or FaultSettings(),
        isis=isis or IsisSettings(),
    )
    begin_log(config.dir, ReplicaSet.first(config.names))
    transport = Udp(config, LOG)
    engine = SiteEngine(config, transport, LOG)
    await engine.start()
    server = HttpServer(config, engine, LOG)
    try:
        await server.start()
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True, limit=0)) as session:
            yield Place(engine, server, session)
    finally:
        await server.stop()
        await engine.stop()
        transport.close()


def run(case: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await case()

    asyncio.run(bounded())


# -- what it shows


def test_the_page_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    async def case() -> None:
        async with site(tmp_path) as place:
            async with place.session.get(place.url + "/") as answer:
                page = await answer.text()
                assert answer.content_type == "text/html"
                assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assets = Path(watchers_module.__file__).parent / "assets"
            for asset in sorted(assets.iterdir()):
                async with place.session.get(f"{place.url}/dashboard/{asset.name}") as answer:
                    text = await answer.text()
                    assert answer.status == 200
                    assert text == asset.read_text()
                elsewhere = text.replace("http://www.w3.org/2000/svg", "")
                assert "://" not in elsewhere, asset.name
            assert 'src="/dashboard/main.js"' in page

    run(case)


def test_a_look_at_one_site(tmp_path: Path) -> None:
    async def case() -> None:
        async with site(tmp_path, dashboard=Dashboard(payloads=True)) as place, place.watching() as told:
            first = await told()
            assert first["whole"]
            assert not first["faults"]
            assert first["look"]["sites"] == ["a"]
            assert [band[1] for band in first["news"]["bands"]["a"]][-1] == "in"
            assert place.engine.log is not None
            place.engine.log.append(Append(0, [b"one black coffee", b"\xff\x00"]))
            while not (look := (await told())["look"])["tail"]:
                pass
            entries = [(entry["color"], entry["position"], entry["text"]) for entry in look["tail"]]
            while entries[0][0] != "green":
                entries = [(e["color"], e["position"], e["text"]) for e in (await told())["look"]["tail"]]
            assert entries == [("green", 0, "one black coffee"), ("green", 1, "ff 00")]
            look = (await told())["look"]
            log = look["views"]["a"]["sample"]["log"]
            assert (log["green"], log["greens"]) == (2, [["green", "a", 1, 2]])

    run(case)


def test_messages_are_shown_only_where_the_configuration_says_so(tmp_path: Path) -> None:
    async def case() -> None:
        async with site(tmp_path) as place:
            assert place.engine.log is not None
            place.engine.log.append(Append(0, [b"a secret"]))
            await place.engine.log.ordered(1)
            async with place.watching() as told:
                first = await told()
                assert first["look"]["tail"][0]["size"] == 8
                assert "secret" not in json.dumps(first)

    run(case)


class Silent:
    """An ISIS process that does nothing with what it receives."""

    def isis_events(self, batch: list[IsisEvent]) -> None:
        pass


@pytest.mark.parametrize("payloads", [False, True])
def test_process_groups(tmp_path: Path, payloads: bool) -> None:
    async def case() -> None:
        shown = Dashboard(payloads=payloads)
        async with site(tmp_path, dashboard=shown, isis=IsisSettings(enabled=True)) as place:
            assert place.engine.isis is not None
            process = place.engine.isis.open(Silent(), "teller")
            for number in range(43):
                process.join(f"bank-{number:02}")
            while len(place.engine.isis.groups()) < 43:
                await asyncio.sleep(0.01)
            process.set_properties("bank-00", {"secret": b"swordfish"}, lambda cast: None)
            while not place.engine.isis.groups(1)[0]["properties"]:
                await asyncio.sleep(0.01)
            _, told = await place.ask("/dashboard/site")
            isis = told["isis"]
            assert (isis["blocked"], isis["members"], isis["processes"], isis["group_count"]) == (False, ["a"], 1, 43)
            assert len(isis["groups"]) == 40, "the page names the rest by their number"
            assert isis["groups"][0] == {
                "name": "bank-00",
                "view": 2,
                "members": ["a:1:1"],
                "member_count": 1,
                "properties": {"secret": "swordfish" if payloads else None},
            }

    run(case)


def test_it_can_be_turned_off(tmp_path: Path) -> None:
    async def case() -> None:
        async with site(tmp_path, dashboard=Dashboard(enabled=False)) as place:
            for path in ("/", "/dashboard/events", "/dashboard/site", "/dashboard/main.js"):
                assert (await place.ask(path))[0] == 404
            assert (await place.ask("/health"))[0] == 200

    run(case)


def test_sites_that_are_not_heard(tmp_path: Path) -> None:
    """One can't be queried, one does not answer, one answers with invalid data, and one is a different site."""

    async def nonsense(request: web.Request) -> web.Response:
        return web.Response(text="[1, 2")

    async def case() -> None:
        ports = free_ports(6)
        sites = {name: ("127.0.0.1", port) for name, port in zip("abcde", ports, strict=False)}
        app = web.Application()
        app.router.add_get("/dashboard/site", nonsense)
        runner = web.AppRunner(app)
        await runner.setup()
        talker = web.TCPSite(runner, "127.0.0.1", ports[5])
        await talker.start()
        async with site(tmp_path, "x") as other:
            peers = {"c": ("127.0.0.1", free_ports(1)[0]), "d": ("127.0.0.1", ports[5]), "e": other.address}
            async with (
                site(tmp_path, sites=sites, dashboard=Dashboard(peers=peers)) as place,
                place.watching() as told,
            ):
                while True:
                    views = (await told())["look"]["views"]
                    if all(views[name]["why"] != "not asked yet" for name in "cde"):
                        break
                assert views["b"]["why"] == "can't be reached: it is not in dashboard.peers"
                assert views["c"]["why"].startswith("does not answer: ")
                assert views["d"]["why"] == "sends no valid answer"
                assert views["e"]["why"] == "is x of cluster shop"
                assert all(views[name]["sample"] is None for name in "bcde")
        await runner.cleanup()

    run(case)


_STATUSES: dict[str, Any] = {
    "f": {
        "green": 7,
        "follow": {"source": "b:7700", "head": 9, "refused": {"c:7700": "another log"}, "trouble": {"a:1": "old"}},
    },
    "g": {"green": 3, "follow": {"source": None, "head": 3, "refused": {}, "trouble": {"a:7700": "no route"}}},
    "o": {"outpost": True, "site": None, "trouble": "b: refused", "waiting": {"messages": 4}, "oldest_s": 5.5},
    "s": {"green": 9},
}


def test_followers_and_outposts_beside_the_cluster(tmp_path: Path) -> None:
    async def case() -> None:
        ports = dict(zip([*_STATUSES, "away"], free_ports(5), strict=True))
        names = {port: name for name, port in ports.items()}

        async def status(request: web.Request) -> web.Response:
            name = names[request.url.port or 0]
            return web.json_response({"incarnation": 2, "storage": "ok", "log": _STATUSES[name]})

        app = web.Application()
        app.router.add_get("/status", status)
        runner = web.AppRunner(app)
        await runner.setup()
        for name in _STATUSES:
            await web.TCPSite(runner, "127.0.0.1", ports[name]).start()
        beside = {name: ("127.0.0.1", port) for name, port in ports.items()}
        async with site(tmp_path, dashboard=Dashboard(beside=beside)) as place, place.watching() as told:
            seen = (await told())["look"]["beside"]
            while any(each["why"] == "not asked yet" for each in seen.values()):
                seen = (await told())["look"]["beside"]
        await runner.cleanup()
        assert [name for name, each in seen.items() if not each["why"]] == ["f", "g", "o"]
        assert seen["away"]["why"].startswith("does not answer: ")
        assert seen["s"]["why"] == "is neither a follower nor an outpost"
        f, g, o = (seen[name]["log"] for name in "fgo")
        assert (f["kind"], f["green"], f["head"], f["connection"]) == ("follower", 7, 9, "b:7700")
        assert f["trouble"] == ["c:7700 is refused: another log"]
        assert (g["connection"], g["trouble"]) == (None, ["no route"])
        assert (o["kind"], o["waiting"], o["oldest_s"], o["trouble"]) == ("outpost", 4, 5.5, ["b: refused"])

    run(case)


# -- bounds


def test_so_many_pages_and_no_more(tmp_path: Path) -> None:
    async def case() -> None:
        async with site(tmp_path, dashboard=Dashboard(watchers=2)) as place:
            async with place.watching(), place.watching():
                status, said = await place.ask("/dashboard/events")
                assert (status, said) == (503, {"error": "2 pages are open, the limit"})
            while (await place.ask("/health"))[0] != 200:
                pass
            async with asyncio.timeout(30):
                while True:  # a viewer that has left is noticed when the next event is sent
                    async with place.session.get(f"{place.url}/dashboard/events") as answer:
                        if answer.status == 200:
                            break
                    await asyncio.sleep(0.1)

    run(case)


def test_who_does_not_read_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchers_module, "EVERY_S", 0.001)

    async def case() -> None:
        async with site(tmp_path, dashboard=Dashboard(payloads=True)) as place:
            assert place.engine.log is not None
            place.engine.log.append(Append(0, [b"x" * 200] * 100))
            reader, writer = await asyncio.open_connection(*place.address)
            writer.write(b"GET /dashboard/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert place.http._dashboard is not None
            watchers = place.http._dashboard._watchers
            while not watchers._watchers:
                await asyncio.sleep(0.01)
            while watchers._watchers:  # the viewer reads nothing: first the kernel's buffers fill, then its queue
                await asyncio.sleep(0.05)
            assert (await place.ask("/health"))[0] == 200
            with suppress(ConnectionError):
                while await reader.read(1 << 20):
                    pass
            writer.close()

    run(case)


def test_nothing_is_done_while_nobody_looks(tmp_path: Path) -> None:
    async def case() -> None:
        async with site(tmp_path) as place:
            assert place.http._dashboard is not None
            watchers = place.http._dashboard._watchers
            async with place.watching() as told:
                await told()
                assert watchers._task is not None
            while watchers._task is not None:
                await asyncio.sleep(0.05)

    run(case)


# -- faults


@pytest.mark.parametrize(
    "path", ["/dashboard/partition?components=a;b", "/dashboard/heal", "/dashboard/block?sites=b"]
)
def test_no_faults_unless_they_are_allowed(tmp_path: Path, path: str) -> None:
    async def case() -> None:
        async with site(tmp_path) as place:
            status, said = await place.ask(path, "POST", **ORDER)
            assert (status, said["error"]) == (403, "site a does not allow faults: see [faults] allowed")
            assert (await place.ask(path))[0] == 405

    run(case)


def test_no_orders_from_pages_of_another_origin(tmp_path: Path) -> None:
    async def case() -> None:
        async with site(tmp_path, faults=FaultSettings(allowed=True)) as place:
            heal = "/dashboard/heal"
            for headers in ({}, {**ORDER, "Origin": "http://evil.example"}, {**ORDER, "Origin": "null"}):
                status, said = await place.ask(heal, "POST", **headers)
                assert (status, said["error"]) == (403, "expected a request from the dashboard's own page")
            assert (await place.ask(heal, "OPTIONS", Origin="http://evil.example"))[0] == 405
            assert (await place.ask(heal, "POST", **ORDER, Origin=place.url))[0] == 200

    run(case)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/dashboard/partition", "components: expected at least two lists of sites"),
        ("/dashboard/partition?components=a,b", "components: expected at least two lists of sites"),
        ("/dashboard/partition?components=a,a;b", "partition: site a is named twice"),
        ("/dashboard/partition?components=a;z", "partition: there is no site 'z'"),
        ("/dashboard/block?sites=a", "sites: expected other sites of this cluster"),
        ("/dashboard/block?sites=z", "sites: expected other sites of this cluster"),
    ],
)
def test_orders_that_make_no_sense(tmp_path: Path, path: str, why: str) -> None:
    async def case() -> None:
        sites = {name: ("127.0.0.1", port) for name, port in zip("ab", free_ports(2), strict=True)}
        async with site(tmp_path, sites=sites, faults=FaultSettings(allowed=True)) as place:
            status, said = await place.ask(path, "POST", **ORDER)
            assert status == 400
            assert said["error"].startswith(why)

    run(case)


def test_a_partition_reaches_the_sites_and_is_written_down(tmp_path: Path) -> None:
    async def case() -> None:
        sites = {name: ("127.0.0.1", port) for name, port in zip("abc", free_ports(3), strict=True)}
        record = tmp_path / "faults.json"
        allowed = FaultSettings(allowed=True, record=record)
        async with site(tmp_path, "b", sites, faults=allowed) as b:
            dashboard = Dashboard(peers={"b": b.address})
            async with (
                site(tmp_path, "a", sites, faults=allowed, dashboard=dashboard) as a,
                a.watching() as told,
            ):
                assert (await told())["faults"]
                status, said = await a.ask("/dashboard/partition?components=a;b,c", "POST", **ORDER)
                assert status == 200
                assert said["components"] == [["a"], ["b", "c"]]
                assert said["failed"] == {"c": "can't be reached: it is not in dashboard.peers"}
                assert a.engine.status()["blocked"] == {"incoming": ["b", "c"], "outgoing": ["b", "c"]}
                assert b.engine.status()["blocked"] == {"incoming": ["a"], "outgoing": ["a"]}
                assert Partition.load(record).components == (("a",), ("b", "c"))
                assert (await a.ask("/dashboard/heal", "POST", **ORDER))[0] == 200
                assert b.engine.status()["blocked"] == {"incoming": [], "outgoing": []}
                assert Partition.load(record).components == ()

    run(case)


def test_keys_for_browsers(tmp_path: Path) -> None:
    path = tmp_path / "clients.toml"
    keys = {role: base64.b64encode(add_client_key(path, role, role).key).decode() for role in ("read", "admin")}
    basic = {role: base64.b64encode(f"{role}:{key}".encode()).decode() for role, key in keys.items()}

    async def case() -> None:
        http = Http(address=("127.0.0.1", 0), keys=path)
        async with site(tmp_path, http=http, faults=FaultSettings(allowed=True)) as place:
            for headers in ({}, {"Authorization": "Basic " + base64.b64encode(b"admin:x").decode()}):
                for where in ("/", "/dashboard/events", "/dashboard/site"):
                    async with place.session.get(place.url + where, headers=headers) as answer:
                        assert answer.status == 401
                        assert answer.headers["WWW-Authenticate"].startswith("Basic ")
            for role, may in (("read", False), ("admin", True)):
                async with place.watching(Authorization=f"Basic {basic[role]}") as told:
                    assert (await told())["faults"] is may
                status, _ = await place.ask("/dashboard/heal", "POST", **ORDER, Authorization=f"Bearer {keys[role]}")
                assert status == (200 if may else 403)

    run(case)


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_peer_behind_tls_and_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """Also a page that is open for longer than other connections may be."""
    monkeypatch.setattr(http_module, "LIFETIME_S", 0.2)
    monkeypatch.setattr(watchers_module, "EVERY_S", 0.05)
    authority = Authority(tmp_path)
    certificate, key = authority.issue("site")
    tls = Tls(certificate=certificate, key=key)
    keys = tmp_path / "clients.toml"
    token = base64.b64encode(add_client_key(keys, "dashboard", "read").key).decode()

    async def case() -> None:
        sites = {name: ("127.0.0.1", port) for name, port in zip("ab", free_ports(2), strict=True)}
        http = Http(address=("127.0.0.1", 0), tls=tls, keys=keys)
        trusting = client_tls(authority)
        async with site(tmp_path, "b", sites, http, Dashboard(watchers=1)) as b:
            dashboard = Dashboard(peers={"b": b.address}, key=keys, ca=authority.path)
            async with site(tmp_path, "a", sites, dashboard=dashboard) as a, a.watching() as told:
                while (view := (await told())["look"]["views"]["b"])["sample"] is None:
                    assert view["why"] == "not asked yet"
                assert view["sample"]["name"] == "b"
            url = f"https://127.0.0.1:{b.address[1]}/dashboard/events"
            headers = {"Authorization": f"Bearer {token}"}
            async with b.session.get(url, headers=headers, ssl=trusting) as answer:
                for _ in range(30):
                    assert (await answer.content.readline()).startswith(b"data: ")
                    await answer.content.readline()

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(asyncio.wait_for(case(), 60))


def test_a_key_file_with_two_keys(tmp_path: Path) -> None:
    keys = tmp_path / "clients.toml"
    for name in ("one", "two"):
        add_client_key(keys, name, "read")

    async def case() -> None:
        with pytest.raises(Rejected, match=r"dashboard.key: .*: expected one client key, not 2"):
            async with site(tmp_path, dashboard=Dashboard(key=keys)):
                pass

    run(case)


# -- the parts


def test_history() -> None:
    history = History("abc")
    history.forming()  # before the first configuration there is nothing to leave
    assert history.since(0) == []
    history.installed("1", [0])
    history.forming()
    history.forming()
    history.resumed()
    history.resumed()
    history.installed("2", [0, 2])
    stays = history.since(0)
    assert [(stay.n, stay.number, stay.members, stay.forming) for stay in stays] == [
        (1, "1", ("a",), False),
        (2, "1", ("a",), True),
        (3, "1", ("a",), False),
        (4, "2", ("a", "c"), False),
    ]
    assert history.since(3) == stays[3:]
    for number in range(2 * KEPT):
        history.installed(str(number), [0])
    assert len(history.since(0)) == KEPT
    assert len(history.since(history.since(0)[-1].n - 1)) == 1


def sample_of(name: str, incarnation: int, stays: list[Stay], at: int = 0) -> SiteSample:
    last = stays[-1] if stays else Stay(0, 0, "7", (name,), False)
    return SiteSample(
        "shop", name, incarnation, at, 1.0, "primary", "operational", last.number, list(last.members), ["a", "b"], [],
        "ok", 0, 0, {}, {}, 0.0, None, None, False, stays,
    )  # fmt: skip


def test_timelines() -> None:
    lines = Timelines(["a", "b"])
    assert lines.since(0).bands == {}
    lines.take(sample_of("a", 1, [Stay(1, 100, "5", ("a", "b"), False)]))
    lines.take(sample_of("b", 1, [Stay(1, 101, "5", ("a", "b"), False), Stay(2, 150, "6", ("b",), False)]))
    assert lines.cursor("b") == (1, 2)
    seen = lines.serial
    lines.gone("b", 200)
    lines.gone("b", 300)
    news = lines.since(seen)
    assert [(band.at, band.state) for band in news.bands["b"]] == [(200, "gone")]
    assert news.configurations == {"6": ("b",)}
    lines.take(sample_of("b", 1, [], at=400))  # the same incarnation continues
    lines.gone("b", 500)
    lines.take(sample_of("b", 2, [Stay(1, 600, "8", ("b",), False)], at=650))
    assert [(band.at, band.state, band.incarnation) for band in lines.since(seen).bands["b"]] == [
        (200, "gone", 1),
        (400, "in", 1),
        (500, "gone", 1),
        (600, "in", 2),
    ]
    assert lines.last_together("b", "a", 1_000) == 150
    assert lines.last_together("a", "b", 1_000) == 1_000


def test_timelines_stay_small() -> None:
    lines = Timelines(["a"])
    for n in range(1, 5 * KEPT):
        lines.take(sample_of("a", 1, [Stay(n, n, str(n), ("a",), False)]))
    assert len(lines.since(0).bands["a"]) == KEPT
    assert len(lines._members) <= 2 * KEPT + 1


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (b"one black coffee", "one black coffee"),
        (b"", ""),
        (b" two\n lines\t", "two lines"),
        ("Käse €".encode(), "Käse €"),
        (b"\x00\x01\xfe", "00 01 fe"),
        (b"x" * 1_000, "x" * 120 + "…"),
        (("€" * 500).encode(), "€" * 120 + "…"),
    ],
)
def test_excerpts(message: bytes, shown: str) -> None:
    assert excerpt(message) == shown
