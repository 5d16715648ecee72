"""Seals: what makes a datagram a member's, secret, and of use only once.

A sealed datagram is a clear header, which the seal covers too, then the encrypted datagram and its tag (AES-256-GCM).

| bytes | in the header |
| --- | --- |
| 1 | mark: the high half is always 0xB; then one bit: not sealed; then three: what it carries (`Kind`) |
| 1 | major version: another one is refused; this and the mark keep their place for ever |
| 1 | minor version: another one is welcome |
| 1 | the sender's ordinal |
| 4 | of the cluster: a hash of its name |
| 4 | of the key: a hash of it, to find it by; zero where nothing is sealed |
| 12 | salt: random, drawn when its sender booted |
| 8 | counter: of its sender's datagrams since then, from 1 |

The key of a session is derived from the cluster's key, the cluster's name and the salt; the nonce is the end of the
salt and the counter. So a nonce can't come twice under one key, whatever became of the sender's disk.

Promised: `parse`, `unseal` and `Opener.open` raise `Refused` and nothing else, whatever they are given.
"""

import os
from array import array
from collections.abc import Sequence
from enum import IntEnum, StrEnum
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from reconvene.errors import Malformed
from reconvene.wire.messages import VERSION

__all__ = [
    "HEADER_BYTES",
    "KEY_BYTES",
    "MAJOR",
    "MINOR",
    "PREFIX_BYTES",
    "SALT_BYTES",
    "SEAL_BYTES",
    "TAG_BYTES",
    "WINDOW",
    "ClusterKey",
    "Header",
    "Kind",
    "Opener",
    "PlainOpener",
    "Reason",
    "Refused",
    "Sealer",
    "Seen",
    "cluster_tag",
    "parse",
    "split",
    "unseal",
]

MAJOR = VERSION
MINOR = 1
"""1: beacons, states, challenges and answers tell what their sender knows of the list of sites."""
KEY_BYTES = 32
SALT_BYTES = 12
PREFIX_BYTES = 24
"""The header without its counter: the same for all datagrams that a boot of a site seals with one key."""
HEADER_BYTES = 32
TAG_BYTES = 16
SEAL_BYTES = HEADER_BYTES + TAG_BYTES
"""What a seal adds to a datagram."""
WINDOW = 4_096
"""How far datagrams may overtake each other and all be taken. A power of two."""

_MARK = 0xB0
_UNSEALED = 0x08
_NO_KEY = bytes(4)
_NONCE = slice(HEADER_BYTES - 12, HEADER_BYTES)
_header = Struct(">BBBB4s4s12sQ")
split = Struct(">24sQ").unpack_from
"""A packet's prefix and counter."""


class Kind(IntEnum):
    """What a packet carries. In the header, so that one is never taken for another."""

    DATA = 0
    """A datagram of the core's."""
    CHALLENGE = 1
    """Random bytes, for the receiver to answer with."""
    ANSWER = 2
    """A challenge, given back: its sender is alive now."""


class Reason(StrEnum):
    """Why a datagram was dropped; each has its counter."""

    MALFORMED = "dropped_malformed"
    VERSION = "dropped_version"
    FOREIGN_CLUSTER = "dropped_foreign_cluster"
    UNSEALED = "dropped_unsealed"
    SEALED = "dropped_sealed"
    UNKNOWN_KEY = "dropped_unknown_key"
    BAD_SEAL = "dropped_bad_seal"
    REPLAY = "dropped_replay"
    UNVERIFIED = "dropped_unverified"
    """Of a session that has not answered a challenge yet: a site that just started, or an old recording."""
    OTHER_SITES = "dropped_other_sites"
    """Its configuration lists other sites than this one's."""
    SAME_NAME = "dropped_same_name"
    """Its sender claims to be this very site."""
    OWN = "dropped_own"
    """This site's own: how multicast works, and no fault."""
    BLOCKED = "dropped_blocked"
    """Fault injection."""
    SEND = "dropped_send"
    """Not received but sent: the system did not take it."""


class Refused(Malformed):
    """A datagram is not to be taken: `reason`, and one line of why."""

    def __init__(self, reason: Reason, why: str) -> None:
        super().__init__(why)
        self.reason = reason


class Header(NamedTuple):
    mark: int
    major: int
    minor: int
    site: int
    cluster: bytes
    key: bytes
    salt: bytes
    counter: int

    @property
    def sealed(self) -> bool:
        return not self.mark & _UNSEALED

    @property
    def kind(self) -> Kind:
        return Kind(self.mark & 0x07)


class ClusterKey:
    """A secret that the sites of a cluster share."""

    __slots__ = ("_secret", "id")

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise ValueError(f"key of {len(secret)} bytes: {KEY_BYTES} expected")
        self._secret = secret
        self.id = blake2b(key=secret, digest_size=4, person=b"reconvene key id").digest()
        """Travels in clear; says nothing of the key but whether it is the same."""

    def __repr__(self) -> str:
        return f"ClusterKey({self.id.hex()})"

    def session(self, cluster: str, salt: bytes) -> AESGCM:
        """What seals and opens the datagrams of one boot of a site."""
        derived = blake2b(salt + cluster.encode(), key=self._secret, digest_size=32, person=b"reconvene sealed")
        return AESGCM(derived.digest())


class Seen:
    """The counters that were taken from one session: never one twice.

    Of the counters that are equal modulo `WINDOW` the highest taken is kept; only a higher one is new. So whatever
    arrives less than `WINDOW` late is judged exactly, and nothing has to be shifted.
    """

    __slots__ = ("highest",)

    def __init__(self, floor: int = 0) -> None:
        """Counters up to `floor` are never taken."""
        self.highest = array("Q", [floor]) * WINDOW
        """By remainder."""


_KINDS = frozenset(Kind)


def cluster_tag(cluster: str) -> bytes:
    return blake2b(cluster.encode(), digest_size=4, person=b"reconvenecluster").digest()


def parse(packet: bytes | memoryview, cluster: bytes, sealed: bool) -> Header:
    """The header of a packet that may be for a site of this cluster; what is cheap to see is checked here."""
    if len(packet) < 2 or packet[0] & 0xF0 != _MARK:
        raise Refused(Reason.MALFORMED, "not a datagram of reconvene's")
    if packet[1] != MAJOR:
        raise Refused(Reason.VERSION, f"speaks wire version {packet[1]}, this site {MAJOR}")
    if len(packet) < HEADER_BYTES:
        raise Refused(Reason.MALFORMED, f"cut short: {len(packet)} bytes")
    fields = _header.unpack_from(packet)
    if fields[4] != cluster:
        raise Refused(Reason.FOREIGN_CLUSTER, "of a cluster with another name")
    header = Header._make(fields)
    if header.sealed is not sealed:
        if sealed:
            raise Refused(Reason.UNSEALED, "not sealed: its sender is configured as insecure, this site is not")
        raise Refused(Reason.SEALED, "sealed, and this site is configured as insecure")
    if header.mark & 0x07 not in _KINDS or header.counter == 0:
        raise Refused(Reason.MALFORMED, "a header that no site makes")
    if sealed and len(packet) < SEAL_BYTES:
        raise Refused(Reason.MALFORMED, f"cut short: {len(packet)} bytes")
    return header


def unseal(session: AESGCM, packet: bytes | memoryview) -> bytes:
    """What a packet of this session carries, whether or not it came before."""
    try:
        return session.decrypt(packet[_NONCE], packet[HEADER_BYTES:], packet[:HEADER_BYTES])
    except (InvalidTag, ValueError):
        raise Refused(Reason.BAD_SEAL, "its seal does not hold: forged, or damaged on the way") from None


class Opener:
    """Opens the packets of one session under one key, each of them once."""

    __slots__ = ("_highest", "_session", "site")

    def __init__(self, site: int, session: AESGCM, seen: Seen) -> None:
        """`seen` is shared by all keys of the session: its counter goes on when the key changes."""
        self.site = site
        self._session = session
        self._highest = seen.highest

    def open(self, packet: memoryview, counter: int) -> bytes:
        """`counter` as `parse` or `split` gives it."""
        place = counter % WINDOW
        if counter <= self._highest[place]:
            raise Refused(Reason.REPLAY, "a datagram that this site has already taken")
        data = unseal(self._session, packet)
        self._highest[place] = counter
        return data


class PlainOpener:
    """Where nothing is sealed. Whatever comes is taken, also again: a replay is no worse than a lie."""

    __slots__ = ("site",)

    def __init__(self, site: int) -> None:
        self.site = site

    def open(self, packet: memoryview, counter: int) -> bytes:
        return packet[HEADER_BYTES:].tobytes()


class Sealer:
    """Seals what one boot of a site sends. The counter goes on when the key changes, so a nonce is never used again.

    Without keys nothing is sealed, and the header stands alone.
    """

    def __init__(self, cluster: str, site: int, keys: Sequence[ClusterKey], salt: bytes | None = None) -> None:
        self.salt = os.urandom(SALT_BYTES) if salt is None else salt
        self.site = site
        self._cluster = cluster
        self._counter = 0
        self.use(keys)

    def use(self, keys: Sequence[ClusterKey]) -> None:
        """From now on the first of these seals."""
        key = keys[0] if keys else None
        self._encrypt = None if key is None else key.session(self._cluster, self.salt).encrypt
        mark = _MARK | (_UNSEALED if key is None else 0)
        key_id = _NO_KEY if key is None else key.id
        tag = cluster_tag(self._cluster)
        self._prefixes = tuple(
            _header.pack(mark | kind, MAJOR, MINOR, self.site, tag, key_id, self.salt, 0)[:PREFIX_BYTES]
            for kind in Kind
        )
        self.prefix = self._prefixes[Kind.DATA]
        """Of this site's own datagrams, as others see them."""

    @property
    def sealed(self) -> bool:
        return self._encrypt is not None

    def seal(self, data: bytes) -> bytes:
        """A packet that carries a datagram of the core's."""
        return self._pack(self.prefix, data)

    def seal_control(self, kind: Kind, data: bytes) -> bytes:
        return self._pack(self._prefixes[kind], data)

    def _pack(self, prefix: bytes, data: bytes) -> bytes:
        self._counter += 1
        header = prefix + self._counter.to_bytes(8, "big")
        if self._encrypt is None:
            return header + data
        return header + self._encrypt(header[_NONCE], data, header)
