"""What an operator asks of the cluster's list of sites, as the next version of it.

Given: the list as a site in the primary component knows it, the members of its configuration, and, where the list was
never changed like this before, the addresses in that site's file. Promised: a list that can follow it, and that the
present members can bring into force by themselves; or Rejected, in one line, and nothing has happened.
"""

from collections.abc import Collection, Sequence

from msgspec import Struct

from reconvene.errors import Rejected
from reconvene.ids import MAX_SITES
from reconvene.site_list import NextList, SiteList

__all__ = ["AddSite", "ListChange", "MoveSite", "RemoveSite", "next_list"]


class AddSite(Struct, frozen=True, tag="add"):
    name: str
    address: str


class RemoveSite(Struct, frozen=True, tag="remove"):
    name: str


class MoveSite(Struct, frozen=True, tag="move"):
    name: str
    address: str


ListChange = AddSite | RemoveSite | MoveSite


def next_list(known: SiteList, change: ListChange, members: Collection[int], addresses: Sequence[str]) -> NextList:
    """`members`: of the configuration in which it is to be proposed. `addresses`: by number; those of the list count
    where it has any."""
    if not known.stable:
        raise Rejected("a change of the list of sites is under way: one change at a time")
    addresses = list(known.addresses or addresses)
    names, sites = known.names, known.lists[known.newest]
    match change:
        case AddSite(name, address):
            if name in names:
                state = "in the list" if sites >> names.index(name) & 1 else "removed, and a name is never used again"
                raise Rejected(f"sites add {name}: {name} is {state}")
            if len(names) == MAX_SITES:
                raise Rejected(f"sites add {name}: expected at most {MAX_SITES} names in all versions of the list")
            _check_free(known, f"sites add {name}", address, addresses)
            sites |= 1 << len(names)
            names = (*names, name)
            addresses.append(address)
        case RemoveSite(name):
            number = _number(known, f"sites remove {name}", name)
            sites &= ~(1 << number)
            addresses[number] = ""
            if not sites:
                raise Rejected(f"sites remove {name}: it is the only site")
        case MoveSite(name, address):
            number = _number(known, f"sites move {name}", name)
            if addresses[number] == address:
                raise Rejected(f"sites move {name}: its address is {address} already")
            _check_free(known, f"sites move {name}", address, addresses)
            addresses[number] = address
    _check_majority(known, change, sites, members)
    return NextList(known.newest + 1, sites, names, tuple(addresses))


def _number(known: SiteList, what: str, name: str) -> int:
    listed = known.sites(known.newest)
    if name not in listed:
        raise Rejected(f"{what}: {name} is not in the list of sites: {' '.join(listed)}")
    return known.names.index(name)


def _check_free(known: SiteList, what: str, address: str, addresses: Sequence[str]) -> None:
    for name, used in zip(known.names, addresses, strict=False):
        if used == address and name in known.sites(known.newest):
            raise Rejected(f"{what}: {address} is the address of {name}: two sites can't share one")


def _check_majority(known: SiteList, change: ListChange, sites: int, members: Collection[int]) -> None:
    """A list of which the present members hold no majority would stop the cluster until others come. One site alone
    can get a second one in no other way."""
    here = sum(1 << member for member in members)
    if 2 * (sites & here).bit_count() > sites.bit_count():
        return
    if isinstance(change, AddSite) and known.lists[known.newest].bit_count() == 1:
        return
    left = " ".join(known.names[site] for site in sorted(members) if sites >> site & 1) or "none"
    verb = type(change).__name__.removesuffix("Site").lower()
    raise Rejected(
        f"sites {verb} {change.name}: the sites that are present ({left}) are no majority of the {sites.bit_count()}"
        " sites of the new list: the cluster would stop until others come"
    )
