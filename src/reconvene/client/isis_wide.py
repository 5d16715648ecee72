"""Processes of several clusters by name: people say "paris/b:1:7", sites say ("paris", "b", 1, 7)."""

from collections.abc import Iterable

from reconvene.client.events import Process
from reconvene.errors import InvalidArgument
from reconvene.wire.clients import MOST_NAMED

__all__ = ["Wide", "is_wide", "wide_named", "wide_numbered"]

Wide = tuple[str, str, int, int]
"""Cluster, site, the site's incarnation, the process's number there."""

_NUMBERS = range(1 << 62)
_NAMES = range(1, 256)


def is_wide(process: object) -> bool:
    """It names its cluster."""
    return "/" in (process if isinstance(process, str) else process.site if isinstance(process, Process) else ())


def wide_named(where: Wide) -> Process:
    cluster, site, incarnation, number = where
    return Process(f"{cluster}/{site}", incarnation, number)


def wide_numbered(processes: Iterable[Process | str], cluster: str) -> list[Wide]:
    """Those that name no cluster are of `cluster`. Raises TypeError; InvalidArgument for what names no process."""
    found = [_numbered(process, cluster) for process in processes]
    if len(found) > MOST_NAMED:
        raise InvalidArgument(f"to: {len(found)} processes: at most {MOST_NAMED} expected")
    return found


def _numbered(process: Process | str, own: str) -> Wide:
    named = Process.parse(process) if isinstance(process, str) else process
    if not isinstance(named, Process):
        raise TypeError(f"a process, or text such as paris/a:1:7, expected in `to`, not {type(named).__name__}")
    cluster, slash, site = named.site.partition("/")
    if not slash:
        cluster, site = own, named.site
    if "/" in site or any(len(name.encode()) not in _NAMES for name in (cluster, site)):
        raise InvalidArgument(f"process {named}: CLUSTER/SITE:INCARNATION:NUMBER expected, such as paris/a:1:7")
    if named.incarnation not in _NUMBERS or named.number not in _NUMBERS:
        raise InvalidArgument(f"process {named}: numbers from 0 to {_NUMBERS[-1]} expected")
    return cluster, site, named.incarnation, named.number
