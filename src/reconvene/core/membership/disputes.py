"""Sites whose list of the cluster's sites contradicts the list of this site.

Given: the lists that beacons carry. Promised: whether the sender may be heard, computed once per list; for each site
that may not be heard, the list that it sent, so that operators can see the difference.
"""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Raw

from reconvene.site_list import Dispute, SiteList
from reconvene.wire.codec import decode_sites

__all__ = ["Disputes"]


class _Heard(NamedTuple):
    raw: bytes
    """The list that the site sent."""
    known: SiteList
    """The list that this site had then."""
    agrees: bool


class Disputes:
    def __init__(self) -> None:
        self.found: dict[str, Dispute] = {}
        """By the name of the site that sent it; at most one for each ordinal."""
        self.outside: Mapping[str, Dispute] = {}
        """Disputes that the transport found and keeps up to date. It passes on nothing from these sites."""
        self.news: SiteList | None = None
        """The list that was compared last, if it agrees and was not compared before."""
        self._heard: dict[int, _Heard] = {}
        self._names: dict[int, str] = {}

    @property
    def all(self) -> dict[str, Dispute]:
        return {**self.outside, **self.found}

    def agrees(self, site: int, raw: Raw, known: SiteList) -> bool:
        """Whether the list of the site named `site` agrees with this one. Raises Malformed for an impossible list."""
        data = bytes(raw)
        heard = self._heard.get(site)
        self.news = None
        if heard is None or heard.raw != data or heard.known is not known:
            told = decode_sites(data)
            heard = self._heard[site] = _Heard(data, known, self._compare(site, told, known))
            self.news = told if heard.agrees else None
        return heard.agrees

    def _compare(self, site: int, told: SiteList | None, known: SiteList) -> bool:
        self.found.pop(self._names.pop(site, ""), None)
        if told is None or not known.names:
            return known.newest == 1  # an older program, which has no versions
        dispute = known.differs(told)
        if dispute is None:
            return True
        name = self._names[site] = told.names[site] if site < len(told.names) else f"#{site}"
        self.found[name] = dispute
        return False
