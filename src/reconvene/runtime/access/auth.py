"""Which clients may connect, and in which role.

An *endpoint* is one way to connect. The Unix socket is protected by its file mode, and its clients have the role
admin. TCP requires a client key if keys are configured, a certificate if TLS has a client authority, or both. With
neither it is allowed on loopback only, and clients have the role append. Over TCP only a client key can have the role
admin.
"""

import ssl
from enum import IntEnum

from reconvene.errors import Rejected
from reconvene.runtime.access.key_files import ClientKey, load_client_keys
from reconvene.runtime.access.tls import server_tls
from reconvene.runtime.config.check import is_loopback
from reconvene.runtime.config.settings import Clients, Config
from reconvene.wire.clients import MAJOR, MINOR, Challenge, Hello, Proof
from reconvene.wire.handshake import (
    NONCE_BYTES,
    client_proof,
    is_proof,
    session_seals,
    site_proof,
    transcript,
)
from reconvene.wire.records import RecordSeal
from reconvene.world import world

__all__ = ["REFUSALS", "Admission", "Endpoint", "NotAdmitted", "Role", "tcp_endpoint", "unix_endpoint"]

REFUSALS = ("key", "late", "limit", "protocol", "tls", "version")
"""Why clients are refused, in one word each: no key or a wrong one; a handshake that took too long; too many
connections; not what a client sends; a failed TLS handshake; another version of the protocol."""


class NotAdmitted(Rejected):
    """A client is refused: `reason` is one of `REFUSALS`."""

    def __init__(self, reason: str, why: str) -> None:
        super().__init__(why)
        self.reason = reason


class Role(IntEnum):
    """Each role includes the ones before it."""

    READ = 0
    """Status and health; receives in groups; reads and follows the log."""
    APPEND = 1
    """Sends in groups; appends to the log."""
    ADMIN = 2
    """Injects faults, stops the site, changes the log's replicas, saves snapshots."""

    @property
    def label(self) -> str:
        return self.name.lower()


class Endpoint:
    """One way to connect: the keys that are accepted, or the role of every client that gets this far."""

    def __init__(self, keys: dict[str, ClientKey] | None, role: Role, tls: ssl.SSLContext | None) -> None:
        self.keys = keys
        """May be replaced; clients that are connected stay connected."""
        self.role = role
        self.tls = tls
        """Likewise."""


def unix_endpoint() -> Endpoint:
    return Endpoint(None, Role.ADMIN, None)


def tcp_endpoint(clients: Clients) -> Endpoint:
    """Raises Rejected if strangers on other machines could connect."""
    assert clients.tcp is not None, "TCP is configured"
    host, port = clients.tcp
    guarded = clients.keys is not None or (clients.tls is not None and clients.tls.client_ca is not None)
    if not guarded and not is_loopback(clients.tcp):
        raise Rejected(
            f"clients.tcp: {host}:{port} is not loopback: set clients.keys, or clients.tls with a client_ca, "
            "otherwise anyone could connect"
        )
    keys = None if clients.keys is None else load_client_keys(clients.keys)
    return Endpoint(keys, Role.APPEND, None if clients.tls is None else server_tls(clients.tls))


class Admission:
    """The site's side of one client's handshake. Raises NotAdmitted if the client is refused, Rejected for what is no
    handshake."""

    def __init__(self, endpoint: Endpoint, config: Config) -> None:
        self._endpoint = endpoint
        self._cluster = config.cluster
        self._site = config.name
        self._key: ClientKey | None = None
        self._hello: Hello | None = None
        self._said = b""
        self.name = ""
        """Name of the client's key; only a claim until the client has proven it."""
        self.role: Role | None = None
        """None until the client is accepted."""

    @property
    def minor(self) -> int:
        """The client's minor version of the protocol."""
        return 0 if self._hello is None else self._hello.minor

    def hello(self, hello: Hello) -> Challenge | None:
        """Returns a challenge, or None if the client is accepted without one."""
        self.name = hello.name
        if self._hello is not None:
            raise Rejected("a second hello on one connection")
        self._hello = hello
        if hello.major != MAJOR:
            raise NotAdmitted(
                "version",
                f"the client speaks version {hello.major}.{hello.minor} of the client protocol, "
                f"site {self._site} {MAJOR}.{MINOR}: the first number must be the same",
            )
        keys = self._endpoint.keys
        if keys is None:
            if hello.name:
                raise NotAdmitted("key", f"site {self._site} has no client keys: connect without one")
            self.role = self._endpoint.role
            return None
        if not hello.name:
            raise NotAdmitted("key", f"site {self._site} requires a client key, and the client has none")
        # A client that names an unknown key is challenged like any other, so that names can't be guessed by trying.
        self._key = keys.get(hello.name)
        challenge = Challenge(MAJOR, MINOR, self._cluster, self._site, world().random_bytes(NONCE_BYTES))
        self._said = transcript(hello, challenge, self._endpoint.tls is not None)
        return challenge

    def proof(self, proof: Proof) -> bytes:
        """Checks the client's proof and accepts the client. Returns the site's own proof."""
        if not self._said or self.role is not None:
            raise Rejected("a proof that was not asked for")
        key = self._key
        expected = client_proof(world().random_bytes(32) if key is None else key.key, self._said)
        if not is_proof(proof.proof, expected) or key is None:
            raise NotAdmitted("key", f"client key {self.name!r} is unknown to site {self._site}, or differs there")
        self.role = Role[key.role.upper()]
        return site_proof(key.key, self._said)

    def seals(self) -> tuple[RecordSeal, RecordSeal] | None:
        """The seals (client to site, site to client) of an accepted client; None if records are not sealed."""
        if self._key is None or self._endpoint.tls is not None:
            return None
        return session_seals(self._key.key, self._said)
