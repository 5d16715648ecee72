"""Who the sites are, by number, and where each receives datagrams: what a site's file and its storage say together.

A number never changes (`reconvene.site_list`), so storage has the last word on numbers. While a change of the list is
under way, sites that it removes are still needed to finish it: they are talked to at the address that an earlier file
gave.
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
"""Of storage beyond the log's limit: what others had accepted, truncation and the site's record need room still."""

ADDRESSES = "addresses"
"""Where a site keeps the addresses of all sites that its files ever listed."""


@dataclass(frozen=True, slots=True)
class Numbers:
    sites: SiteList
    """What the site knows of the cluster's list when it starts."""
    ordinal: int
    """This site's own number."""
    addresses: tuple[Address | None, ...]
    """By number; None: this site does not know it, or has no use for it any more."""

    @property
    def names(self) -> tuple[str, ...]:
        return self.sites.names

    @property
    def peers(self) -> tuple[int, ...]:
        """The other sites, as far as they can be sent anything."""
        return tuple(
            number for number, address in enumerate(self.addresses) if address is not None and number != self.ordinal
        )


def numbers_in(config: Config, store: Store | None = None) -> Numbers:
    """Raises Rejected where the file contradicts storage, Malformed where storage is damaged. None: a new site."""
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
    """What a site's storage may take."""
    return config.log.max_bytes + _RESERVE_BYTES


def read_numbers(config: Config, disk: Disk) -> Numbers:
    """As `numbers_in`, from the site's own directory."""
    store = disk.open(config.dir / "store", store_bytes(config))
    try:
        return numbers_in(config, store)
    finally:
        store.close()
