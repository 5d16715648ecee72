"""The directory of a site's state: whether it can be written, whether it is on a disk, how fast it syncs."""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median_low

from reconvene.doctor.finding import Finding, advise, fine, wrong
from reconvene.runtime.config.settings import Config
from reconvene.units import show_duration, show_size

__all__ = ["look_at_disk", "mount_of"]

_SYNC_S = 1.0
_MOST_SYNCS = 256
_BLOCK = b"\x5a" * 4096
_BLOCKS = 64
_SLOW_NS = 50_000_000
_LEAST_FREE = 64 << 20
_SOON_FULL = 1 << 30
_NOT_LOCAL = frozenset({"9p", "afs", "cifs", "ncpfs", "nfs", "nfs4", "smb3", "smbfs"})
_IN_MEMORY = frozenset({"ramfs", "tmpfs"})


def look_at_disk(directory: Path, config: Config | None) -> Iterator[Finding]:
    """`directory` may be missing: a site makes it."""
    place = _nearest(directory)
    try:
        times = _sync_times_ns(place)
    except OSError as error:
        seen = f"{place}: can't be written to: {error.strerror or error}"
        yield wrong("directory", seen, f"sudo install -d -o $USER -m 700 {directory}, or name another directory")
        return
    yield _kind(directory, place)
    yield _speed(times)
    yield _room(place, config)


def mount_of(path: Path, mounts: str | None = None) -> tuple[str, str]:
    """(mount point, kind of file system) of this path. `mounts` is what the kernel tells of them."""
    try:
        told = Path("/proc/self/mountinfo").read_text() if mounts is None else mounts
    except OSError:
        return "", "unknown"
    real, found = path.resolve(), ("", "unknown")
    for line in told.splitlines():
        before, _, after = line.partition(" - ")
        point = before.split(" ")[4].replace("\\040", " ")
        if real.is_relative_to(point) and len(point) >= len(found[0]):
            found = point, after.split(" ")[0]
    return found


def _nearest(directory: Path) -> Path:
    """The directory, or what of its path is there."""
    place = directory.absolute()
    while not os.path.exists(place) and place != place.parent:  # a path that may not be looked at is not there
        place = place.parent
    return place


def _sync_times_ns(directory: Path) -> list[int]:
    """Real syncs of a file that is overwritten in place, as the store's is. For a second at most."""
    times: list[int] = []
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        file.write(_BLOCK * _BLOCKS)
        os.fsync(file.fileno())
        end = time.monotonic() + _SYNC_S
        while len(times) < _MOST_SYNCS and (not times or time.monotonic() < end):
            os.pwrite(file.fileno(), _BLOCK, len(times) % _BLOCKS * len(_BLOCK))
            began = time.perf_counter_ns()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter_ns() - began) // 1_000 * 1_000)
    return times


def _kind(directory: Path, place: Path) -> Finding:
    point, kind = mount_of(place)
    seen = f"{directory} on {kind}" + ("" if place == directory.absolute() else ", will be created")
    if kind in _NOT_LOCAL:
        return wrong("directory", f"{seen}: the store needs a local file system", "name a directory on a local disk")
    if kind in _IN_MEMORY:
        return advise("directory", f"{seen}: lost when the machine restarts", "name a directory on a disk")
    if kind == "overlay":
        return advise("directory", f"{seen}: lost with its container", f"mount a volume at {directory}")
    return fine("directory", f"{seen}, mounted at {point}" if point else seen)


def _speed(times: list[int]) -> Finding:
    ordered = sorted(times)
    middle = median_low(ordered)
    seen = (
        f"median {show_duration(middle)}, worst {show_duration(ordered[-1])} of {len(ordered)} fdatasyncs of"
        f" {show_size(len(_BLOCK))}"
    )
    if middle > _SLOW_NS:
        return advise("disk sync", f"{seen}: an append takes as long", "put the site's directory on a faster disk")
    return fine("disk sync", seen)


def _room(place: Path, config: Config | None) -> Finding:
    at = os.statvfs(place)
    free = at.f_bavail * at.f_frsize
    seen, change = f"{show_size(free)} free", f"free some: du -xh {place} | sort -h"
    if free < _LEAST_FREE:
        return wrong("disk space", f"{seen}: a site stops accepting when it is full", change)
    reserve = 0 if config is None or not config.log.enabled else config.log.red_bytes + config.log.snapshot_bytes
    if free < max(reserve, _SOON_FULL):
        needs = f", and the log alone may need {show_size(reserve)} at once" if reserve else ""
        return advise("disk space", seen + needs, change)
    if config is not None and config.log.enabled:
        seen += f"; the log takes up to {show_size(config.log.max_bytes)} (log.max_bytes)"
    return fine("disk space", seen)
