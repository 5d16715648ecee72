"""Which engine judges traces, where the user names none: by their size."""

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from reconvene.cli._spark import Spark
from reconvene.doctor.java import find_java
from reconvene.trace.sizes import run_sizes

__all__ = ["choose_engine"]

LOCAL_RUN = 4_000_000
"""Events of the largest run that the local engine takes: it holds a run in memory, of some 700 bytes an event."""
LOCAL_EVENTS = 20_000_000
"""Events of all runs. For fewer, Spark takes longer on two cores than the local engine does on one."""
_TOLD_FROM = 100_000
"""Events from which on it is said which engine was chosen: below, nobody waits for either."""


def choose_engine(traces: Sequence[str], spark: Spark) -> str:
    """`local` or `spark`. Says on stderr which, and why, where that matters. May raise Malformed."""
    if spark.asked or any("://" in trace for trace in traces):
        return "spark"
    sizes = run_sizes(map(Path, traces))
    events, largest = sum(sizes), max(sizes, default=0)
    if events < _TOLD_FROM:
        return "local"
    large = events > LOCAL_EVENTS or largest > LOCAL_RUN
    there = find_spec("pyspark") is not None and (java := find_java()) is not None and java.is_recent
    engine = "spark" if large and there else "local"
    why = "" if engine == "spark" or not large else ", since Spark or Java is not installed"
    other = "local" if engine == "spark" else "spark"
    print(f"about {events:,} events: --engine {engine}{why} (--engine {other} chooses the other)", file=sys.stderr)
    return engine
