"""The bounds of the ISIS layer of one site. At each of them the caller waits or gets an error."""

from dataclasses import dataclass

__all__ = ["IsisLimits", "least_message"]

_ENTRY_BYTES = 256 << 10
"""Of a message: for a group with all its properties, or a piece of the table."""
_SITE_BYTES = 192 << 10
"""And for each site: for the ids of all casts that it may have under way, or for all its processes as members."""


@dataclass(frozen=True, slots=True)
class IsisLimits:
    open_casts: int = 4_096
    open_bytes: int = 4 << 20
    """Casts of this site that some destination may not have yet: beyond either, further casts wait."""
    queue_ns: int = 1_000_000_000
    """Where more waits for the site of a destination than goes there in this time, further casts to it wait. What a
    cast would bring along counts too: that becomes less, as it arrives elsewhere. So a slow link makes its senders
    slow, and no long queue builds up in front of it."""
    held_casts: int = 1_024
    """Casts of one process that wait: behind a view that is locked, or for room. More are refused."""
    open_gbcasts: int = 1_024
    """GBCASTs, joins and leaves of all sites that are not concluded, and those of this site that are not sent yet: at
    so many, further ones of this site wait. Those that are under way come on top: a window of frames bounds them."""
    destinations: int = 4_096
    """Of one cast."""
    open_calls: int = 1_024
    """Of one process: casts that ask for replies, and have not got them."""
    watches: int = 1_024
    """Of one process: others that it watches."""
    owed_replies: int = 16_384
    """Of one process: requests that it received and has not answered. Beyond that its site answers the oldest, with
    nothing."""
    processes: int = 1_024
    groups: int = 4_096
    group_bytes: int = 255
    """Of a group's name."""
    payload_bytes: int = 1 << 20
    """Of a cast, a reply, a chunk of state, or a property."""
    properties: int = 64
    """That one request sets."""
    stored_bytes: int = (1 << 20) - (1 << 10)
    """Of the views that a site has stored of groups that know who failed last: it brings all of them into a
    configuration, in one message."""
    early_packets: int = 1_000
    """Held while a site view is being adopted; more are dropped, and sent again."""


def least_message(sites: int) -> int:
    """A configuration's messages must be able to have so many bytes: what a GBCAST and a change of the site view
    name, and an entry of the table of groups, are not divided."""
    return _ENTRY_BYTES + _SITE_BYTES * sites
