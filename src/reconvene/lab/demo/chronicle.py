"""Which configurations the sites went through, read from their traces while they write them, and which they should.

A configuration that the script has not announced is one that it did not cause: a site was suspected that was there,
or two were told apart that could talk. While the sites start they may come together in any way; from the first
configuration of all on, everything counts.

A change may take more than one step: sites learn of a cut or its mending one after the other, and for a moment the
links are those of neither before nor after. From when the script does something until a site has arrived where that
leads, it may be *on the way*: in a few configurations of sites from before and after. At all other times in none.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import UNSET

from reconvene.errors import Malformed
from reconvene.trace.events import Row
from reconvene.trace.reader import decode_rows
from reconvene.trace.writer import node_file

__all__ = ["Change", "Chronicle", "Installed"]

Members = tuple[str, ...]

MOST_STEPS = 3
"""On the way to one configuration, at one site."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A regular configuration at one site."""

    site: str
    members: Members
    at_ns: int
    """By the site's clock: since 1970."""


@dataclass(frozen=True, slots=True)
class Change:
    """What the script did, and how long it took until every site concerned was in its new configuration."""

    what: str
    took_ns: int


class Chronicle:
    def __init__(self, trace: Path, sites: Sequence[str]) -> None:
        self._trace = trace
        self._sites = tuple(sites)
        self._read: dict[str, int] = dict.fromkeys(sites, 0)
        """Bytes of each file that were read."""
        self.seen: dict[str, list[Installed]] = {site: [] for site in sites}
        """From the first configuration of all on."""
        self.due: dict[str, list[Members]] = {site: [tuple(sites)] for site in sites}
        """What the script has caused."""
        self.changes: list[Change] = []

    def expect(self, *components: Iterable[str]) -> None:
        """Each of these goes, as a whole, into a configuration of its own."""
        for component in components:
            members = tuple(sorted(component))
            for site in members:
                self.due[site].append(members)

    def read(self) -> None:
        """What the sites have written since. Raises Malformed where it is no trace."""
        for site in self._sites:
            path = node_file(self._trace, site)
            with path.open("rb") as file:
                file.seek(self._read[site])
                lines = file.read().rpartition(b"\n")[0]  # a line that is not whole yet is for the next time
            if lines:
                self._read[site] += len(lines) + 1
                self._take(site, decode_rows(lines, site))

    def _take(self, site: str, rows: Iterable[Row]) -> None:
        seen = self.seen[site]
        for row in rows:
            if row.kind == "conf" and row.conf_kind == "regular" and row.members is not UNSET:
                members = tuple(row.members)
                if seen or members == self._sites:
                    seen.append(Installed(site, members, row.t))

    def installed(self) -> int:
        """How many configurations were read so far, of all sites together."""
        return sum(map(len, self.seen.values()))

    def unexpected(self) -> str | None:
        """The first thing that differs from what is due, in one line."""
        for site in self._sites:
            left = iter(self.due[site])
            now: Members = ()
            steps = 0
            then = next(left, None)
            for one in self.seen[site]:
                if one.members == then:
                    now, then = then, next(left, None)
                    steps = 0
                elif then is not None and steps < MOST_STEPS and set(one.members) <= {*now, *then}:
                    steps += 1
                else:
                    expected = "nothing was due" if then is None else f"expected {_shown(then)}"
                    return f"site {site} went into a configuration of {_shown(one.members)}: {expected}"
            if then is not None:
                return f"site {site} is not yet in a configuration of {_shown(then)}"
        return None

    def steps(self) -> tuple[int, int]:
        """Changes that were due, and configurations on the way to them, of all sites together."""
        due = sum(len(members) - 1 for members in self.due.values())
        return due, sum(len(seen) - 1 for seen in self.seen.values()) - due

    def took(self, what: str, since_ns: int) -> Change:
        """The change that the script began at `since_ns` is over: notes how long it took the last site."""
        self.read()
        latest = [seen[-1].at_ns for seen in self.seen.values() if seen and seen[-1].at_ns >= since_ns]
        if not latest:
            raise Malformed(f"{self._trace}: no site has a new configuration since {what}")
        self.changes.append(Change(what, max(latest) - since_ns))
        return self.changes[-1]


def _shown(members: Members) -> str:
    return " ".join(members)
