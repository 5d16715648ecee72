"""`reconvene` for code without asyncio.

with reconvene.blocking.connect("unix:/run/site.sock") as site:
    group = site.join("orders")
    group.send(b"hello")
    for event in group.events(timeout=1.0):
        print(event)
"""

from reconvene.client.blocking import Group, Site, connect, open  # noqa: A004
from reconvene.client.blocking_log import Follow, Log, Receipt, Receipts, Runner, Staging

__all__ = ["Follow", "Group", "Log", "Receipt", "Receipts", "Runner", "Site", "Staging", "connect", "open"]
