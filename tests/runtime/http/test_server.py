"""Health, metrics and status over HTTP, and every refusal."""

import asyncio
import base64
import json
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
import uvloop
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.runtime.http.fake_engine import FakeEngine

from reconvene.errors import Malformed, Rejected, Unavailable
from reconvene.runtime.access.key_files import add_client_key
from reconvene.runtime.config.settings import Config, Http, Seal, Tls
from reconvene.runtime.http import server as http_module
from reconvene.runtime.http.answers import Refusal
from reconvene.runtime.http.server import HttpServer

LOG = logging.getLogger("reconvene.test")
LOOPBACK = ("127.0.0.1", 0)

Case = Callable[[], Awaitable[None]]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Case], None]:
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def in_loop(case: Case) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(30):
                await case()

        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(bounded())

    return in_loop


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def config(tmp_path: Path, http: Http) -> Config:
    return Config(
        cluster="shop", name="a", sites={"a": ("127.0.0.1", 1)}, dir=tmp_path, seal=Seal(insecure=True), http=http
    )


@asynccontextmanager
async def serving(
    tmp_path: Path, engine: FakeEngine | None = None, **http: Any
) -> AsyncIterator[tuple[HttpServer, int]]:
    server = HttpServer(config(tmp_path, Http(**{"address": LOOPBACK, **http})), engine or FakeEngine(), LOG)
    await server.start()
    assert server.address is not None
    try:
        yield server, server.address[1]
    finally:
        await server.stop()


async def ask(port: int, request: str | bytes, tls: ssl.SSLContext | None = None) -> Answer | None:
    """Sends one raw request; None if the connection was closed without an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    try:
        writer.write(request.encode() if isinstance(request, str) else request)
        data = await reader.read()  # to the end: every answer closes its connection
    except ConnectionError:
        data = b""
    finally:
        writer.close()
    if not data:
        return None
    head, _, body = data.partition(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in rest)
    return Answer(int(first.split()[1]), headers, body)


async def get(port: int, path: str, *headers: str, method: str = "GET", tls: ssl.SSLContext | None = None) -> Answer:
    lines = [f"{method} {path} HTTP/1.1", *(headers if any(h.startswith("Host") for h in headers) else
             ("Host: 127.0.0.1", *headers))]  # fmt: skip
    answer = await ask(port, "\r\n".join([*lines, "", ""]), tls)
    assert answer is not None
    return answer


@pytest.mark.parametrize(
    ("health", "status", "strict"), [("primary", 200, 200), ("minority", 200, 503), ("forming", 503, 503)]
)
def test_health(run: Callable[[Case], None], tmp_path: Path, health: str, status: int, strict: int) -> None:
    async def case() -> None:
        engine = FakeEngine()
        engine.state = health
        async with serving(tmp_path, engine) as (_, port):
            answer = await get(port, "/health")
            assert (answer.status, answer.json) == (status, {"health": health})
            answer = await get(port, "/health?require=primary")
            assert (answer.status, answer.json) == (strict, {"health": health})
            assert (await get(port, "/health", method="HEAD")).status == status
            engine.told["log"] = {"waits": "the log here is empty"}
            answer = await get(port, "/health")
            assert (answer.status, answer.json) == (status, {"health": health, "log": "the log here is empty"})
            engine.told["log"] = None
            answer = await get(port, "/health?require=everything")
            assert (answer.status, answer.json) == (400, {"error": "require: expected primary"})
            engine.told["storage"] = "No space left on device"
            answer = await get(port, "/health")
            assert (answer.status, answer.json) == (503, {"health": health, "storage": "No space left on device"})

    run(case)


def test_metrics_and_status(run: Callable[[Case], None], tmp_path: Path) -> None:
    async def case() -> None:
        engine = FakeEngine()
        async with serving(tmp_path, engine) as (_, port):
            answer = await get(port, "/metrics")
            assert answer.status == 200
            assert answer.headers["Content-Type"].startswith("text/plain; version=")
            assert b"reconvene_turns_total 5.0" in answer.body
            answer = await get(port, "/status")
            assert (answer.status, answer.json) == (200, engine.told)
            assert answer.headers["Cache-Control"] == "no-store"

    run(case)


def test_what_is_not_there(run: Callable[[Case], None], tmp_path: Path) -> None:
    async def case() -> None:
        async with serving(tmp_path) as (_, port):
            for path in (
                "/index.html",
                "/dashboard",
                "/dashboard/../http.py",
                "/healthz",
                "/status/",
                "/../etc/passwd",
                "/metrics/%2e%2e",
            ):
                answer = await get(port, path)
                assert (answer.status, answer.json) == (404, {"error": "not found"})

    run(case)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_it_only_reads(run: Callable[[Case], None], tmp_path: Path, method: str) -> None:
    async def case() -> None:
        async with serving(tmp_path) as (_, port):
            answer = await get(port, "/status", method=method)
            assert (answer.status, answer.json) == (405, {"error": "method not allowed"})
            assert answer.headers["Allow"] == "GET,HEAD"

    run(case)


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\nhello",
        b"GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999\r\n\r\nhello",
        b"GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"POST /status HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\nhello",
    ],
)
def test_no_body_is_taken(run: Callable[[Case], None], tmp_path: Path, request_: bytes) -> None:
    async def case() -> None:
        async with serving(tmp_path) as (_, port):
            answer = await ask(port, request_)
            assert answer is not None
            assert (answer.status, answer.json) == (413, {"error": "expected no body"})

    run(case)


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /" + b"x" * 10_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 10_000 + b"\r\n\r\n",
        b"NONSENSE\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(300),
        b"GET /status HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"\xff" * 5_000 + b"\r\n\r\n",
    ],
)
def test_what_is_no_small_request_is_refused(run: Callable[[Case], None], tmp_path: Path, request_: bytes) -> None:
    async def case() -> None:
        async with serving(tmp_path) as (_, port):
            answer = await ask(port, request_)
            assert answer is None or answer.status == 400
            assert (await get(port, "/health")).status == 200

    run(case)


# -- keys


def test_keys(run: Callable[[Case], None], tmp_path: Path) -> None:
    path = tmp_path / "clients.toml"
    tokens = [base64.b64encode(add_client_key(path, role, role).key).decode() for role in ("read", "append", "admin")]

    async def case() -> None:
        async with serving(tmp_path, keys=path) as (_, port):
            for token in tokens:  # every role may read
                assert (await get(port, "/status", f"Authorization: Bearer {token}")).status == 200
            assert (await get(port, "/status", f"Authorization: bearer {tokens[0]}")).status == 200
            wrong = base64.b64encode(bytes(32)).decode()
            for headers in (
                (),
                ("Authorization: Bearer",),
                ("Authorization: Bearer ",),
                (f"Authorization: Bearer {wrong}",),
                (f"Authorization: Bearer {tokens[0][:-5]}",),
                (f"Authorization: Bearer {tokens[0]}x",),
                (f"Authorization: Basic {tokens[0]}",),
                (f"Authorization: {tokens[0]}",),
                ("Authorization: Bearer " + "A" * 1_000,),
                ("Authorization: Bearer \x80\xff",),
            ):
                for where in ("/health", "/metrics", "/status", "/nowhere"):
                    answer = await get(port, where, *headers)
                    assert answer.status == 401
                    assert answer.headers["WWW-Authenticate"] == "Bearer"
                    assert b"shop" not in answer.body

    run(case)


def test_keys_are_read_again(run: Callable[[Case], None], tmp_path: Path) -> None:
    path = tmp_path / "clients.toml"
    old = base64.b64encode(add_client_key(path, "ops", "read").key).decode()

    async def case() -> None:
        async with serving(tmp_path, keys=path) as (server, port):
            new = base64.b64encode(add_client_key(path, "ops", "read", force=True).key).decode()
            assert (await get(port, "/status", f"Authorization: Bearer {old}")).status == 200
            server.reload_keys()
            assert (await get(port, "/status", f"Authorization: Bearer {old}")).status == 401
            assert (await get(port, "/status", f"Authorization: Bearer {new}")).status == 200
            path.write_text("nonsense")
            with pytest.raises(Malformed):
                server.reload_keys()
            assert (await get(port, "/status", f"Authorization: Bearer {new}")).status == 200

    run(case)


def test_bad_key_files(run: Callable[[Case], None], tmp_path: Path) -> None:
    async def case() -> None:
        with pytest.raises(Rejected):
            await HttpServer(
                config(tmp_path, Http(address=LOOPBACK, keys=tmp_path / "none")), FakeEngine(), LOG
            ).start()

    run(case)


def test_names_that_lead_here_are_not_answered(run: Callable[[Case], None], tmp_path: Path) -> None:
    """Otherwise a web page in a browser on this machine could read a site through a name that resolves to
    loopback."""

    async def case() -> None:
        async with serving(tmp_path) as (_, port):
            for host in ("127.0.0.1", f"127.0.0.1:{port}", f"localhost:{port}", "[::1]:80", "10.1.2.3"):
                assert (await get(port, "/status", f"Host: {host}")).status == 200
            for host in (
                "evil.example",
                f"evil.example:{port}",
                "localhost.evil.example",
                "127.0.0.1.evil.example",
                "",
            ):
                answer = await get(port, "/status", f"Host: {host}")
                assert answer.status == 403
                assert b"shop" not in answer.body

    run(case)


# -- endpoints


def test_beyond_loopback_a_key_is_needed(run: Callable[[Case], None], tmp_path: Path) -> None:
    async def case() -> None:
        for http in (Http(address=("0.0.0.0", 0)), Http(address=("host.example", 0))):
            with pytest.raises(Rejected, match="is not loopback"):
                await HttpServer(config(tmp_path, http), FakeEngine(), LOG).start()

    run(case)


def test_a_port_in_use(run: Callable[[Case], None], tmp_path: Path) -> None:
    async def case() -> None:
        with socket.socket() as taken:
            taken.bind(LOOPBACK)
            taken.listen()
            port = taken.getsockname()[1]
            server = HttpServer(config(tmp_path, Http(address=("127.0.0.1", port))), FakeEngine(), LOG)
            with pytest.raises(Unavailable, match=f"http.address: 127.0.0.1:{port}: in use by another process"):
                await server.start()

    run(case)


def test_without_an_address_there_is_none(run: Callable[[Case], None], tmp_path: Path) -> None:
    async def case() -> None:
        server = HttpServer(config(tmp_path, Http()), FakeEngine(), LOG)
        await server.start()
        assert server.address is None
        await server.stop()

    run(case)


# -- bounds


async def idle(port: int, count: int, source: str = "127.0.0.1") -> list[asyncio.StreamWriter]:
    """Connections that send no request."""
    made = [await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0)) for _ in range(count)]
    return [writer for _, writer in made]


def test_connections_that_ask_nothing_keep_nobody_out(run: Callable[[Case], None], tmp_path: Path) -> None:
    """Idle connections block neither another host nor their own: health is answered, and their number is limited."""

    async def case() -> None:
        async with serving(tmp_path) as (server, port):
            held = await idle(port, 300)
            for source in ("127.0.0.1", "127.0.0.2"):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
                writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
                writer.close()
            assert len(server._open) <= Http().connections_by_host + 1
            for writer in held:
                writer.close()

    run(case)


def test_so_many_connections_and_no_more(run: Callable[[Case], None], tmp_path: Path) -> None:
    """The host that has most of those that ask nothing makes room; what is being asked is not disturbed."""

    async def case() -> None:
        async with serving(tmp_path, connections=4, connections_by_host=3) as (server, port):
            many = await idle(port, 3)
            (one,) = await idle(port, 1, "127.0.0.2")
            await asyncio.sleep(0.05)
            assert len(server._open) == 4
            (other,) = await idle(port, 1, "127.0.0.3")
            await asyncio.sleep(0.05)
            assert sorted(guest.host for guest in server._open.values()) == [
                *("127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.3")
            ]
            assert (await get(port, "/health")).status == 200
            for writer in (*many, one, other):
                writer.close()

    run(case)


def test_open_pages_leave_a_place_for_health(run: Callable[[Case], None], tmp_path: Path) -> None:
    async def case() -> None:
        async with serving(tmp_path, connections=2) as (server, port):
            held = await idle(port, 2)
            await asyncio.sleep(0.05)
            first, second = (cast(web.Request, SimpleNamespace(transport=transport)) for transport in server._open)
            server.hold(first)
            with pytest.raises(Refusal, match="1 pages are open"):
                server.hold(second)
            assert (await get(port, "/health")).status == 200
            for writer in held:
                writer.close()

    run(case)


def test_where_all_have_asked_one_more_is_closed(run: Callable[[Case], None], tmp_path: Path) -> None:
    async def case() -> None:
        async with serving(tmp_path, connections=2) as (server, port):
            held = await idle(port, 2)
            await asyncio.sleep(0.05)
            for guest in server._open.values():
                guest.has_asked = True
            assert await ask(port, "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") is None
            for writer in held:
                writer.close()

    run(case)


def test_who_is_slow_is_cut_off(run: Callable[[Case], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "LIFETIME_S", 0.2)

    async def case() -> None:
        async with serving(tmp_path) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /status HTTP/1.1\r\nX: ")
            with suppress(ConnectionError):
                while not reader.at_eof():  # one byte now and then, without end
                    await asyncio.sleep(0.02)
                    writer.write(b"x")
                    await writer.drain()
                assert await reader.read() == b""
            writer.close()

    run(case)


def test_one_request_a_connection(run: Callable[[Case], None], tmp_path: Path) -> None:
    async def case() -> None:
        async with serving(tmp_path) as (_, port):
            twice = "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: keep-alive\r\n\r\n" * 2
            answer = await ask(port, twice)
            assert answer is not None
            assert answer.json == {"health": "primary"}

    run(case)


def test_a_fault_of_ours_is_no_open_book(
    run: Callable[[Case], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(FakeEngine):
        def status(self) -> dict[str, object]:
            raise RuntimeError("secret")

    async def case() -> None:
        async with serving(tmp_path, Broken()) as (_, port):
            answer = await get(port, "/status")
            assert answer.status == 500
            assert b"secret" not in answer.body
            assert (await get(port, "/health")).status == 200

    logging.getLogger("reconvene").propagate = True
    run(case)
    assert "fault in a request" in caplog.text


# -- TLS


class Authority:
    """Makes certificates, for this machine and for clients."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        self.path = directory / "ca.pem"
        self.path.write_bytes(self._sign(self.name, self.key, True).public_bytes(serialization.Encoding.PEM))

    def _sign(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, is_ca: bool) -> x509.Certificate:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(is_ca, None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
            .sign(self.key, hashes.SHA256())
        )

    def issue(self, name: str) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate, secret = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        certificate.write_bytes(self._sign(subject, key, False).public_bytes(serialization.Encoding.PEM))
        secret.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return certificate, secret


def client_tls(authority: Authority, own: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.path)
    if own is not None:
        context.load_cert_chain(*own)
    return context


def test_tls(run: Callable[[Case], None], tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("site")

    async def case() -> None:
        async with serving(tmp_path, tls=Tls(certificate=certificate, key=key)) as (_, port):
            assert (await get(port, "/health", tls=client_tls(authority))).status == 200
            answer = await ask(port, "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert answer is None  # without TLS
            assert (await get(port, "/health", tls=client_tls(authority))).status == 200

    run(case)


def test_tls_with_certificates_of_clients(run: Callable[[Case], None], tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("site")
    ops = authority.issue("ops")
    (tmp_path / "other").mkdir()
    stranger = Authority(tmp_path / "other").issue("ops")

    async def case() -> None:
        tls = Tls(certificate=certificate, key=key, client_ca=authority.path)
        async with serving(tmp_path, tls=tls) as (_, port):
            assert (await get(port, "/health", tls=client_tls(authority, ops))).status == 200
            for context in (client_tls(authority), client_tls(authority, stranger)):
                with suppress(ssl.SSLError):
                    assert await ask(port, "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", context) is None
            assert (await get(port, "/health", tls=client_tls(authority, ops))).status == 200

    run(case)


def test_handshakes_that_are_never_finished_count_too(run: Callable[[Case], None], tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("site")

    async def case() -> None:
        tls = Tls(certificate=certificate, key=key)
        async with serving(tmp_path, tls=tls, connections=2) as (server, port):
            held = await idle(port, 4)
            await asyncio.sleep(0.05)
            assert server._listener is not None
            assert len(server._listener.arriving) == 2
            told = await ask(port, "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", client_tls(authority))
            assert told is not None
            assert told.status == 200
            for writer in held:
                writer.close()

    run(case)


def test_bad_certificates(run: Callable[[Case], None], tmp_path: Path) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("nonsense")

    async def case() -> None:
        http = Http(address=LOOPBACK, tls=Tls(certificate=bad, key=bad))
        with pytest.raises(Rejected):
            await HttpServer(config(tmp_path, http), FakeEngine(), LOG).start()

    run(case)
