"""The benchmarks that `reconvene bench` runs, each a module with `run`.

Those in virtual time give the same figures from the same seed on every machine; `frame` measures this one.
"""

from collections.abc import Callable
from importlib import import_module

from reconvene.bench.outcome import Outcome, Row, Settings, Table

__all__ = ["BENCHES", "PEERS", "Outcome", "Row", "Settings", "Table", "load"]

BENCHES: dict[str, str] = {
    "atop": "latency of the total orders as some members send less and less (virtual time)",
    "frame": "what a frame and a message cost in the core (on this machine)",
    "membership": "time from a crash or a heal to the next configuration (virtual time)",
}
"""Name and what it measures."""

PEERS: dict[str, tuple[str, ...]] = dict.fromkeys(BENCHES, ())
"""The other systems that a benchmark can run in the same run, by benchmark."""


def load(name: str) -> Callable[[Settings], Outcome]:
    run: Callable[[Settings], Outcome] = import_module(f"reconvene.bench.{name}").run
    return run
