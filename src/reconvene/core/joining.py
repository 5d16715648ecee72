"""How a site that was added to a running cluster learns the list of sites: from a beacon of any other site.

Its own number follows from the list, so it can't take part, nor even read what is meant for it, before it has the
list. Once the list with its name is chosen, all others send it beacons.
"""

from reconvene.errors import Malformed
from reconvene.site_list import SiteList
from reconvene.wire.codec import decode, decode_sites
from reconvene.wire.messages import Beacon

__all__ = ["list_with"]


def list_with(name: str, data: bytes) -> SiteList | None:
    """The list that this datagram carries, if it is a beacon of a site whose list has this name."""
    try:
        datagram = decode(data)
        known = decode_sites(datagram.sites) if isinstance(datagram, Beacon) else None
    except Malformed:
        return None
    if known is None or not known.managed or not known.base or name not in known.names:
        return None
    return None if known.excludes(known.names.index(name)) else known
