"""Sites for tests, each with addresses of its own, and certificates."""

import asyncio
import contextlib
import datetime
import ipaddress
import logging
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.client.fake_engine import FakeEngine
from tests.ports import free_ports

from reconvene.corel.keeping.load import create, exists
from reconvene.corel.replicas.sets import ReplicaSet
from reconvene.runtime.clients.server import ClientServer
from reconvene.runtime.config.settings import Clients, Config, Limits, LogSettings, Seal
from reconvene.storage.lmdb_store import LmdbStore

__all__ = ["LogLines", "authority", "certificate", "cluster", "serving", "short_dir"]


@contextmanager
def short_dir() -> Iterator[Path]:
    """A Unix socket's path has to be short, which pytest's own directories are not."""
    directory = Path(tempfile.mkdtemp(prefix="rc-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def begin_log(directory: Path, replicas: ReplicaSet) -> None:
    """What a site's storage holds after its log was begun with these replicas, as if the site had never started."""
    directory.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(LmdbStore(directory / "store")) as store:
        if not exists(store):
            store.write(create(directory.name.encode() * 8, replicas, admitted=True))


def cluster(
    directory: Path,
    names: str = "a",
    seal: Seal | None = None,
    clients: Clients | None = None,
    limits: Limits | None = None,
    log: LogSettings | None = None,
) -> list[Config]:
    """Sites whose log is begun: what is in their stores, before they start for the first time, says so."""
    log = LogSettings() if log is None else log
    replicas = ReplicaSet.first(log.replicas or names, log.quorum)
    for name in names:
        begin_log(directory / name, replicas)
    sites = {name: ("127.0.0.1", port) for name, port in zip(names, free_ports(len(names)), strict=True)}
    return [
        Config(
            cluster="test",
            name=name,
            sites=sites,
            dir=directory / name,
            seal=Seal(insecure=True) if seal is None else seal,
            clients=Clients() if clients is None else clients,
            limits=Limits() if limits is None else limits,
            log=log,
        )
        for name in names
    ]


class LogLines(logging.Handler):
    """What a site logs, as `event: field=value …`."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "fields", {})
        self.lines.append(": ".join([record.getMessage(), " ".join(f"{k}={v}" for k, v in fields.items())]))

    def of(self, event: str) -> list[str]:
        return [line for line in self.lines if line.startswith(f"{event}:")]


class Serving:
    def __init__(self, engine: FakeEngine, server: ClientServer, config: Config, log: LogLines) -> None:
        self.engine = engine
        self.server = server
        self.config = config
        self.log = log
        self.stops = 0
        self.unix = f"unix:{config.dir}/site.sock"

    @property
    def tcp(self) -> str:
        assert self.server.tcp is not None
        return f"tcp://127.0.0.1:{self.server.tcp[1]}"

    async def until(self, happened: str) -> str:
        """The one line of this event in the site's log."""
        for _ in range(500):
            if self.log.of(happened):
                break
            await asyncio.sleep(0.01)
        (line,) = self.log.of(happened)
        return line


@asynccontextmanager
async def serving(
    clients: Clients | None = None, limits: Limits | None = None, engine: FakeEngine | None = None, name: str = "a"
) -> AsyncIterator[Serving]:
    """A server before a made-up engine."""
    with short_dir() as directory:
        config = cluster(directory, name, clients=clients, limits=limits)[0]
        config.dir.mkdir(exist_ok=True)
        log = logging.getLogger(f"test.{directory.name}")
        lines = LogLines()
        log.addHandler(lines)
        audit = logging.getLogger("reconvene.audit")
        audit.addHandler(lines)
        audit.setLevel(logging.INFO)
        log.setLevel(logging.INFO)
        log.propagate = False
        made = FakeEngine() if engine is None else engine
        server = ClientServer(made, config, lambda: setattr(serves, "stops", serves.stops + 1), log)
        serves = Serving(made, server, config, lines)
        await server.start()
        try:
            yield serves
        finally:
            audit.removeHandler(lines)
            await server.close()


class Authority:
    def __init__(self, directory: Path, name: str) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.file = directory / f"{name}.pem"
        made = _builder(self.name, self.name, self.key).add_extension(x509.BasicConstraints(True, None), True)
        key_usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        made = made.add_extension(key_usage, True).add_extension(
            x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), False
        )
        self.file.write_bytes(made.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))


def authority(directory: Path, name: str) -> Authority:
    return Authority(directory, name)


def certificate(directory: Path, signer: Authority, name: str, hours: float = 1) -> tuple[Path, Path]:
    """(certificate, key) for 127.0.0.1, which ends in so many hours."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        _builder(subject, signer.name, key, hours)
        .add_extension(names, False)
        .add_extension(x509.BasicConstraints(False, None), True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.key.public_key()), False)
    )
    files = directory / f"{name}.pem", directory / f"{name}.key"
    files[0].write_bytes(made.sign(signer.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, hours: float = 1
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=30))
        .not_valid_after(now + datetime.timedelta(hours=hours))
    )
