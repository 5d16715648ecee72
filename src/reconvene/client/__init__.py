"""What applications import. `reconvene` names it all, and a site inside the program besides."""

from reconvene.client.connecting import connect
from reconvene.client.events import Batch, Blocked, Event, Message, Process, Rejoined, View, ViewId
from reconvene.client.group import Group
from reconvene.client.site import Site

__all__ = [
    "Batch",
    "Blocked",
    "Event",
    "Group",
    "Message",
    "Process",
    "Rejoined",
    "Site",
    "View",
    "ViewId",
    "connect",
]
