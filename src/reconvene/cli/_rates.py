"""How fast counters grew between two looks at sites."""

from collections.abc import Sequence

from reconvene.local import SiteState

__all__ = ["rates"]

_RATES = {
    "sent": "sent_messages",
    "delivered": "delivered_messages",
    "datagrams_in": "received_datagrams",
    "datagrams_out": "sent_datagrams",
    "bytes_in": "received_bytes",
    "bytes_out": "sent_bytes",
    "casts": "isis_casts",
    "packets": "isis_channel_packets",
    "records": "isis_channel_records",
}
"""Counters whose growth is shown, by the name that it is shown under."""


def rates(before: Sequence[SiteState], now: Sequence[SiteState]) -> dict[str, dict[str, float]]:
    """Per second, by site; only of sites that ran from one look to the other without a restart."""
    earlier = {view.name: view.status for view in before}
    found: dict[str, dict[str, float]] = {}
    for view in now:
        old, new = earlier.get(view.name), view.status
        if old is None or new is None or old["incarnation"] != new["incarnation"]:
            continue
        seconds = new["uptime_s"] - old["uptime_s"]
        if seconds > 0:
            counts, were = new["counters"], old["counters"]
            found[view.name] = {
                name: (counts.get(counter, 0) - were.get(counter, 0)) / seconds for name, counter in _RATES.items()
            }
    return found
