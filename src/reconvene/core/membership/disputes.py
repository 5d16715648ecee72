"""Sites that tell something else of the cluster's list than this one knows.

Given: what beacons tell of the list. Promised: whether the sender may be heard, computed once for what it tells; what
each site that may not be heard tells instead, so that people can be told of it.
"""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Raw

from reconvene.site_list import Dispute, SiteList
from reconvene.wire.codec import decode_sites

__all__ = ["Disputes"]


class _Heard(NamedTuple):
    raw: bytes
    """What the site tells of the list …"""
    known: SiteList
    """… what this site knew then …"""
    agrees: bool


class Disputes:
    def __init__(self) -> None:
        self.found: dict[str, Dispute] = {}
        """By the name of the site that tells it; at most one for each number."""
        self.outside: Mapping[str, Dispute] = {}
        """Those that the transport has found, and keeps up to date: it hands over nothing of these sites."""
        self._heard: dict[int, _Heard] = {}
        self._names: dict[int, str] = {}

    @property
    def all(self) -> dict[str, Dispute]:
        return {**self.outside, **self.found}

    def agrees(self, site: int, raw: Raw, known: SiteList) -> bool:
        """Whether the site that its beacon calls `site` tells the same. Raises Malformed for what no site tells."""
        data = bytes(raw)
        heard = self._heard.get(site)
        if heard is None or heard.raw != data or heard.known is not known:
            heard = self._heard[site] = _Heard(data, known, self._compare(site, decode_sites(data), known))
        return heard.agrees

    def _compare(self, site: int, told: SiteList | None, known: SiteList) -> bool:
        self.found.pop(self._names.pop(site, ""), None)
        if told is None or not known.names:
            return known.newest == 1  # an older program, which knows of no versions
        dispute = known.differs(told)
        if dispute is None:
            return True
        name = self._names[site] = told.names[site] if site < len(told.names) else f"#{site}"
        self.found[name] = dispute
        return False
