"""Who may come in by which door, and what for.

A *door* is one way in. The Unix socket is guarded by its file mode, and who passes it is an admin. TCP asks for a
client key where keys are configured, for a certificate where TLS has a client authority, or for both; without
either it opens on loopback only, and lets in with the role append. Only an admin key makes an admin over TCP.
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

__all__ = ["Admission", "Door", "Role", "tcp_door", "unix_door"]


class Role(IntEnum):
    """Each may do what the ones before it may."""

    READ = 0
    """Status and health; receives in groups; reads and follows the log."""
    APPEND = 1
    """Sends in groups; appends to the log."""
    ADMIN = 2
    """Injects faults, stops the site; changes the log's replicas, and saves snapshots of it."""

    @property
    def label(self) -> str:
        return self.name.lower()


class Door:
    """One way in: the keys that open it, or the role of whoever gets as far as this."""

    def __init__(self, keys: dict[str, ClientKey] | None, role: Role, tls: ssl.SSLContext | None) -> None:
        self.keys = keys
        """May be replaced: whoever is in stays in."""
        self.role = role
        self.tls = tls


def unix_door() -> Door:
    return Door(None, Role.ADMIN, None)


def tcp_door(clients: Clients) -> Door:
    """Raises Rejected if it would let strangers from elsewhere in."""
    assert clients.tcp is not None, "a TCP door has an address"
    host, port = clients.tcp
    guarded = clients.keys is not None or (clients.tls is not None and clients.tls.client_ca is not None)
    if not guarded and not is_loopback(clients.tcp):
        raise Rejected(
            f"clients.tcp: {host}:{port} is not loopback: set clients.keys, or clients.tls with a client_ca, "
            "so that not everyone gets in"
        )
    keys = None if clients.keys is None else load_client_keys(clients.keys)
    return Door(keys, Role.APPEND, None if clients.tls is None else server_tls(clients.tls))


class Admission:
    """One client's handshake, as its site sees it. What can't go on raises Rejected, with the reason."""

    def __init__(self, door: Door, config: Config) -> None:
        self._door = door
        self._cluster = config.cluster
        self._site = config.name
        self._key: ClientKey | None = None
        self._hello: Hello | None = None
        self._said = b""
        self.name = ""
        """Of the client's key, as claimed until it is proven."""
        self.role: Role | None = None
        """None until the client is in."""

    @property
    def minor(self) -> int:
        """Of the protocol, as the client speaks it."""
        return 0 if self._hello is None else self._hello.minor

    def hello(self, hello: Hello) -> Challenge | None:
        """A challenge, or None: the client is in."""
        self.name = hello.name
        if self._hello is not None:
            raise Rejected("a second hello on one connection")
        self._hello = hello
        if hello.major != MAJOR:
            raise Rejected(
                f"the client speaks version {hello.major}.{hello.minor} of the client protocol, "
                f"site {self._site} {MAJOR}.{MINOR}: the first number must be the same"
            )
        keys = self._door.keys
        if keys is None:
            if hello.name:
                raise Rejected(f"site {self._site} has no client keys: connect without one")
            self.role = self._door.role
            return None
        if not hello.name:
            raise Rejected(f"site {self._site} asks for a client key, and the client shows none")
        # Who names an unknown key is challenged like anyone else, so that names can't be found out by trying.
        self._key = keys.get(hello.name)
        challenge = Challenge(MAJOR, MINOR, self._cluster, self._site, world().random_bytes(NONCE_BYTES))
        self._said = transcript(hello, challenge, self._door.tls is not None)
        return challenge

    def proof(self, proof: Proof) -> bytes:
        """The site's own proof; the client is in."""
        if not self._said or self.role is not None:
            raise Rejected("a proof that was not asked for")
        key = self._key
        expected = client_proof(world().random_bytes(32) if key is None else key.key, self._said)
        if not is_proof(proof.proof, expected) or key is None:
            raise Rejected(f"client key {self.name!r} is unknown to site {self._site}, or differs there")
        self.role = Role[key.role.upper()]
        return site_proof(key.key, self._said)

    def seals(self) -> tuple[RecordSeal, RecordSeal] | None:
        """(client to site, site to client) once the client is in; None where records travel as they are."""
        if self._key is None or self._door.tls is not None:
            return None
        return session_seals(self._key.key, self._said)
