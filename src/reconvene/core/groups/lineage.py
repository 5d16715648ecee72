"""Which primary configuration is used, and which sites go on from one to the next.

A configuration with a majority of the cluster's sites is primary; while the list of sites changes, with a majority of
each version that counts (`SiteList`). It is *used* only once a safe message was delivered in it, so that every member
knows of its use, at the latest in its transitional configuration: from then on two quorums can't both miss it.

Given: the configurations of this site in order; what each member brings, where they do not all come together; the
delivery of the safe message; from stable storage, a number above which no configuration was used while an earlier
incarnation of this site was in it (`core/record.py`). Promised: used configurations follow one another at every site
alike; the *heirs* of one, the members whose state the others must not contradict, are the same at all its members.

Heirs come from L, the last used configuration that any member has heard of. L is the last one of all if a quorum of
the members are *witnesses*: sites that were in no later one, and can tell. Proof: suppose that X is later than L, and
was used before it ended. Then X has a witness among its members, or the list of sites shows that one at or after X
was used, and L is not below that one (docs/sites.md). If the witness was in X in this incarnation, it has delivered
the safe message of X, and L is X or later. If it was in X in an earlier one, it stored the number of X before it
answered for X, and now reports a number that is not below X; but a witness reports none above L. So there is no X.

Therefore two lines never go on at once: there is one L, and of those that left it apart one set is chosen, at all
members alike. A site that has started again can be a witness, but never an heir: it comes from no used configuration.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from reconvene.site_list import NextList, SiteList

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
    forgotten: int | None = 0
    """No configuration above this was used while an earlier incarnation of it was in it; 0: it can't tell; None: it
    runs a program that does not know this."""


class Lineage:
    def __init__(self, forgotten: int = 0) -> None:
        """`forgotten`: of this site, as its claims have it."""
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
        self._forgotten = forgotten
        self.newly_used: tuple[int, int] | None = None
        """A configuration that is used since this was last taken: the newest version of the list that its members
        know, which all of them have stored, and its number."""
        self.newly_chosen: NextList | None = None
        """The proposal for the next version that they have stored besides."""
        self.sites: SiteList
        """What the members of the present configuration know of the cluster's list; once it is used, what follows
        from that."""
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
        return Claim(self.lineage, self.memory, self.used, self.exit, self._forgotten)

    def decide(self, claims: Mapping[int, Claim]) -> None:
        """Decides which members are heirs, now that all of them know what each brings. Where fewer than a quorum of
        sites are witnesses, a later used configuration may be forgotten, and there are none."""
        self.lineage = max(claim.lineage for claim in claims.values())
        self.heirs = self._heirs(claims)

    def _heirs(self, claims: Mapping[int, Claim]) -> tuple[int, ...]:
        # All members have to decide alike: so they go by what every one of them knows how to report.
        all_tell = all(claim.forgotten is not None for claim in claims.values())
        witnesses = [site for site in sorted(claims) if self._is_witness(claims[site], all_tell)]
        if not self.primary or not self.sites.primary(witnesses):
            return ()
        exits: dict[int, list[int]] = {}
        for site in witnesses:
            if claims[site].memory and claims[site].active == self.lineage:
                exits.setdefault(claims[site].exit, []).append(site)
        # No component has used anything since they parted, so any one of them may go on, but only one.
        return tuple(max(sorted(exits.items()), key=_how_many, default=(0, ()))[1])

    def _is_witness(self, claim: Claim, all_tell: bool) -> bool:
        return claim.memory or (all_tell and 0 < (claim.forgotten or 0) <= self.lineage)

    def activate(self) -> None:
        """The present configuration is used."""
        self.active = True
        self.newly_used = (self.sites.newest, self.number)
        # While an earlier version still counts, its majority has not agreed to a further one.
        self.newly_chosen = self.sites.proposal if self.sites.finished else None
        self.sites = self.sites.used(*self.newly_used, self.newly_chosen)
        self.lineage = self.used = self.number
        self.memory = True
        self.exit = 0

    def invariants(self) -> None:
        assert not self.active or (self.primary and self.used == self.lineage)
        assert self.primary or not self.used


def _how_many(exit_: tuple[int, list[int]]) -> int:
    """`max` keeps the first of equals: the lowest configuration."""
    return len(exit_[1])
