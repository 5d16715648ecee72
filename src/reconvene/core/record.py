"""What a site keeps in stable storage: its record, what a start makes of it, and what of it is durable as it runs.

Promised: an incarnation is synced before the site starts, and a configuration number before it is answered, so
neither is ever used twice.
"""

from msgspec import Struct, msgpack

from reconvene.core.outgoing import Outgoing
from reconvene.ids import configuration_number, counter_of
from reconvene.site_list import SiteList, first_list

__all__ = ["KEY", "Kept", "Record", "boot", "incarnation_of", "replacement", "stored_list"]

KEY = "site"
"""Where a site's record is kept in stable storage."""


class Record(Struct, array_like=True):
    incarnation: int
    number: int
    """The highest configuration number that the site has used or answered."""
    token: int = 0
    """Drawn at random at its last start."""
    sites: SiteList | None = None
    """What it knows of the cluster's list of sites."""


def boot(stored: bytes | None, ordinal: int, token: int = 0, sites: SiteList | None = None) -> bytes:
    """Returns what is to be synced before a site starts, given what its storage holds: a new incarnation and a new
    number.

    `token`: drawn at random for this start. 0: it has none, and nobody notices where an older storage is put back.
    `sites`: what the site knows of the cluster's list, its storage and its file taken together (`read_list`).
    """
    record = Record(0, 0) if stored is None else msgpack.decode(stored, type=Record)
    number = configuration_number(counter_of(record.number) + 1, ordinal)
    return msgpack.encode(Record(record.incarnation + 1, number, token, sites or record.sites))


def replacement(incarnation: int, number: int, sites: SiteList | None = None) -> bytes:
    """Returns a record for a site whose storage is lost, from what others know of the site and of the cluster's list.
    `boot` goes on from there."""
    return msgpack.encode(Record(incarnation, number, sites=sites))


def incarnation_of(record: bytes) -> int:
    """Of what `boot` returned."""
    return msgpack.decode(record, type=Record).incarnation


def stored_list(stored: bytes | None) -> SiteList | None:
    """What a site's record says of the cluster's list."""
    return None if stored is None else msgpack.decode(stored, type=Record).sites


class Kept:
    """The record of a running site."""

    def __init__(self, record: Record, sites: int, out: Outgoing) -> None:
        """`sites`: how many numbers there are."""
        self.incarnation = record.incarnation
        self.token = record.token
        self.answered = record.number
        """The highest configuration number that this site has used or answered."""
        self.sites = record.sites or first_list(sites)
        """What this site knows of the cluster's list."""
        self._out = out
        self._list_token: int | None = None
        """Of the write that holds `sites`; None: it is durable."""

    @property
    def list_durable(self) -> bool:
        """What this site knows of the list is on stable storage."""
        return self._list_token is None

    def write(self) -> int:
        """Returns the token that comes back once the record is synced."""
        sites = self.sites if self.sites.names else None
        record = Record(self.incarnation, self.answered, self.token, sites)
        return self._out.persist(KEY, msgpack.encode(record))

    def synced(self, token: int) -> None:
        if token == self._list_token:
            self._list_token = None

    def learn(self, sites: SiteList) -> None:
        if sites != self.sites:
            self.sites = sites
            self._list_token = self.write()

    def used(self, version: int, number: int) -> None:
        """The primary configuration of this number is used, and all its members have stored this version."""
        sites = self.sites.used(version, number)
        if sites.base > self.sites.base:
            self.learn(sites)
        else:
            self.sites = sites  # only that version 1 is in use: it goes with the next write
