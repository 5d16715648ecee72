"""Traces that do not change while they are read."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from reconvene.local.cluster import LocalCluster
from reconvene.local.domain_layout import DomainLayout
from reconvene.local.domains import LocalDomains
from reconvene.local.layout import Layout

__all__ = ["steady"]


@contextmanager
def steady(trace: Path) -> Iterator[Path]:
    """The trace itself, or a consistent copy if it belongs to a running local cluster, or to several joined ones."""
    joined = DomainLayout(trace.absolute().parent)
    if joined.trace == trace.absolute() and joined.exists():
        domains = LocalDomains(joined.directory)
        if domains.running():
            with TemporaryDirectory(prefix="reconvene-") as scratch:
                yield domains.copy_trace(scratch)
            return
    layout = Layout(trace.absolute().parent)
    if not (layout.trace == trace.absolute() and layout.exists()):
        yield trace
        return
    cluster = LocalCluster(layout.directory)
    if not cluster.running():
        yield trace
        return
    with TemporaryDirectory(prefix="reconvene-") as scratch:
        yield cluster.copy_trace(scratch)
