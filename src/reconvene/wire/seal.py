"""Seals datagrams: only sites with the cluster's key can make or read them, and a receiver accepts each only once.

A sealed datagram is a header in clear, then the encrypted datagram, then a tag over both (AES-256-GCM).

| bytes | in the header |
| --- | --- |
| 1 | mark: the high half is always 0xB; then one bit: not sealed; then three: what it carries (`Kind`) |
| 1 | major version: another one is refused; every version has the mark and the major version here |
| 1 | minor version: another one is accepted |
| 1 | the sender's ordinal |
| 4 | hash of the cluster's name |
| 4 | the key's id, a hash of the key; zero if nothing is sealed |
| 12 | salt: random, drawn when the sender booted |
| 8 | counter of the sender's datagrams since its boot, from 1 |

The key of a session is derived from the cluster's key, the cluster's name and the salt; the nonce is the end of the
salt and the counter. So no nonce is used twice under one key, even if the sender loses its disk.

Promised: for any input, `parse`, `unseal` and `Opener.open` raise `Refused` and nothing else.
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
MINOR = 2
"""1: beacons, states, challenges and answers carry what their sender knows of the list of sites.
2: what is longer than a packet may come as a train (`wire.trains`)."""
KEY_BYTES = 32
SALT_BYTES = 12
PREFIX_BYTES = 24
"""The header without its counter: the same for all datagrams that a boot of a site seals with one key."""
HEADER_BYTES = 32
TAG_BYTES = 16
SEAL_BYTES = HEADER_BYTES + TAG_BYTES
"""What a seal adds to a datagram."""
WINDOW = 4_096
"""A datagram is accepted if it is at most this many datagrams late. A power of two."""

_MARK = 0xB0
_UNSEALED = 0x08
_NO_KEY = bytes(4)
_NONCE = slice(HEADER_BYTES - 12, HEADER_BYTES)
_header = Struct(">BBBB4s4s12sQ")
split = Struct(">24sQ").unpack_from
"""A packet's prefix and counter."""


class Kind(IntEnum):
    """What a packet carries. It is in the header, so that one kind is never mistaken for another. 3 is the mark of a
    segment (`wire.trains`), which has another header."""

    DATA = 0
    """A datagram of the core."""
    CHALLENGE = 1
    """Random bytes that the receiver must send back."""
    ANSWER = 2
    """A challenge, sent back: it proves that its sender is alive now."""


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
    """Its session has not answered a challenge yet: a site that just started, or an old recording."""
    OTHER_SITES = "dropped_other_sites"
    """Its sender's configuration lists other sites than this site's."""
    SAME_NAME = "dropped_same_name"
    """Its sender claims to be this very site."""
    OWN = "dropped_own"
    """This site sent it: multicast returns a site's own datagrams; not a fault."""
    BLOCKED = "dropped_blocked"
    """Fault injection."""
    SEND = "dropped_send"
    """A datagram that this site could not send: the operating system refused it."""

    __hash__ = str.__hash__  # an enumeration's own is a function in Python, and a flood calls it for each datagram


class Refused(Malformed):
    """A datagram is refused: `reason`, and an explanation in one line."""

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
        """Sent in clear; it shows only whether two keys are the same."""

    def __repr__(self) -> str:
        return f"ClusterKey({self.id.hex()})"

    def session(self, cluster: str, salt: bytes) -> AESGCM:
        """The cipher that seals and opens the datagrams of one boot of a site."""
        derived = blake2b(salt + cluster.encode(), key=self._secret, digest_size=32, person=b"reconvene sealed")
        return AESGCM(derived.digest())


class Seen:
    """The counters that were accepted from one session, so that none is accepted twice.

    For each remainder modulo `WINDOW` it keeps the highest accepted counter; only a higher one is new. So a datagram
    that is less than `WINDOW` late is judged exactly, and no bitmap has to be shifted.
    """

    __slots__ = ("highest",)

    def __init__(self, floor: int = 0) -> None:
        """Counters up to `floor` are never accepted."""
        self.highest = array("Q", [floor]) * WINDOW
        """By remainder modulo `WINDOW`."""


_KINDS = frozenset(Kind)


def cluster_tag(cluster: str) -> bytes:
    return blake2b(cluster.encode(), digest_size=4, person=b"reconvenecluster").digest()


def parse(packet: bytes | memoryview, cluster: bytes, sealed: bool) -> Header:
    """Returns the header of a packet that may be for a site of this cluster, after the checks that are cheap."""
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
        raise Refused(Reason.MALFORMED, "an invalid header")
    if sealed and len(packet) < SEAL_BYTES:
        raise Refused(Reason.MALFORMED, f"cut short: {len(packet)} bytes")
    return header


def unseal(session: AESGCM, packet: bytes | memoryview) -> bytes:
    """Returns what a packet of this session carries. Does not check for replays."""
    try:
        return session.decrypt(packet[_NONCE], packet[HEADER_BYTES:], packet[:HEADER_BYTES])
    except (InvalidTag, ValueError):
        raise Refused(Reason.BAD_SEAL, "its seal does not hold: forged, or damaged on the way") from None


class Opener:
    """Opens the packets of one session under one key, each of them once."""

    __slots__ = ("_highest", "_session", "site")

    def __init__(self, site: int, session: AESGCM, seen: Seen) -> None:
        """`seen` is shared by all keys of the session: its counter continues when the key changes."""
        self.site = site
        self._session = session
        self._highest = seen.highest

    def open(self, packet: memoryview, counter: int) -> bytes | None:
        """`counter`: as `parse` or `split` returns it. None: a replay, a packet that was opened before."""
        place = counter % WINDOW
        if counter <= self._highest[place]:
            return None
        data = unseal(self._session, packet)
        self._highest[place] = counter
        return data


class PlainOpener:
    """For clusters without seals. Accepts every packet, also repeated ones: anyone could forge them anyway."""

    __slots__ = ("site",)

    def __init__(self, site: int) -> None:
        self.site = site

    def open(self, packet: memoryview, counter: int) -> bytes:
        return packet[HEADER_BYTES:].tobytes()


class Sealer:
    """Seals what one boot of a site sends. The counter continues when the key changes, so no nonce is used twice.

    Without keys nothing is sealed: the datagram follows the header in clear.
    """

    def __init__(self, cluster: str, site: int, keys: Sequence[ClusterKey], salt: bytes | None = None) -> None:
        self.salt = os.urandom(SALT_BYTES) if salt is None else salt
        self.site = site
        self._cluster = cluster
        self._counter = 0
        self.use(keys)

    def use(self, keys: Sequence[ClusterKey]) -> None:
        """From now on the first of these keys seals."""
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
        """The prefix of this site's own datagrams, as others see it."""

    @property
    def sealed(self) -> bool:
        return self._encrypt is not None

    def seal(self, data: bytes) -> bytes:
        """A packet that carries a datagram of the core."""
        return self._pack(self.prefix, data)

    def seal_control(self, kind: Kind, data: bytes) -> bytes:
        return self._pack(self._prefixes[kind], data)

    def _pack(self, prefix: bytes, data: bytes) -> bytes:
        self._counter += 1
        header = prefix + self._counter.to_bytes(8, "big")
        if self._encrypt is None:
            return header + data
        return header + self._encrypt(header[_NONCE], data, header)
