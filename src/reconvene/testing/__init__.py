"""Simulated clusters for tests of services built on Reconvene.

`SimCluster` is a cluster in virtual time: send, partition, crash, heal, and look at what each node saw. With pytest,
the fixture `cluster` makes one and verifies its history when the test is over.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reconvene.testing.cluster import SimCluster, TimedOut, Violated
    from reconvene.testing.service import Configuration, Handle, Message, Service

__all__ = ["Configuration", "Handle", "Message", "Service", "SimCluster", "TimedOut", "Violated"]

_HOMES = {
    "Configuration": "service",
    "Handle": "service",
    "Message": "service",
    "Service": "service",
    "SimCluster": "cluster",
    "TimedOut": "cluster",
    "Violated": "cluster",
}


def __getattr__(name: str) -> Any:
    # pytest imports this package in every session, for the plugin in it: the simulator comes when it is asked for.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
