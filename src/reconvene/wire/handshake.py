"""How a client and a site prove to each other that both hold the same client key, which itself never travels.

Both sides hash everything that they sent to each other into one transcript: versions, names, a fresh nonce of each
side, and whether TLS carries the connection. Each side proves that it holds the key by an HMAC over the transcript.
The keys that seal the records of each direction are derived from the key and the transcript. So an old proof, or a
record of an old connection, is not accepted again. An attacker that learns a client key later can decrypt recorded
connections that were sealed with it; TLS does not have that weakness.
"""

import hashlib
import hmac

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from msgspec import msgpack

from reconvene.wire.clients import Challenge, Hello
from reconvene.wire.records import RecordSeal

__all__ = ["NONCE_BYTES", "client_proof", "is_proof", "session_seals", "site_proof", "transcript"]

NONCE_BYTES = 32


def transcript(hello: Hello, challenge: Challenge, tls: bool) -> bytes:
    """The digest of everything that both sides sent. It is encoded as a list, so that different handshakes never have
    the same bytes. It names each field, so that a field that a later minor version adds does not change the digest
    between an old and a new program."""
    said = [
        *("reconvene client handshake", tls),
        *(hello.major, hello.minor, hello.name, hello.nonce),
        *(challenge.major, challenge.minor, challenge.cluster, challenge.site, challenge.nonce),
    ]
    return hashlib.sha256(msgpack.encode(said)).digest()


def client_proof(key: bytes, said: bytes) -> bytes:
    return hmac.digest(key, b"client" + said, "sha256")


def site_proof(key: bytes, said: bytes) -> bytes:
    return hmac.digest(key, b"site" + said, "sha256")


def is_proof(given: bytes, expected: bytes) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(given, expected)


def session_seals(key: bytes, said: bytes) -> tuple[RecordSeal, RecordSeal]:
    """(from client to site, from site to client)"""
    derived = HKDF(algorithm=SHA256(), length=64, salt=said, info=b"reconvene client records").derive(key)
    return RecordSeal(derived[:32]), RecordSeal(derived[32:])
