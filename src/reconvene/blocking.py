"""`reconvene` for code without asyncio.

with reconvene.blocking.connect("unix:/run/site.sock") as site:
    group = site.join("orders")
    group.send(b"hello")
    for event in group.events(timeout=1.0):
        print(event)
"""

from reconvene.client.blocking import (
    Call,
    ColorChanges,
    Cursor,
    Follow,
    Group,
    Isis,
    IsisGroup,
    Log,
    Receipt,
    Receipts,
    Runner,
    Session,
    Site,
    Staging,
    connect,
    open,  # noqa: A004
)

__all__ = [
    "Call",
    "ColorChanges",
    "Cursor",
    "Follow",
    "Group",
    "Isis",
    "IsisGroup",
    "Log",
    "Receipt",
    "Receipts",
    "Runner",
    "Session",
    "Site",
    "Staging",
    "connect",
    "open",
]
