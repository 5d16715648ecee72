"""Reports the cluster's list of sites in a site's status, and logs its changes."""

import logging

from reconvene.core.site import Site
from reconvene.runtime.diagnostics.structured_logging import INFO, WARNING, event
from reconvene.site_list import Dispute, SiteList

__all__ = ["ListWatch", "difference", "refused"]


class ListWatch:
    def __init__(self, log: logging.Logger, file_version: int) -> None:
        self._log = log
        self._file_version = file_version
        self._known: SiteList | None = None
        self._ignored = 0
        self._disputes: dict[str, Dispute] = {}

    def look(self, site: Site) -> None:
        """To be called after each turn: logs what is new."""
        if site.sites is not self._known:
            self._changed(site.sites)
        if site.counters.other_lists != self._ignored:
            self._ignored = site.counters.other_lists
            for name, dispute in sorted(site.disputes.found.items()):
                if self._disputes.get(name) != dispute:
                    why = difference(site.sites, dispute)
                    event(self._log, WARNING, "refused: another list of sites", site=name, why=why)
            self._disputes = dict(site.disputes.found)

    def _changed(self, known: SiteList) -> None:
        before, self._known = self._known, known
        if before is not None and (before.newest, before.base) == (known.newest, known.base):
            return
        if before is None and known.finished:
            return
        sites = ",".join(known.sites(known.newest))
        event(
            self._log, INFO, "list of sites", version=known.newest, sites=sites, waits_for=_waits_for(known) or "none"
        )

    def status(self, site: Site) -> dict[str, object]:
        """JSON-able: see docs/sites.md."""
        known = site.sites
        return {
            "version": known.newest,
            "sites": list(known.sites(known.newest)),
            "file_version": self._file_version,
            "finished": known.finished,
            "waits_for": _waits_for(known),
            "refused": refused(site),
        }


def refused(site: Site) -> dict[str, str]:
    """Sites whose list of sites contradicts this site's: by name, what differs."""
    return {name: difference(site.sites, dispute) for name, dispute in sorted(site.disputes.all.items())}


def _waits_for(known: SiteList) -> str | None:
    """What has to happen before the newest version alone is in force; None: it is."""
    if known.finished:
        return None
    if not known.base:
        return f"a site that knows the list before version {known.newest}"
    lists = [f"version {version} ({' '.join(known.sites(version))})" for version in known.lists]
    return f"one component with a majority of {' and of '.join(lists)}"


def difference(known: SiteList, dispute: Dispute) -> str:
    theirs = " ".join(dispute.theirs)
    if dispute.version:
        mine = " ".join(known.sites(dispute.version)) if dispute.version in known.lists else "another one"
        return f"version {dispute.version} of the list is {theirs} there and {mine} here: a version has one list"
    return (
        f"its sites are numbered {theirs}, those here {' '.join(known.names)}: "
        "set `numbers` in the file of the new site"
    )
