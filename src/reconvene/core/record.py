"""What a site keeps in stable storage: its record, what a start makes of it, and what of it is durable as it runs.

Promised: an incarnation is synced before the site starts, and a configuration number before it is answered, so
neither is ever used twice. Every configuration that was used while the site was in it is at or below the stored
`line`: so a site that lost its memory can still tell that it was in no later one (`core/groups/lineage.py`).
"""

from collections.abc import Collection

from msgspec import Struct, msgpack
from msgspec.structs import replace

from reconvene.core.outgoing import Outgoing
from reconvene.ids import configuration_number, counter_of
from reconvene.site_list import NextList, SiteList, first_list

__all__ = ["KEY", "NEW_SITE", "Kept", "Record", "boot", "incarnation_of", "replacement", "stored_list"]

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
    line: int = 0
    """No configuration above this was used while the site was in it; 0: it was in none that can have been used."""
    whole: bool = False
    """`line` is true. It is not where an older program wrote the record, or where the storage was replaced and the
    site was in no used configuration since."""


NEW_SITE = 1
"""Below all configurations: the `line` of a site that was added while the others ran, before its first start. It was
in none, and can tell."""


def boot(stored: bytes | None, ordinal: int, token: int = 0, sites: SiteList | None = None, line: int = 0) -> bytes:
    """Returns what is to be synced before a site starts, given what its storage holds: a new incarnation and a new
    number.

    `token`: drawn at random for this start. 0: it has none, and nobody notices where an older storage is put back.
    `sites`: what the site knows of the cluster's list, its storage and its file taken together (`read_list`).
    `line`: of a site's first start (`NEW_SITE`).
    """
    record = Record(0, 0, line=line, whole=True) if stored is None else msgpack.decode(stored, type=Record)
    number = configuration_number(counter_of(record.number) + 1, ordinal)
    sites = sites or record.sites
    # A site begins alone: that can be primary where the list has no other site.
    line = number if sites is not None and sites.may_be_primary((ordinal,)) else record.line
    return msgpack.encode(Record(record.incarnation + 1, number, token, sites, line, record.whole))


def replacement(incarnation: int, number: int, sites: SiteList | None = None) -> bytes:
    """Returns a record for a site whose storage is lost, from what others know of the site and of the cluster's list.
    `boot` goes on from there. In which configurations the site was, the others need not know: it is not whole."""
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
        self.names = list(self.sites.names)
        """By number. It grows in place: a number never gets another name."""
        self._whole = record.whole
        self.forgotten = record.line if record.whole else 0
        """No configuration above this was used while an earlier incarnation of this site was in it; 0: it can't
        tell."""
        self._line = record.line
        """The last configuration that this site installed and that can be used. It is never below one that was used
        while this site was in it."""
        self._attempt = 0
        """What it answers for now, if that can be used; 0: it is given up or installed, or can't be used."""
        self._written = record.line
        """Of the last write."""
        self._out = out
        self._list_token: int | None = None
        """Of the write that holds `sites`; None: it is durable."""

    @property
    def list_durable(self) -> bool:
        """What this site knows of the list is on stable storage."""
        return self._list_token is None

    def begin(self, number: int, members: Collection[int]) -> int:
        """This site will answer for a configuration. Returns the token that comes back once that is synced."""
        self.answered = number
        self._attempt = number if self.sites.may_be_primary(members) else 0
        return self._write()

    def install(self, number: int, members: Collection[int], agreed: SiteList) -> None:
        """This site goes on to the configuration that it answered for. `agreed`: what all members know of the list.

        Where that has made it primary by a version that this site did not know, `begin` did not write that it can be
        used. It is written now, together with that version: this site's table waits for it, and until that is there
        nobody uses the configuration.
        """
        self._attempt = 0
        if agreed.primary(members):
            self._line = number
            agreed = agreed.agreed_in(number)
        self.learn(replace(agreed, disputed=False))
        assert self._written >= number or not agreed.primary(members), "no member may use it before this is written"

    def _write(self) -> int:
        sites = self.sites if self.sites.names else None
        self._written = self._attempt or self._line
        record = Record(self.incarnation, self.answered, self.token, sites, self._written, self._whole)
        return self._out.persist(KEY, msgpack.encode(record))

    def synced(self, token: int) -> None:
        if token == self._list_token:
            self._list_token = None

    def learn(self, sites: SiteList) -> None:
        """Another site knows this of the list, and does not contradict what this site knows."""
        self._replace(self.sites.merged(sites))

    def propose(self, proposal: NextList) -> None:
        """It was delivered in the configuration of its stamp."""
        self._replace(self.sites.proposed(proposal))

    def _replace(self, sites: SiteList) -> None:
        if sites != self.sites:
            self.sites = sites
            self.names += sites.names[len(self.names) :]
            self._list_token = self._write()

    def used(self, version: int, number: int, chosen: NextList | None = None) -> None:
        """The primary configuration of this number is used, and all its members have stored this version, and the
        proposal for the next."""
        whole, self._whole = self._whole, True  # the used ones are in one line, and this is the last
        sites = self.sites.used(version, number, chosen)
        if (sites.base, sites.newest) != (self.sites.base, self.sites.newest):
            self._replace(sites)
        else:
            self.sites = sites  # only that version 1 is in use: it goes with the next write
            if not whole:
                self._write()
