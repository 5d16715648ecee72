"""Whose datagrams are opened: the sessions of the other sites.

A session is one boot of a site, known by its salt. That a datagram opens says only that someone with the key made it
at some time; a recording of an earlier boot opens too, also at a site that restarted and remembers nothing. So the
datagrams of a new session are dropped, and the site that they name is sent a challenge, at its configured address;
when it answers, the session counts, and the site's earlier one no longer does. A site that starts challenges all
others at once, and is challenged in turn: by the time it has something to say, it is known.

Promised: `open` never raises, whatever it is given. What is kept is one session, one challenge and a few derived keys
for each site. Not sealed, a session is whatever a header says, and nobody is challenged.
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

__all__ = [
    "CHALLENGE_BYTES",
    "CHALLENGE_EVERY_S",
    "CHALLENGE_LIFE_S",
    "STRANGERS_A_SECOND",
    "STRANGERS_A_SECOND_AND_SITE",
    "SealSessions",
]

CHALLENGE_BYTES = 16
CHALLENGE_EVERY_S = 0.02
"""A site is challenged at most this often, whatever comes in its name."""
CHALLENGE_LIFE_S = 5.0
"""An answer that comes later than this answers nothing."""
STRANGERS_A_SECOND_AND_SITE = 200
STRANGERS_A_SECOND = 500
"""Packets of unknown sessions that are opened: from each site's own address, and from all others together. Deriving a
key costs several times what reading a packet does, and a flood can bring a new salt with each; a site that starts
needs a few, and a flood from elsewhere leaves it those."""

_HASH_BYTES = 8
"""Of the names: all that a program of minor version 0 tells of its list."""
_LENGTH_BYTES = 2


class _Session:
    """One boot of a site, and an opener for each key that the site has sealed with."""

    __slots__ = ("openers", "salt", "seen")

    def __init__(self, salt: bytes, answered: int) -> None:
        """`answered`: the counter of the answer that it was accepted for. What it sent before may be a recording
        of what an earlier boot of this site has taken."""
        self.salt = salt
        self.seen = Seen(answered)
        self.openers: dict[bytes, Opener] = {}


class _Allowance:
    """So many a second."""

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
        """`sites`: what this site knows of the cluster's list; `addresses`: of the other sites, by number, as far as
        they are known. `post` sends a packet to a site that has one. No keys: nothing is sealed."""
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
        """By a packet's prefix: one lookup says that all of its header is as it was when the session was accepted."""
        self._sessions: dict[int, _Session] = {}
        self._challenges: dict[int, _Challenge] = {}
        self._addresses = dict(addresses)
        self._near = tuple(_Allowance(STRANGERS_A_SECOND_AND_SITE) for _ in self._names)
        self._far = _Allowance(STRANGERS_A_SECOND)
        self.deaf: frozenset[int] = frozenset()
        """Fault injection: what these send is dropped."""
        self.opened = 0
        """Sessions accepted."""
        self.disputes: dict[str, Dispute] = {}
        """What sites tell of the list of sites that this one knows otherwise, by name. They have no session."""
        self.use(keys)

    def use(self, keys: Sequence[ClusterKey]) -> None:
        """From now on these keys open, and no others. Sessions go on under any of them."""
        self._keys = {key.id: key for key in keys}
        self._key_names = ", ".join(key.id.hex() for key in keys)
        self._sealed = bool(keys)
        self._ways.clear()
        for session in self._sessions.values():
            session.openers.clear()

    def greet(self) -> None:
        """This site starts: it asks everyone, and by asking makes itself known."""
        if self._sealed:
            for site in self._addresses:
                self._challenge(site, self._clock())

    def open(self, packet: memoryview, source: Source) -> bytes | None:
        """What the packet carries; None: nothing for the core. What is refused is counted and told."""
        try:
            if len(packet) >= HEADER_BYTES:
                prefix, counter = split(packet)
                opener = self._ways.get(prefix)
                if opener is not None:
                    data = opener.open(packet, counter)
                    if self.deaf:
                        self._check_blocked(opener.site)
                    return data
                if prefix == self._sealer.prefix:
                    raise Refused(Reason.OWN, "this site's own")
            return self._meet(packet, parse(packet, self._tag, self._sealed), source)
        except Refused as refusal:
            self._refusals.note(refusal.reason, source, str(refusal))
            return None

    def _meet(self, packet: memoryview, header: Header, source: Source) -> bytes | None:
        """A packet that is not simply the next one of a session."""
        site = header.site
        if header.salt == self._sealer.salt:
            raise Refused(Reason.OWN, "this site's own")
        if site >= len(self._names):
            raise Refused(Reason.OTHER_SITES, f"of site number {site}: this site knows of {len(self._names)} sites")
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
            # Whatever it is, opening it would change nothing.
            raise self._unverified(site)
        if not (self._near[site] if source == self._addresses[site] else self._far).spend(now):
            raise Refused(Reason.UNVERIFIED, "too many packets of unknown sessions come: not looked at")
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
        """A site that starts. If it has other numbers, the one that it gives itself may be another site's here: it is
        answered under its name, so that its log says what is wrong too."""
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
        """Of an accepted session, but under a key that it has not used yet, or a challenge or an answer."""
        site = header.site
        opener = session.openers.get(key.id)
        if opener is None:
            opener = Opener(site, key.session(self._cluster, header.salt), session.seen)
        data = opener.open(packet, header.counter)
        session.openers[key.id] = opener
        self._check_blocked(site)
        match header.kind:
            case Kind.DATA:
                self._ways[packet[:PREFIX_BYTES].tobytes()] = opener
                return data
            case Kind.CHALLENGE:
                self._answer(site, data)
            case Kind.ANSWER:
                # It was challenged because of a recording. Asked twice, it answers twice.
                challenge = self._challenges.get(site)
                if challenge is not None and data[:CHALLENGE_BYTES] == challenge.data:
                    del self._challenges[site]
        return None

    def _meet_unsealed(self, packet: memoryview, header: Header) -> bytes:
        if header.kind is not Kind.DATA:
            raise Refused(Reason.MALFORMED, "a challenge or an answer that is not sealed")
        self._forget_ways(header.site)
        opener = PlainOpener(header.site)
        self._ways[packet[:PREFIX_BYTES].tobytes()] = opener
        self._check_blocked(header.site)
        return opener.open(packet, header.counter)

    # -- challenges

    def _may_challenge(self, site: int, now: float) -> bool:
        challenge = self._challenges.get(site)
        return challenge is None or now - challenge.asked_at >= CHALLENGE_EVERY_S

    def _challenge(self, site: int, now: float) -> None:
        """The same challenge is asked until it is answered or too old: so a recording that keeps coming in a site's
        name can't take the place of what the site is about to answer."""
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
            raise Refused(Reason.UNVERIFIED, f"an answer of {self._names[site]}'s to nothing that was asked")
        self._check_list(site, data)
        del self._challenges[site]
        self._forget_ways(site)
        session = self._sessions[site] = _Session(header.salt, header.counter)
        session.openers[header.key] = Opener(site, aead, session.seen)
        self.opened += 1
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
        """What the sender of a challenge or an answer knows of the cluster's list."""
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

    def _check_blocked(self, site: int) -> None:
        if site in self.deaf:
            raise Refused(Reason.BLOCKED, f"from {self._names[site]}, which is blocked")

    def _forget_ways(self, site: int) -> None:
        for prefix in [prefix for prefix, opener in self._ways.items() if opener.site == site]:
            del self._ways[prefix]

    def _unverified(self, site: int) -> Refused:
        why = f"in the name of {self._names[site]}, which is challenged: it has just started, or this is a replay"
        return Refused(Reason.UNVERIFIED, why)
