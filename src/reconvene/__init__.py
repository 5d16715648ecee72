"""Reconvene: group communication and a durable, totally ordered log for services whose network breaks.

    async with reconvene.open("site.toml") as site:         # a site inside this program
    async with reconvene.connect("unix:site.sock") as site:  # or a client of one
        group = await site.join("orders")
        await group.send(b"hello")
        async for event in group:
            ...
        receipt = await site.log.append(b"durable, in one order for everyone")
        async for entry in site.log.follow():
            ...

docs/api.md and docs/log-api.md have the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reconvene import blocking
    from reconvene.client.colors import ColorChanges
    from reconvene.client.connecting import connect
    from reconvene.client.cursor import Cursor
    from reconvene.client.cursor_record import CursorInfo
    from reconvene.client.events import (
        Batch,
        Blocked,
        Event,
        Lost,
        Message,
        Process,
        Rejoined,
        View,
        ViewId,
        WideView,
    )
    from reconvene.client.follow import Follow
    from reconvene.client.group import Group
    from reconvene.client.isis import Isis, IsisGroup
    from reconvene.client.isis_call import Call
    from reconvene.client.isis_events import (
        ALL,
        UNORDERED,
        Action,
        Cast,
        GroupLeft,
        GroupView,
        IsisEvent,
        Killed,
        ProcessFailed,
        Reachable,
        Reply,
        Unreachable,
        WatchRefused,
    )
    from reconvene.client.isis_state import StateProvider, VectorProvider
    from reconvene.client.local import open  # noqa: A004
    from reconvene.client.log import Log
    from reconvene.client.positions import Positions
    from reconvene.client.program_logging import configure_logging
    from reconvene.client.receipts import Receipt, Receipts
    from reconvene.client.runner import Runner
    from reconvene.client.session import Session
    from reconvene.client.site import Site
    from reconvene.client.staging import Committed, Staging
    from reconvene.client.state_machine import Failure, StateMachine
    from reconvene.client.status import Health, IsisStatus, LogStatus, SiteStatus
    from reconvene.entries import Color, ColorChange, Entry, EntryBatch, SnapshotInfo, Truncated
    from reconvene.errors import (
        CursorLost,
        InvalidArgument,
        Malformed,
        OutcomeTimedOut,
        OutcomeUnknown,
        PlaceForgotten,
        ReconveneError,
        Rejected,
        TimedOut,
        Unavailable,
    )
    from reconvene.ids import Service
    from reconvene.runtime.access.key_files import ClientKey
    from reconvene.runtime.config.file import load as load_config
    from reconvene.runtime.config.settings import Config, Limits

__version__ = "0.1.0"

__all__ = [
    "ALL",
    "UNORDERED",
    "Action",
    "Batch",
    "Blocked",
    "Call",
    "Cast",
    "ClientKey",
    "Color",
    "ColorChange",
    "ColorChanges",
    "Committed",
    "Config",
    "Cursor",
    "CursorInfo",
    "CursorLost",
    "Entry",
    "EntryBatch",
    "Event",
    "Failure",
    "Follow",
    "Group",
    "GroupLeft",
    "GroupView",
    "Health",
    "InvalidArgument",
    "Isis",
    "IsisEvent",
    "IsisGroup",
    "IsisStatus",
    "Killed",
    "Limits",
    "Log",
    "LogStatus",
    "Lost",
    "Malformed",
    "Message",
    "OutcomeTimedOut",
    "OutcomeUnknown",
    "PlaceForgotten",
    "Positions",
    "Process",
    "ProcessFailed",
    "Reachable",
    "Receipt",
    "Receipts",
    "ReconveneError",
    "Rejected",
    "Rejoined",
    "Reply",
    "Runner",
    "Service",
    "Session",
    "Site",
    "SiteStatus",
    "SnapshotInfo",
    "Staging",
    "StateMachine",
    "StateProvider",
    "TimedOut",
    "Truncated",
    "Unavailable",
    "Unreachable",
    "VectorProvider",
    "View",
    "ViewId",
    "WatchRefused",
    "WideView",
    "__version__",
    "blocking",
    "configure_logging",
    "connect",
    "load_config",
    "open",
]

_HOMES = {
    **dict.fromkeys(
        ("Batch", "Blocked", "Event", "Lost", "Message", "Process", "Rejoined", "View", "ViewId", "WideView"),
        "client.events",
    ),
    **dict.fromkeys(
        (
            *("CursorLost", "InvalidArgument", "Malformed", "OutcomeTimedOut", "OutcomeUnknown", "PlaceForgotten"),
            *("ReconveneError", "Rejected", "TimedOut", "Unavailable"),
        ),
        "errors",
    ),
    **dict.fromkeys(
        ("Color", "ColorChange", "Entry", "EntryBatch", "SnapshotInfo", "Truncated"),
        "entries",
    ),
    **dict.fromkeys(
        (
            *("ALL", "UNORDERED", "Action", "Cast", "GroupLeft", "GroupView"),
            *("IsisEvent", "Killed", "ProcessFailed", "Reachable", "Reply", "Unreachable", "WatchRefused"),
        ),
        "client.isis_events",
    ),
    **dict.fromkeys(("Isis", "IsisGroup"), "client.isis"),
    **dict.fromkeys(("StateProvider", "VectorProvider"), "client.isis_state"),
    **dict.fromkeys(("Committed", "Staging"), "client.staging"),
    **dict.fromkeys(("Receipt", "Receipts"), "client.receipts"),
    **dict.fromkeys(("Failure", "StateMachine"), "client.state_machine"),
    **dict.fromkeys(("Health", "IsisStatus", "LogStatus", "SiteStatus"), "client.status"),
    "Call": "client.isis_call",
    "ClientKey": "runtime.access.key_files",
    "ColorChanges": "client.colors",
    "Config": "runtime.config.settings",
    "Cursor": "client.cursor",
    "CursorInfo": "client.cursor_record",
    "Follow": "client.follow",
    "Group": "client.group",
    "Limits": "runtime.config.settings",
    "Log": "client.log",
    "Positions": "client.positions",
    "Runner": "client.runner",
    "Service": "ids",
    "Session": "client.session",
    "Site": "client.site",
    "configure_logging": "client.program_logging",
    "connect": "client.connecting",
    "load_config": "runtime.config.file",
    "open": "client.local",
}


def __getattr__(name: str) -> Any:
    # The simulator, the judge and the core are below this package: importing them must not import a site's runtime.
    if name == "blocking":
        return import_module("reconvene.blocking")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), "load" if name == "load_config" else name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
