"""A site whose storage is lost, or was restored from a copy, starts anew under its old name.

Given: the site's configuration, with the site stopped, and at least one other running site. Promised: what the others
know of the site, and of the cluster's list, is taken from their beacons. The old storage is moved aside, and nothing
of it is deleted. The new storage starts above everything that the others know, and its log requests a new author
number. Until the last step, which renames, the directory is unchanged; if that step is interrupted, a second try
finishes it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Collection
from pathlib import Path

from msgspec import Struct

from reconvene.core.record import KEY, replacement
from reconvene.corel.keeping.load import create
from reconvene.corel.replicas.sets import ReplicaSet
from reconvene.errors import Malformed, Unavailable
from reconvene.runtime.config.check import check
from reconvene.runtime.config.settings import Config
from reconvene.runtime.disk.directory import held
from reconvene.runtime.log.files import STORE
from reconvene.runtime.log.start import IDENTITY_BYTES
from reconvene.runtime.net.site_numbers import Numbers, numbers_in
from reconvene.runtime.net.udp import Udp
from reconvene.site_list import SiteList, read_list
from reconvene.storage.directory import sync_directory
from reconvene.storage.lmdb_store import LmdbStore
from reconvene.storage.tables import Op, Put
from reconvene.trace.domains import WIDE_DIR, wide_node
from reconvene.trace.writer import node_file
from reconvene.wire.codec import decode, decode_reports, decode_sites
from reconvene.wire.messages import Beacon
from reconvene.world import world

__all__ = ["LISTEN_S", "Known", "Replaced", "replace_site"]

LISTEN_S = 5.0
"""How long to listen for beacons, unless all sites are heard before."""
_LOOK_EVERY_S = 0.02
_NUMBERS = "; the list has changed: this site's file may need `numbers`, which `reconvene status` shows elsewhere"
_log = logging.getLogger("reconvene.replace")
_log.addHandler(logging.NullHandler())  # no log lines: sites that were not heard are reported in the result


class Known:
    """What the beacons of other sites contain about one site."""

    def __init__(self, ordinal: int) -> None:
        self.heard: set[int] = set()
        """Sites whose beacons have arrived."""
        self.incarnation = 0
        """The highest incarnation of the site that another site knows."""
        self.number = 0
        """The highest configuration number that another site knows."""
        self.sites: SiteList | None = None
        """The cluster's list, as far as all of them together know it."""
        self._ordinal = ordinal

    def receive(self, datagrams: Collection[bytes]) -> None:
        for data in datagrams:
            with contextlib.suppress(Malformed):
                beacon = decode(data)
                if isinstance(beacon, Beacon) and beacon.site != self._ordinal:
                    for report in decode_reports(beacon.reports):
                        self.number = max(self.number, report.highest)
                        if report.site == self._ordinal:
                            self.incarnation = max(self.incarnation, report.inc)
                    self._learn(decode_sites(beacon.sites))
                    self.heard.add(beacon.site)

    def _learn(self, told: SiteList | None) -> None:
        if told is None or self.sites is None:
            self.sites = self.sites or told
        elif self.sites.differs(told) is None:  # otherwise these sites refuse each other, and log it
            self.sites = self.sites.merged(told)


class Replaced(Struct, frozen=True):
    start: int
    """The incarnation of its next start."""
    heard: list[str]
    unheard: list[str]
    """Sites that were not heard. If one of them knows a later incarnation, it will refuse this one."""
    moved: list[str]
    """Where the old storage is now."""


async def replace_site(config: Config, listen_s: float = LISTEN_S) -> Replaced:
    """Raises Unavailable if the site runs or no other site is heard, Rejected if the file's list of sites contradicts
    what the others know."""
    check(config)
    numbers = numbers_in(config)
    with held(config.dir, config.cluster, config.name):
        known = await _listen(config, numbers, listen_s)
        names = numbers.names
        unheard = [names[at] for at in numbers.peers if at not in known.heard]
        if unheard and not known.heard:
            changed = "" if config.sites_version == 1 or config.numbers else _NUMBERS
            raise Unavailable(
                f"no other site was heard within {listen_s:g} s: start one that knows {config.name}"
                f" of {', '.join(unheard)}{changed}"
            )
        read_list(known.sites, config.sites_version, config.sites, config.numbers)
        fresh = config.dir / f"{STORE}.new"
        try:
            _make(config, fresh, known)
            moved = _put_in_place(config, fresh)
        except OSError as error:
            raise Unavailable(f"{config.dir}: the site can't be replaced: {error}") from None
    heard = [names[at] for at in numbers.peers if at in known.heard]
    return Replaced(known.incarnation + 1, heard, unheard, moved)


async def _listen(config: Config, numbers: Numbers, listen_s: float) -> Known:
    known = Known(numbers.ordinal)
    transport = Udp(config, _log, numbers)
    try:
        transport.start(known.receive)
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + listen_s
        while not known.heard.issuperset(numbers.peers) and loop.time() < give_up_at:
            await asyncio.sleep(_LOOK_EVERY_S)
    finally:
        transport.close()
    return known


def _make(config: Config, path: Path, known: Known) -> None:
    """New storage that contains only what other sites know of the site."""
    _remove(path)
    with contextlib.closing(LmdbStore(path)) as store:
        ops: list[Op] = [Put(KEY.encode(), replacement(known.incarnation, known.number, known.sites))]
        if config.log.enabled:
            replicas = ReplicaSet.first(config.replicas, config.log.quorum)
            ops += create(world().random_bytes(IDENTITY_BYTES), replicas, admitted=False, replaces=True)
        store.write(ops)


def _put_in_place(config: Config, fresh: Path) -> list[str]:
    """Moves the old storage aside, and the trace with it, which the new storage could not continue."""
    old = [config.dir / STORE]
    if config.trace_dir is not None:
        old.append(node_file(config.trace_dir, config.name))
    if config.trace.dir is not None and config.domain is not None:
        old.append(node_file(config.trace.dir / WIDE_DIR, wide_node(config.cluster, config.name)))
    moved = [str(path.rename(_aside(path))) for path in old if path.exists()]
    fresh.rename(config.dir / STORE)
    sync_directory(config.dir)
    return moved


def _aside(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.replaced-{number}")).exists():
        number += 1
    return aside


def _remove(path: Path) -> None:
    """Removes what an earlier try left behind."""
    if path.exists():
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
