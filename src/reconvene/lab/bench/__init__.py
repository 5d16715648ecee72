"""The benchmarks that `reconvene bench` runs, each a module with `run`.

Benchmarks in virtual time have the same figures for the same seed on every machine; the others measure this machine.
"""

from collections.abc import Callable
from importlib import import_module

from reconvene.lab.bench.sheet import Row, Settings, Sheet, Table

__all__ = ["BENCHES", "PEERS", "PLOTTED", "Row", "Settings", "Sheet", "Table", "load", "missing"]

BENCHES: dict[str, str] = {
    "agreed": "messages a second through three sites, all sending (on this machine)",
    "atop": "latency of the total orders as some members send less and less (virtual time)",
    "compiled": "seeds of the simulator a core-second, compiled beside pure Python (on this machine)",
    "durable": "appends to three replicas on a disk: throughput, latency, and without one of them (on this machine)",
    "followers": "appends beside 20 followers, and reads at a follower beside a replica (on this machine)",
    "frame": "what a frame and a message cost in the core (on this machine)",
    "hostile": "throughput under a flood of datagrams that a site must reject (on this machine)",
    "isis": "latency, datagrams and copies of the broadcasts of ISIS, joins and crashes (virtual time)",
    "isis-real": "CBCASTs, a replicated file and locks on real sites, beside groups and etcd (on this machine)",
    "latency": "how long one message takes alone (on this machine)",
    "membership": "time from a crash or a heal to the next configuration (virtual time)",
    "outposts": "an outpost beside a replica: an append until durable, a heal to all green (on this machine)",
    "reconfiguration": "the same with real processes on a real network (on this machine)",
    "rejoin": "from a heal to all green by red messages; disk, memory and start-up of a long log (on this machine)",
    "scaling": "throughput and processor time by the number of sites, and where it goes (on this machine)",
    "spark-log": "the log through Spark, out of it and into it, beside the Python client (on this machine)",
    "spark-verify": "events verified a second on Spark, by size, runs and cores (on this machine; half an hour)",
    "spark-verify-large": "the same of one run of a hundred million events (on this machine; an hour)",
    "turns": "the longest turn of a site with much that waits, beside the time to suspicion (on this machine)",
    "wide": "bytes between clusters, latency and changes, beside one flat cluster (virtual time)",
    "voting": "time in which some component may order, by dynamic voting and by a majority (a model)",
    "wide-real": "how long nothing crosses after a representative's crash, beside a local crash (on this machine)",
}
"""Name and what it measures."""

PEERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(BENCHES, ()),
    **dict.fromkeys(("agreed", "latency", "reconfiguration"), ("corosync",)),
    "isis-real": ("etcd",),
    "durable": ("etcd", "nats", "zookeeper", "pysyncobj"),
}
"""The other systems that a benchmark can run in the same run, by benchmark."""

PLOTTED = {"atop", "membership", "voting"}
"""Benchmarks that draw plots, if matplotlib is installed."""

_NEEDS = {
    "corosync": "root and the Debian packages corosync, libcpg-dev, gcc, ethtool, iproute2, nftables",
    "etcd": "the Debian packages etcd-server, golang-go, golang-etcd-server-dev",
    "nats": "the Debian packages nats-server, golang-go, golang-github-nats-io-go-nats-dev",
    "pysyncobj": "the extra peers: pip install 'reconvene[peers]'",
    "zookeeper": "the Debian packages zookeeper, libzookeeper-mt-dev, gcc",
}
"""By peer."""


def load(name: str) -> Callable[[Settings], Sheet]:
    run: Callable[[Settings], Sheet] = import_module(f"reconvene.lab.bench.{name.replace('-', '_')}").run
    return run


def missing(peer: str) -> str | None:
    """Why a peer can't be run here, in one line with everything that it needs; None if it can."""
    why: str | None = import_module(f"reconvene.lab.bench.peers.{peer}").available()
    return None if why is None else f"{why}; it needs {_NEEDS[peer]}"
