"""The number and address of each site, from a site's file and its storage together.

A number never changes (`reconvene.site_list`), so for numbers storage decides. While a change of the list is in
progress, the removed sites are still needed to finish it. They are reached at the address from an earlier file.
"""

from dataclasses import dataclass

from msgspec import MsgspecError, msgpack

from reconvene.core.record import KEY, stored_list
from reconvene.errors import Malformed
from reconvene.runtime.config.settings import Address, Config
from reconvene.runtime.outside import Disk, Store
from reconvene.site_list import SiteList, read_list

__all__ = ["ADDRESSES", "Numbers", "kept_addresses", "numbers_in", "read_numbers", "store_bytes"]

_RESERVE_BYTES = 256 << 20
"""Storage beyond the log's limit: messages that other sites accepted, truncation and the site's record need room
too."""

ADDRESSES = "addresses"
"""The key under which a site stores the addresses of all sites that its files ever listed."""


@dataclass(frozen=True, slots=True)
class Numbers:
    sites: SiteList
    """The cluster's list as the site knows it when it starts."""
    ordinal: int
    """This site's own number."""
    addresses: tuple[Address | None, ...]
    """By number; None: unknown, or no longer needed."""

    @property
    def names(self) -> tuple[str, ...]:
        return self.sites.names

    @property
    def peers(self) -> tuple[int, ...]:
        """The other sites that have an address."""
        return tuple(
            number for number, address in enumerate(self.addresses) if address is not None and number != self.ordinal
        )


def numbers_in(config: Config, store: Store | None = None) -> Numbers:
    """`stored` is None for a new site. Raises Rejected if the file contradicts storage, Malformed if storage is
    damaged."""
    stored = None if store is None else store.get(KEY)
    try:
        known = stored_list(stored)
        addresses = {} if store is None else kept_addresses(store)
    except MsgspecError as error:
        raise Malformed(f"{config.dir}: the site's record can't be read: {error}") from None
    sites = read_list(known, config.sites_version, config.sites, config.numbers)
    if sites.finished:
        addresses = {}
    addresses |= config.sites
    return Numbers(sites, sites.names.index(config.name), tuple(addresses.get(name) for name in sites.names))


def kept_addresses(store: Store) -> dict[str, Address]:
    kept = store.get(ADDRESSES)
    return {} if kept is None else msgpack.decode(kept, type=dict[str, Address])


def store_bytes(config: Config) -> int:
    """The size limit of a site's storage."""
    return config.log.max_bytes + _RESERVE_BYTES


def read_numbers(config: Config, disk: Disk) -> Numbers:
    """As `numbers_in`, from the site's own directory."""
    store = disk.open(config.dir / "store", store_bytes(config))
    try:
        return numbers_in(config, store)
    finally:
        store.close()
