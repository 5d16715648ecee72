"""The cluster's list of sites, which changes by versions, and which sites are the primary component meanwhile.

A site's *number* is its place among all names that any version of the list ever had. It never changes: a site that
is removed keeps its number, and one that is added gets the next. So sites with different versions of the list
understand each other.

What a site knows of the list is a `SiteList`. It is durable before others are told of it. Sites that form a
configuration merge what they know. The configuration is primary if it holds a majority of the base and of every later
version that a member knows of. The base moves on to the newest version once all members of a primary configuration
that is used have stored that version. docs/sites.md proves that there is one primary component at most.

A later version comes from the files of sites, or from a `NextList` that an operator made while the sites run
(`reconvene.list_change`). A proposal is a version only once it is *chosen*: all members of a primary configuration
that is used have stored it. Until then it counts for nothing, and a later one may replace it.
"""

from collections.abc import Collection, Sequence
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct
from msgspec.structs import replace

from reconvene.errors import Rejected
from reconvene.ids import MAX_SITES

__all__ = ["MAX_PENDING", "MAX_VERSION", "Dispute", "NextList", "SiteList", "first_list", "read_list"]

MAX_VERSION = (1 << 31) - 1
MAX_PENDING = 16
"""Versions that a site keeps at once: the base, and those after it."""

Name = Annotated[str, Meta(min_length=1, max_length=64)]
Version = Annotated[int, Meta(ge=1, le=MAX_VERSION)]
Mask = Annotated[int, Meta(ge=1)]
Names = Annotated[tuple[Name, ...], Meta(max_length=MAX_SITES)]
Addresses = Annotated[tuple[Annotated[str, Meta(max_length=300)], ...], Meta(max_length=MAX_SITES)]


class Dispute(NamedTuple):
    """What another site tells of the list, and this one knows otherwise."""

    version: int
    """Of which the two tell different sites; 0: they number the sites differently."""
    theirs: tuple[str, ...]
    """The names of that version's sites, or all names by number."""


class NextList(Struct, array_like=True, frozen=True):
    """The next version of the list, as an operator wants it."""

    version: Version
    sites: Mask
    names: Names
    """By number: those of the list before it, and perhaps one more."""
    addresses: Addresses
    """By number; empty: of a removed site."""
    stamp: Annotated[int, Meta(ge=0, le=2**62)] = 0
    """The highest primary configuration whose members have agreed on it. Of two proposals the one with the higher
    stamp counts."""

    def fits(self, known: "SiteList") -> bool:
        """Whether it can follow that list."""
        numbers = len(self.names)
        return (
            self.version == known.newest + 1
            and self.names[: len(known.names)] == known.names
            and len(known.names) <= numbers <= len(known.names) + 1
            and len(set(self.names)) == numbers == len(self.addresses)
            and not self.sites >> numbers
            and all(self.addresses[number] for number in _numbers(self.sites))
        )

    @property
    def age(self) -> tuple[int, tuple[object, ...]]:
        """By which any two are compared. One configuration has two only where it broke up before they were delivered
        to all; then neither is chosen yet, and all have to prefer the same one."""
        return self.stamp, (self.sites, self.names, self.addresses)


class SiteList(Struct, array_like=True, frozen=True):
    """What a site, or a configuration, knows of the list."""

    names: Names
    """By number. Empty in tests of the core, which has numbers only; it is not compared then."""
    lists: Annotated[dict[Version, Mask], Meta(max_length=MAX_PENDING)]
    """The base and every later version that is known: its sites, as a mask of their numbers."""
    base: Annotated[int, Meta(ge=0, le=MAX_VERSION)]
    """The version that needs no earlier one any more; 0: not known, so nothing is primary."""
    since: Annotated[int, Meta(ge=0, le=2**62)] = 0
    """The primary configuration that made it the base; 0: it is the first version, and never was used."""
    disputed: bool = False
    """Another site tells something else of a version that was never used."""
    addresses: Addresses = ()
    """Of the newest version, by number. Empty: the list was never changed by a proposal, and the sites' files have
    the addresses."""
    proposal: NextList | None = None
    """Of the version after the newest one. It is not chosen yet."""

    @property
    def newest(self) -> int:
        return max(self.lists)

    @property
    def finished(self) -> bool:
        """The newest version needs no earlier one."""
        return self.newest == self.base

    @property
    def stable(self) -> bool:
        """No change of the list is under way."""
        return self.finished and self.proposal is None

    @property
    def managed(self) -> bool:
        """The list was changed by a proposal: it counts, and not what the sites' files say."""
        return bool(self.addresses)

    @property
    def listed(self) -> int:
        """The sites of the base and of all later versions, as a mask."""
        mask = 0
        for sites in self.lists.values():
            mask |= sites
        return mask

    def excludes(self, site: int) -> bool:
        """The site was removed, or is not in the list yet."""
        return self.managed and not self.listed >> site & 1

    def sites(self, version: int) -> tuple[str, ...]:
        """The names of one version's sites, sorted."""
        return tuple(
            sorted(self.names[number] for number in _numbers(self.lists[version]) if number < len(self.names))
        )

    def primary(self, members: Collection[int]) -> bool:
        """Whether these sites are a majority of every version that counts."""
        if not self.base or (self.disputed and not self.since):
            return False
        there = sum(1 << site for site in members)
        return all(2 * (mask & there).bit_count() > mask.bit_count() for mask in self.lists.values())

    def may_be_primary(self, members: Collection[int]) -> bool:
        """Whether a configuration of these sites can be primary, whichever version is the base when it is formed.
        False: only a version that is later than all of these, and that another member knows, can make it primary."""
        mask = self.lists[self.newest]
        return 2 * (mask & sum(1 << site for site in members)).bit_count() > mask.bit_count()

    def sound(self) -> bool:
        """Whether an honest site can have told it."""
        known = (1 << (len(self.names) or MAX_SITES)) - 1
        return (
            bool(self.lists)
            and len(set(self.names)) == len(self.names)
            and all(version >= self.base and not mask & ~known for version, mask in self.lists.items())
            and (self.base == 0 or self.base in self.lists)
            and len(self.addresses) in (0, len(self.names))
            and (self.proposal is None or self.proposal.fits(self))
        )

    def differs(self, other: "SiteList") -> Dispute | None:
        """What the other tells and this one knows otherwise, if anything."""
        if any(mine != theirs for mine, theirs in zip(self.names, other.names, strict=False)):
            return Dispute(0, other.names)
        for version in sorted(self.lists):
            if other.lists.get(version, self.lists[version]) != self.lists[version]:
                return Dispute(version, other.sites(version))
        return None

    def merged(self, other: "SiteList") -> "SiteList":
        """What both together know. They must not differ."""
        base, since = max((self.base, self.since), (other.base, other.since))
        lists = {**self.lists, **other.lists}
        lists = {version: lists[version] for version in sorted(lists) if version >= base}
        known = SiteList(
            max(self.names, other.names, key=len),
            lists,
            base,
            since,
            self.disputed or other.disputed,
            max(self, other, key=_managed_version).addresses,
        )
        for one in (self, other):
            if one.proposal is not None:
                known = known.proposed(one.proposal)
        return known

    def used(self, version: int, number: int, chosen: NextList | None = None) -> "SiteList":
        """A primary configuration of this number is used, and all its members have stored this version, the newest
        that they know. `chosen`: the same of a proposal for the version after it."""
        known = self
        if version > self.base:
            lists = {other: mask for other, mask in self.lists.items() if other >= version}
            known = replace(self, lists=lists, base=version, since=number)
        elif version == self.base and not self.since:
            known = replace(self, since=number)
        return known if chosen is None else known._choose(chosen)

    def _choose(self, chosen: NextList) -> "SiteList":
        if chosen.version <= self.newest:
            return self
        return replace(
            self,
            names=chosen.names,
            lists={**self.lists, chosen.version: chosen.sites},
            addresses=chosen.addresses,
            proposal=None,
        )

    def proposed(self, proposal: NextList) -> "SiteList":
        """A proposal was delivered, with the configuration's number as its stamp."""
        if not proposal.fits(self) or (self.proposal is not None and self.proposal.age >= proposal.age):
            return self
        return replace(self, proposal=proposal)

    def agreed_in(self, number: int) -> "SiteList":
        """A primary configuration of this number has this knowledge: its members store the proposal with that
        number, so that in every later one it counts more than what the others know."""
        if self.proposal is None:
            return self
        return replace(self, proposal=replace(self.proposal, stamp=max(number, self.proposal.stamp)))


def _managed_version(known: SiteList) -> int:
    return known.newest if known.managed else 0


def _numbers(mask: int) -> list[int]:
    return [number for number in range(mask.bit_length()) if mask >> number & 1]


def first_list(sites: int, names: Sequence[str] = ()) -> SiteList:
    """Version 1, with so many sites."""
    return SiteList(tuple(names), {1: (1 << sites) - 1}, 1)


def read_list(stored: SiteList | None, version: int, sites: Collection[str], numbers: Sequence[str] = ()) -> SiteList:
    """What a site knows when it starts: what it has stored, and what its file says.

    `numbers`: names by number, where the file gives them. Raises Rejected, in one line, where the file contradicts
    what is stored.
    """
    if stored is not None and stored.base == 0:
        stored = None  # it has never met the cluster
    if stored is not None and stored.managed:
        if version > stored.newest:
            raise Rejected(
                f"sites_version: this site has stored version {stored.newest} of the list, which `reconvene sites`"
                f" changes, and the file has version {version}: remove sites_version from the file"
            )
        return stored
    names = _numbered(stored, version, sites, numbers)
    mask = sum(1 << names.index(name) for name in sites)
    if stored is None:
        return SiteList(names, {version: mask}, 1 if version == 1 else 0)
    lists = dict(stored.lists)
    if version in lists and lists[version] != mask:
        raise Rejected(
            f"sites: version {version} of the list is {' '.join(stored.sites(version))} as this site has stored it,"
            f" and {' '.join(sorted(sites))} in the file: a list that has changed needs a higher sites_version"
        )
    if version > stored.base:
        lists[version] = mask
    if len(lists) > MAX_PENDING:
        raise Rejected(f"sites_version: expected at most {MAX_PENDING - 1} changes of the list that are not finished")
    return replace(stored, names=names, lists=dict(sorted(lists.items())), disputed=False)


def _numbered(stored: SiteList | None, version: int, sites: Collection[str], told: Sequence[str]) -> tuple[str, ...]:
    known = () if stored is None else stored.names
    if any(mine != theirs for mine, theirs in zip(known, told, strict=False)):
        raise Rejected(f"numbers: this site has numbered the sites {' '.join(known)}: numbers never change")
    names = max(known, tuple(told), key=len)
    new = sorted(set(sites) - set(names))
    if new and stored is not None and version > stored.newest + 1:
        raise Rejected(
            f"sites_version: this site knows version {stored.newest} of the list, and the file has version {version}:"
            f" which numbers {' '.join(new)} have can't be told: set numbers as `reconvene status` shows it elsewhere"
        )
    if len(names) + len(new) > MAX_SITES:
        raise Rejected(f"sites: expected at most {MAX_SITES} names in all versions of the list together")
    return (*names, *new)
