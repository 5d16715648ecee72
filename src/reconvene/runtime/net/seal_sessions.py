"""The sessions of the other sites: decides which sealed datagrams are accepted.

A session is one boot of a site, identified by its salt. If a datagram opens, someone with the key made it at some
time. It may still be a recording of an earlier boot, and a site that restarted could not know. So datagrams of a new
session are dropped, and the site that they name is sent a challenge at its configured address. Once it answers, the
new session is accepted and the site's earlier one ends. A site that starts challenges all others at once and is
challenged in turn, so it is accepted before it has anything to send.

Promised: `open` never raises, whatever the bytes. For each site one session, one challenge and a few derived keys are
kept. Without seals, the session in a datagram's header is believed, and no site is challenged.
"""

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import msgpack

from reconvene.errors import Malformed
from reconvene.ids import MAX_SITES
from reconvene.runtime.diagnostics.structured_logging import INFO, event
from reconvene.runtime.net.list_watch import difference
from reconvene.runtime.net.refusals import Refusals, Source
from reconvene.site_list import Dispute, SiteList
from reconvene.wire.codec import decode_sites
from reconvene.wire.seal import (
    HEADER_BYTES,
    PREFIX_BYTES,
    ClusterKey,
    Header,
    Kind,
    Opener,
    PlainOpener,
    Reason,
    Refused,
    Sealer,
    Seen,
    cluster_tag,
    parse,
    split,
    unseal,
)
from reconvene.wire.trains import MINOR_WITH_TRAINS

__all__ = [
    "CHALLENGE_BYTES",
    "CHALLENGE_EVERY_S",
    "CHALLENGE_LIFE_S",
    "REFUSED_PREFIXES",
    "STRANGERS_A_SECOND",
    "STRANGERS_A_SECOND_AND_SITE",
    "SealSessions",
]

CHALLENGE_BYTES = 16
CHALLENGE_EVERY_S = 0.02
"""A site is challenged at most this often, whatever arrives in its name."""
CHALLENGE_LIFE_S = 5.0
"""An answer that arrives later than this is ignored."""
STRANGERS_A_SECOND_AND_SITE = 200
STRANGERS_A_SECOND = 500
"""Packets per second of unknown sessions that are opened: from each site's own address, and from all other addresses
together. Deriving a key costs several times as much as reading a packet, and a flood can have a new salt in each. A
site that starts needs only a few, and a flood from other addresses can't use those up."""

REFUSED_PREFIXES = 1_024
"""How many prefixes are remembered as refused."""
_LASTING = frozenset(
    (
        Reason.VERSION,
        Reason.FOREIGN_CLUSTER,
        Reason.UNSEALED,
        Reason.SEALED,
        Reason.UNKNOWN_KEY,
        Reason.SAME_NAME,
    )
)
"""Reasons that follow from a packet's prefix and this site's keys alone: the next packet with that prefix is refused
for the same one."""

_HASH_BYTES = 8
"""A digest of the names: all that a program of minor version 0 sends of its list."""
_LENGTH_BYTES = 2
_REPLAY = "a datagram that this site has already taken"


class _Session:
    """One boot of a site, with an opener for each key that the site has used."""

    __slots__ = ("openers", "salt", "seen")

    def __init__(self, salt: bytes, answered: int) -> None:
        """`answered`: the counter of the answer with which the session was accepted. Earlier datagrams may be
        recordings that an earlier boot of this site has accepted already."""
        self.salt = salt
        self.seen = Seen(answered)
        self.openers: dict[bytes, Opener] = {}


class _Allowance:
    """A limit per second."""

    __slots__ = ("_rate", "_since", "_spent")

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._since = float("-inf")
        self._spent = 0

    def spend(self, now: float) -> bool:
        if now - self._since >= 1:
            self._since, self._spent = now, 0
        self._spent += 1
        return self._spent <= self._rate


class _Challenge:
    __slots__ = ("asked_at", "data", "made_at")

    def __init__(self, now: float) -> None:
        self.data = os.urandom(CHALLENGE_BYTES)
        self.made_at = now
        self.asked_at = -CHALLENGE_EVERY_S


class SealSessions:
    def __init__(
        self,
        cluster: str,
        sites: SiteList,
        addresses: Mapping[int, Source],
        keys: Sequence[ClusterKey],
        sealer: Sealer,
        refusals: Refusals,
        post: Callable[[int, bytes], None],
        log: logging.Logger,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`sites`: the cluster's list as this site knows it. `addresses`: those of the other sites, by number, as far
        as they are known. `post` sends a packet to a site with a known address. Without keys nothing is sealed."""
        self._cluster = cluster
        self._tag = cluster_tag(cluster)
        self._sites = sites
        self._names = sites.names
        told = msgpack.encode(sites)
        self._hash = blake2b("\0".join(sites.names).encode(), digest_size=_HASH_BYTES).digest()
        self._roster = self._hash + len(told).to_bytes(_LENGTH_BYTES) + told
        self._sealer = sealer
        self._refusals = refusals
        self._post = post
        self._log = log
        self._clock = clock
        self._ways: dict[bytes, Opener | PlainOpener] = {}
        """By a packet's prefix: one lookup shows that the whole header is the one with which the session was
        accepted."""
        self._refused: dict[bytes, tuple[Reason, str]] = {}
        """By prefix: why its packets are refused. A flood costs one lookup each, and no error is made."""
        self._sessions: dict[int, _Session] = {}
        self._challenges: dict[int, _Challenge] = {}
        self._addresses = dict(addresses)
        self._near = tuple(_Allowance(STRANGERS_A_SECOND_AND_SITE) for _ in self._names)
        self._far = _Allowance(STRANGERS_A_SECOND)
        self.deaf: frozenset[int] = frozenset()
        """Fault injection: datagrams from these sites are dropped."""
        self.opened = 0
        """Sessions accepted."""
        self._minors: dict[int, int] = {}
        """By site: the minor version of its session."""
        self.disputes: dict[str, Dispute] = {}
        """Sites whose list of sites contradicts this site's, by name. They have no session."""
        self.use(keys)

    def use(self, keys: Sequence[ClusterKey]) -> None:
        """From now on only these keys are accepted. Sessions continue under any of them."""
        self._keys = {key.id: key for key in keys}
        self._key_names = ", ".join(key.id.hex() for key in keys)
        self._sealed = bool(keys)
        self._ways.clear()
        self._refused.clear()
        for session in self._sessions.values():
            session.openers.clear()

    def greet(self) -> None:
        """Challenges all other sites when this site starts, which also introduces it to them."""
        if self._sealed:
            for site in self._addresses:
                self._challenge(site, self._clock())

    def open(self, packet: memoryview, source: Source) -> bytes | None:
        """The content of the packet; None: nothing for the core. Refused packets are counted and logged."""
        try:
            if len(packet) >= HEADER_BYTES:
                prefix, counter = split(packet)
                opener = self._ways.get(prefix)
                if opener is not None:
                    data = opener.open(packet, counter)
                    if data is None:
                        self._refusals.note(Reason.REPLAY, source, _REPLAY)
                    elif self.deaf:
                        self._check_blocked(opener.site)
                    return data
                refused = self._refused.get(prefix)
                if refused is not None:
                    self._refusals.note(refused[0], source, refused[1])
                    return None
                if prefix == self._sealer.prefix:
                    raise Refused(Reason.OWN, "this site's own")
            return self._meet(packet, parse(packet, self._tag, self._sealed), source)
        except Refused as refusal:
            self._refusals.note(refusal.reason, source, str(refusal))
            if refusal.reason in _LASTING and len(packet) >= HEADER_BYTES:
                self._remember_refused(packet[:PREFIX_BYTES].tobytes(), refusal)
            return None

    def _remember_refused(self, prefix: bytes, refusal: Refused) -> None:
        if len(self._refused) >= REFUSED_PREFIXES:
            self._refused.clear()
        self._refused[prefix] = refusal.reason, str(refusal)

    def _meet(self, packet: memoryview, header: Header, source: Source) -> bytes | None:
        """Handles a packet that does not belong to an accepted session."""
        site = header.site
        if header.salt == self._sealer.salt:
            raise Refused(Reason.OWN, "this site's own")
        if site >= len(self._names):
            raise Refused(Reason.OTHER_SITES, f"from site number {site}: this site knows {len(self._names)} sites")
        if site == self._sealer.site:
            why = f"in the name of this site, {self._names[site]}: another process has that name, or it is a replay"
            raise Refused(Reason.SAME_NAME, why)
        if site not in self._addresses:
            raise Refused(Reason.OTHER_SITES, f"from {self._names[site]}, which is not in this site's list any more")
        if not self._sealed:
            return self._meet_unsealed(packet, header)
        key = self._keys.get(header.key)
        if key is None:
            raise Refused(Reason.UNKNOWN_KEY, f"sealed with key {header.key.hex()}; this site has {self._key_names}")
        session = self._sessions.get(site)
        if session is not None and session.salt == header.salt:
            return self._open_known(packet, header, session, key)
        self._check_blocked(site)
        now = self._clock()
        if header.kind is Kind.DATA and not self._may_challenge(site, now):
            # Opening it would change nothing.
            raise self._unverified(site)
        if not (self._near[site] if source == self._addresses[site] else self._far).spend(now):
            raise Refused(Reason.UNVERIFIED, "too many packets of unknown sessions: not examined")
        aead = key.session(self._cluster, header.salt)
        data = unseal(aead, packet)
        match header.kind:
            case Kind.DATA:
                self._challenge(site, now)
                raise self._unverified(site)
            case Kind.CHALLENGE:
                self._greeted(site, data, now)
            case Kind.ANSWER:
                self._accept(header, data, aead)
        return None

    def _greeted(self, site: int, data: bytes, now: float) -> None:
        """Handles the first packet of a site that starts. If its sites are numbered differently, its own number may
        be another site's here. It is answered by name, so that it can log the mistake as well."""
        told = self._list_in(data)
        dispute = None if told is None else self._sites.differs(told)
        if told is not None and dispute is not None and not dispute.version and site < len(told.names):
            name = told.names[site]
            number = self._names.index(name) if name in self._names else site
            if number in self._addresses:
                self._answer(number, data)
                self._challenge(number, now)
            raise self._other_list(site, told, dispute)
        self._answer(site, data)
        self._challenge(site, now)

    def _open_known(self, packet: memoryview, header: Header, session: _Session, key: ClusterKey) -> bytes | None:
        """Handles a packet of an accepted session that is under a new key, or is a challenge or an answer."""
        site = header.site
        opener = session.openers.get(key.id)
        if opener is None:
            opener = Opener(site, key.session(self._cluster, header.salt), session.seen)
        data = opener.open(packet, header.counter)
        if data is None:
            raise Refused(Reason.REPLAY, _REPLAY)
        session.openers[key.id] = opener
        self._check_blocked(site)
        match header.kind:
            case Kind.DATA:
                self._ways[packet[:PREFIX_BYTES].tobytes()] = opener
                return data
            case Kind.CHALLENGE:
                self._answer(site, data)
            case Kind.ANSWER:
                # A recording caused the challenge. The site answers each challenge, also a second one.
                challenge = self._challenges.get(site)
                if challenge is not None and data[:CHALLENGE_BYTES] == challenge.data:
                    del self._challenges[site]
        return None

    def _meet_unsealed(self, packet: memoryview, header: Header) -> bytes:
        if header.kind is not Kind.DATA:
            raise Refused(Reason.MALFORMED, "a challenge or an answer that is not sealed")
        self._forget_ways(header.site)
        self._minors[header.site] = header.minor
        opener = PlainOpener(header.site)
        self._ways[packet[:PREFIX_BYTES].tobytes()] = opener
        self._check_blocked(header.site)
        return opener.open(packet, header.counter)

    # -- challenges

    def _may_challenge(self, site: int, now: float) -> bool:
        challenge = self._challenges.get(site)
        return challenge is None or now - challenge.asked_at >= CHALLENGE_EVERY_S

    def _challenge(self, site: int, now: float) -> None:
        """Repeats the same challenge until it is answered or too old. So recordings that keep arriving in a site's
        name can't invalidate the challenge that the site is about to answer."""
        challenge = self._challenges.get(site)
        if challenge is None or now - challenge.made_at >= CHALLENGE_LIFE_S:
            challenge = self._challenges[site] = _Challenge(now)
        elif now - challenge.asked_at < CHALLENGE_EVERY_S:
            return
        challenge.asked_at = now
        self._post(site, self._sealer.seal_control(Kind.CHALLENGE, challenge.data + self._roster))

    def _answer(self, site: int, data: bytes) -> None:
        if len(data) < CHALLENGE_BYTES:
            raise Refused(Reason.MALFORMED, "a challenge that is too short")
        self._post(site, self._sealer.seal_control(Kind.ANSWER, data[:CHALLENGE_BYTES] + self._roster))

    def _accept(self, header: Header, data: bytes, aead: AESGCM) -> None:
        site = header.site
        challenge = self._challenges.get(site)
        if (
            challenge is None
            or data[:CHALLENGE_BYTES] != challenge.data
            or self._clock() - challenge.made_at >= CHALLENGE_LIFE_S
        ):
            raise Refused(Reason.UNVERIFIED, f"an answer from {self._names[site]} to no challenge of this site")
        self._check_list(site, data)
        del self._challenges[site]
        self._forget_ways(site)
        session = self._sessions[site] = _Session(header.salt, header.counter)
        session.openers[header.key] = Opener(site, aead, session.seen)
        self.opened += 1
        self._minors[site] = header.minor
        event(self._log, INFO, "session", site=self._names[site], salt=header.salt.hex(), minor=header.minor)

    def _check_list(self, site: int, data: bytes) -> None:
        told = self._list_in(data)
        if told is None:
            if data[CHALLENGE_BYTES : CHALLENGE_BYTES + _HASH_BYTES] != self._hash:
                raise Refused(Reason.OTHER_SITES, f"the configuration of {self._names[site]} lists other sites")
            return
        dispute = self._sites.differs(told)
        if dispute is not None:
            raise self._other_list(site, told, dispute)
        self.disputes.pop(told.names[site], None)

    def _list_in(self, data: bytes) -> SiteList | None:
        """The cluster's list as the sender of a challenge or an answer knows it."""
        start = CHALLENGE_BYTES + _HASH_BYTES + _LENGTH_BYTES
        end = start + int.from_bytes(data[start - _LENGTH_BYTES : start])
        if len(data) < max(end, start + 1):
            return None
        try:
            return decode_sites(data[start:end])
        except Malformed:
            return None

    def _other_list(self, site: int, told: SiteList, dispute: Dispute) -> Refused:
        name = told.names[site] if site < len(told.names) else f"number {site}"
        if name in self.disputes or len(self.disputes) < MAX_SITES:
            self.disputes[name] = dispute
        why = difference(self._sites, dispute)
        return Refused(Reason.OTHER_SITES, f"the configuration of {name} lists other sites: {why}")

    # -- small things

    def take_trains(self, sites: Sequence[int]) -> bool:
        """Whether all these sites can join trains (`wire.trains`)."""
        return all(self._minors.get(site, 0) >= MINOR_WITH_TRAINS for site in sites)

    def _check_blocked(self, site: int) -> None:
        if site in self.deaf:
            raise Refused(Reason.BLOCKED, f"from {self._names[site]}, which is blocked")

    def _forget_ways(self, site: int) -> None:
        for prefix in [prefix for prefix, opener in self._ways.items() if opener.site == site]:
            del self._ways[prefix]

    def _unverified(self, site: int) -> Refused:
        why = (
            f"in the name of {self._names[site]}, which is being challenged: it has just started, or this is a replay"
        )
        return Refused(Reason.UNVERIFIED, why)
