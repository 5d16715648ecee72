"""Casts that other sites offer to this one. Each is fetched from one of them.

While a site view changes, every site offers the casts of lost sites that it has, so that all destinations get them;
most sites have the same. This site asks the first site that offers a cast, and another one only if that one offers a
later attempt, or the first is lost.
"""

from collections.abc import Callable, Collection
from typing import Protocol

from reconvene.isis.events import CastId
from reconvene.isis.here import Here
from reconvene.isis.messages import Offer, Want

__all__ = ["Awaited", "Offers"]


class Holder(Protocol):
    """What knows which casts are here."""

    def has(self, cast_id: CastId, attempt: int) -> bool: ...


class Awaited:
    """A record of another site that offers a cast: complete once the cast is."""

    __slots__ = ("_attempt", "_holder", "_id")

    def __init__(self, holder: Holder, offer: Offer) -> None:
        self._holder = holder
        self._id = offer.id
        self._attempt = offer.attempt

    @property
    def complete(self) -> bool:
        return self._holder.has(self._id, self._attempt)

    @property
    def released(self) -> bool:
        return self.complete


class Offers:
    def __init__(self, here: Here) -> None:
        self._here = here
        self._by: dict[CastId, dict[int, int]] = {}
        """By cast that is not here: the sites that offer it, in the order in which they did, and which attempt."""
        self._asked: dict[CastId, int] = {}
        """By cast: the site that was asked for it last."""

    def __len__(self) -> int:
        return len(self._by)

    def add(self, offer: Offer, peer: int) -> None:
        """The peer offers a cast that is not here."""
        by = self._by.setdefault(offer.id, {})
        by[peer] = offer.attempt
        asked = self._asked.get(offer.id)
        if asked is None or by[asked] < offer.attempt:
            self._ask(offer.id, peer)

    def _ask(self, cast_id: CastId, peer: int) -> None:
        self._asked[cast_id] = peer
        self._here.send(peer, Want(cast_id))

    def forget(self, cast_id: CastId) -> None:
        """It is here, or nobody has to bring it any more."""
        if self._by.pop(cast_id, None) is not None:
            del self._asked[cast_id]

    def forget_where(self, done: Callable[[CastId], bool]) -> None:
        for cast_id in [cast_id for cast_id in self._by if done(cast_id)]:
            self.forget(cast_id)

    def depart(self, sites: Collection[int]) -> None:
        """These sites are lost: what they were asked for is asked of others."""
        for cast_id, by in list(self._by.items()):
            for site in sites:
                by.pop(site, None)
            if not by:
                self.forget(cast_id)
            elif self._asked[cast_id] not in by:
                self._ask(cast_id, max(by, key=lambda peer: by[peer]))

    def reset(self) -> None:
        self._by.clear()
        self._asked.clear()
