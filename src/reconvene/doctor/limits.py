"""The system's limits for a process: files, memory, address space, the size of a file."""

import resource
from collections.abc import Iterator
from pathlib import Path

from reconvene.doctor.finding import Finding, advise, fine, wrong
from reconvene.runtime.config.settings import Clients, Config, Http, Limits, LogSettings
from reconvene.units import show_size

__all__ = ["look_at_limits"]

_OWN_FILES = 64
"""Of a site without a client: sockets, the store, the trace, the event loop's."""
_LEAST_FILES = 96
_OWN_MEMORY = 128 << 20
"""Of a site that nobody uses."""


def look_at_limits(config: Config | None) -> Iterator[Finding]:
    clients = Clients() if config is None else config.clients
    http = Http() if config is None else config.http
    log = LogSettings() if config is None else config.log
    limits = Limits() if config is None else config.limits
    yield _files(clients.connections * 2 + http.connections + _OWN_FILES)
    yield _memory(_OWN_MEMORY + limits.queue_bytes + limits.message_bytes + limits.inbox_bytes)
    if log.enabled:
        yield _spaces(log.max_bytes)


def _files(needed: int) -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    seen = f"{_shown(soft)} open files at once, {_shown(hard)} if asked for"
    change = f"ulimit -n {needed}; for a service: LimitNOFILE={needed} in its unit"
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return fine("open files", seen)
    if soft < _LEAST_FILES:
        return wrong("open files", f"{seen}: a site needs {_LEAST_FILES} before the first client", change)
    return advise("open files", f"{seen}; as many clients as are allowed need {needed}", change)


def _shown(limit: int) -> str:
    return "any number of" if limit == resource.RLIM_INFINITY else f"{limit:,}"


def _memory(needed: int) -> Finding:
    available, where = _available_bytes()
    if available is None:
        return fine("memory", "the amount is unknown here")
    seen = f"{show_size(available)} {where}"
    if available < needed:
        change = "more memory, or lower limits.inbox_bytes and limits.queue_bytes"
        return advise(
            "memory", f"{seen}; with one client that does not read a site takes {show_size(needed)}", change
        )
    return fine("memory", seen)


def _available_bytes() -> tuple[int | None, str]:
    """What a new process could have, and who says so."""
    found: list[tuple[int, str]] = []
    try:
        told = Path("/proc/meminfo").read_text().partition("MemAvailable:")[2]
        found.append((int(told.split()[0]) << 10, "available"))
        group = Path("/sys/fs/cgroup") / Path("/proc/self/cgroup").read_text().rpartition("::")[2].strip().lstrip("/")
        most = (group / "memory.max").read_text().strip()
        if most != "max":
            used = int((group / "memory.current").read_text())
            found.append((max(int(most) - used, 0), f"left of the {show_size(int(most))} of its control group"))
    except (OSError, ValueError, IndexError):
        pass  # no control group of its own, or not Linux
    if not found:
        return None, ""
    return min(found)


def _spaces(log_bytes: int) -> Finding:
    """The store maps as much as the log may take, and its file grows with it."""
    space = resource.getrlimit(resource.RLIMIT_AS)[0]
    if space != resource.RLIM_INFINITY and space < log_bytes:
        seen = f"{show_size(space)} of addresses; the store maps log.max_bytes, {show_size(log_bytes)}"
        return wrong("address space", seen, "ulimit -v unlimited; for a service: LimitAS=infinity")
    largest = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if largest != resource.RLIM_INFINITY and largest < log_bytes:
        seen = f"files of up to {show_size(largest)}; the log may take {show_size(log_bytes)} (log.max_bytes)"
        return advise("file size", seen, "ulimit -f unlimited; for a service: LimitFSIZE=infinity")
    return fine("address space", f"room for log.max_bytes, {show_size(log_bytes)}")
