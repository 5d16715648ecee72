"""The open pages, and the updates that they get.

Promised: nothing is done while no page is open. The number of pages is limited by the configuration. A page that
reads too slowly is dropped, and delays neither the site nor other pages.
"""

import asyncio
import logging
from collections.abc import Callable
from time import time_ns

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconvene.runtime.config.settings import Config
from reconvene.runtime.diagnostics.structured_logging import DEBUG, event
from reconvene.runtime.http.dashboard.asking import Asking
from reconvene.runtime.http.dashboard.beside import Beside, BesideOnPage
from reconvene.runtime.http.dashboard.peers import Peers
from reconvene.runtime.http.dashboard.sampler import Sampler
from reconvene.runtime.http.dashboard.samples import ShownMessage, SiteSample
from reconvene.runtime.http.dashboard.timelines import News, Timelines
from reconvene.trace.judged import Judged, read_judged

__all__ = ["EVERY_S", "Watcher", "Watchers"]

EVERY_S = 0.5
"""Interval of the updates, and of the requests to other sites."""
_UNREAD = 8
"""Unread updates of a page before it is dropped."""


class SiteOnPage(Struct, frozen=True):
    """The state of one site, as this site knows it."""

    sample: SiteSample | None
    """Its last answer."""
    heard_at: int | None
    """ms since 1970: when it answered; for a site that is not in dashboard.peers, when it was last in a configuration
    with this one."""
    why: str
    """Why its state is unknown now; empty if it answers, or is in a configuration with this one."""


class PageState(Struct, frozen=True):
    """Everything that a page shows now."""

    at: int
    site: str
    """The site that serves the page."""
    cluster: str
    sites: tuple[str, ...]
    views: dict[str, SiteOnPage]
    tail: list[ShownMessage]
    beside: dict[str, BesideOnPage]
    """Followers and outposts: those of dashboard.beside, and this site if it follows a log."""
    judged: Judged | None
    """How far this site's trace is verified, where it keeps one and a judge follows it."""


class PageUpdate(Struct, frozen=True):
    """An update for a page."""

    look: PageState
    news: News
    """The bands that the page lacks."""
    whole: bool
    """Whether these are all bands: the page then forgets its own."""
    faults: bool
    """Whether the page may inject faults."""


class Watcher:
    """One open page. `cut` closes its connection at once."""

    def __init__(self, cut: Callable[[], None], faults: bool) -> None:
        self.cut = cut
        self.faults = faults
        self.unread: asyncio.Queue[bytes | None] = asyncio.Queue(_UNREAD)
        self.serial = 0
        """Serial number of the last band that it was sent."""


class Watchers:
    def __init__(self, config: Config, sampler: Sampler, log: logging.Logger) -> None:
        """Raises as `Asking` does."""
        self._config = config
        self._sampler = sampler
        self._log = log
        self._watchers: set[Watcher] = set()
        self._task: asyncio.Task[None] | None = None
        self._timelines = Timelines(config.names)
        self.asking = Asking(config)
        self.peers = Peers(config, self.asking, self._timelines)
        self._beside = Beside(config, self.asking)

    def join(self, cut: Callable[[], None], faults: bool) -> Watcher | None:
        """Adds a page, which gets an update at once; None if the limit is reached."""
        if len(self._watchers) >= self._config.dashboard.watchers:
            return None
        watcher = Watcher(cut, faults)
        self._tell([watcher])
        self._watchers.add(watcher)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return watcher

    def leave(self, watcher: Watcher) -> None:
        self._watchers.discard(watcher)

    async def close(self) -> None:
        """Ends every stream."""
        for watcher in self._watchers:
            if watcher.unread.full():
                watcher.cut()
            else:
                watcher.unread.put_nowait(None)
        self._watchers.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        self.peers.start(EVERY_S)
        self._beside.start()
        try:
            while self._watchers:
                await asyncio.sleep(EVERY_S)
                self._tell(list(self._watchers))
        finally:
            self._task = None
            await self.peers.stop()
            await self._beside.stop()

    def _tell(self, watchers: list[Watcher]) -> None:
        look = self._look()
        encoded: dict[tuple[int, bool], bytes] = {}
        for watcher in watchers:
            kind = (watcher.serial, watcher.faults)
            if kind not in encoded:
                told = PageUpdate(look, self._timelines.since(watcher.serial), watcher.serial == 0, watcher.faults)
                encoded[kind] = b"data: " + msgspec.json.encode(told) + b"\n\n"
            if watcher.unread.full():
                event(self._log, DEBUG, "a page that does not read is dropped")
                self._watchers.discard(watcher)
                watcher.cut()
            else:
                watcher.unread.put_nowait(encoded[kind])
                watcher.serial = self._timelines.serial

    def _look(self) -> PageState:
        config = self._config
        own = self._sampler.sample(self._timelines.cursor(config.name)[1])
        self._timelines.take(own)
        now = time_ns() // 1_000_000
        views = {name: self._site_on_page(name, own, now) for name in config.names}
        beside = dict(self._beside.known)
        if self._sampler.follows is not None:
            beside[config.name] = BesideOnPage(self._sampler.follows, now, "")
        judged = None if config.trace_dir is None else read_judged(config.trace_dir)
        return PageState(now, config.name, config.cluster, config.names, views, self._sampler.tail, beside, judged)

    def _site_on_page(self, name: str, own: SiteSample, now: int) -> SiteOnPage:
        if name == own.name:
            return SiteOnPage(replace(own, history=[]), now, "")
        peer = self.peers.known.get(name)
        if peer is None:
            heard_at = self._timelines.last_together(own.name, name, now)
            return SiteOnPage(
                None, heard_at, "" if name in own.members else "can't be reached: it is not in dashboard.peers"
            )
        sample = None if peer.sample is None else replace(peer.sample, history=[])
        return SiteOnPage(sample, peer.heard_at, peer.why)
