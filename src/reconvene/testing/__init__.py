"""Simulated clusters for tests of services built on Reconvene.

`Cluster` runs a scenario of yours on real sites with the real client, in virtual time and from a seed: partition,
crash, pause, fill a disk, heal, and look at what your service did. With pytest, the fixture `cluster` makes one.
docs/testing.md has the rest.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reconvene.testing.cluster import Cluster
    from reconvene.testing.errors import NotSimulated, Stuck, TimedOut, Violated
    from reconvene.testing.machine import Program

__all__ = ["Cluster", "NotSimulated", "Program", "Stuck", "TimedOut", "Violated"]

_HOMES = {
    "Cluster": "cluster",
    "NotSimulated": "errors",
    "Program": "machine",
    "Stuck": "errors",
    "TimedOut": "errors",
    "Violated": "errors",
}


def __getattr__(name: str) -> Any:
    # pytest imports this package in every session, for the plugin in it: the simulator comes when it is asked for.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
