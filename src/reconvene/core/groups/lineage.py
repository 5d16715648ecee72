"""Which primary configuration is used, and which sites go on from one to the next.

A configuration with a majority of the cluster's sites is primary; while the list of sites changes, with a majority of
each version that counts (`SiteList`). It is *used* only once a safe message was delivered in it, so that every member
knows of its use, at the latest in its transitional configuration: from then on two quorums can't both miss it.

Given: the configurations of this site in order; what each member brings, where they do not all come together; the
delivery of the safe message. Promised: used configurations follow one another at every site alike; the *heirs* of
one, the members whose state the others must not contradict, are the same at all its members.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from reconvene.site_list import SiteList

__all__ = ["Claim", "Lineage"]


class Claim(NamedTuple):
    """What a site knows of used configurations when a configuration begins."""

    lineage: int
    """The highest primary configuration that it has heard to be used."""
    memory: bool
    """It has taken part in one since it started, so it can't have forgotten one in which it took part."""
    active: int
    """The used configuration from which it comes, without having been outside of the primary component since; 0:
    none."""
    exit: int
    """The regular configuration that it installed after that one."""


class Lineage:
    def __init__(self) -> None:
        self.primary = False
        """The present configuration holds every majority that it needs."""
        self.active = False
        """It is used."""
        self.lineage = 0
        """The highest primary configuration that may have been used anywhere, as far as this site has heard."""
        self.memory = False
        """This incarnation has been in one that was used."""
        self.used = 0
        """The last used one that this site was in; 0: none, or it was outside of the primary component since …"""
        self.exit = 0
        """… and the regular configuration that this site installed after it: sites that have both in common have
        delivered the same messages."""
        self.newly_used: tuple[int, int] | None = None
        """A configuration that is used since this was last taken: the newest version of the list that its members
        know, which all of them have stored, and its number."""
        self.sites: SiteList
        """What the members of the present configuration know of the cluster's list."""
        self.number = 0
        """Of the present regular configuration."""
        self.heirs: tuple[int, ...] = ()
        """Of the present configuration, once it is used: its members that were in the last used one and left it
        together."""

    def install(self, number: int, members: Collection[int], sites: SiteList) -> None:
        """A regular configuration begins. `sites`: what its members know of the cluster's list."""
        self.sites = sites
        self.primary = sites.primary(members)
        # A site of an earlier list need not be a member: a later list became the base, so it is in use.
        self.lineage = max(self.lineage, sites.since)
        self.active = False
        self.number = number
        if not self.primary:
            self.used = self.exit = 0
        elif self.used and not self.exit:
            self.exit = number
        # Those that come together have all of this in common; the others will call `decide`.
        self.heirs = tuple(members) if self.used else ()

    def claim(self) -> Claim:
        """What this site brings into the present configuration."""
        return Claim(self.lineage, self.memory, self.used, self.exit)

    def decide(self, claims: Mapping[int, Claim]) -> None:
        """Decides which members are heirs, now that all of them know what each brings. Where fewer than a quorum of
        sites remember, a later used configuration may be forgotten, and there are none."""
        self.lineage = max(claim.lineage for claim in claims.values())
        self.heirs = self._heirs(claims)

    def _heirs(self, claims: Mapping[int, Claim]) -> tuple[int, ...]:
        remembering = [site for site in sorted(claims) if claims[site].memory]
        if not self.primary or not self.sites.primary(remembering):
            return ()
        exits: dict[int, list[int]] = {}
        for site in remembering:
            if claims[site].active == self.lineage:
                exits.setdefault(claims[site].exit, []).append(site)
        # No component has used anything since they parted, so any one of them may go on, but only one.
        return tuple(max(sorted(exits.items()), key=_how_many, default=(0, ()))[1])

    def activate(self) -> None:
        """The present configuration is used."""
        self.active = True
        self.newly_used = (self.sites.newest, self.number)
        self.lineage = self.used = self.number
        self.memory = True
        self.exit = 0

    def invariants(self) -> None:
        assert not self.active or (self.primary and self.used == self.lineage)
        assert self.primary or not self.used


def _how_many(exit_: tuple[int, list[int]]) -> int:
    """`max` keeps the first of equals: the lowest configuration."""
    return len(exit_[1])
