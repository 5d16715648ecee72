"""The configurations that the sites installed, read from their traces while they are written, and the expected ones.

The script announces every change that it causes. Any other configuration is an error: a running site was suspected,
or two connected sites did not share a configuration. While the sites start, any configuration is fine; everything
counts from the first configuration of all sites on.

A change may take more than one step: sites learn of a cut or a heal one after the other, so for a moment the links
are neither those before nor those after it. From when the script acts until a site is in the expected configuration,
the site may be *on the way*: in a few configurations of sites from before and after. At all other times it may not.
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
"""The most configurations of one site on the way to an expected one."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A regular configuration at one site."""

    site: str
    members: Members
    at_ns: int
    """By the site's clock, in ns since 1970."""


@dataclass(frozen=True, slots=True)
class Change:
    """What the script did, and how long it took until every affected site was in its new configuration."""

    what: str
    took_ns: int


class Chronicle:
    def __init__(self, trace: Path, sites: Sequence[str]) -> None:
        self._trace = trace
        self._sites = tuple(sites)
        self._read: dict[str, int] = dict.fromkeys(sites, 0)
        """How many bytes of each file were read."""
        self.seen: dict[str, list[Installed]] = {site: [] for site in sites}
        """Since the first configuration of all sites."""
        self.due: dict[str, list[Members]] = {site: [tuple(sites)] for site in sites}
        """The changes that the script has caused."""
        self.changes: list[Change] = []

    def expect(self, *components: Iterable[str]) -> None:
        """Announces that each of these components installs a configuration of its own."""
        for component in components:
            members = tuple(sorted(component))
            for site in members:
                self.due[site].append(members)

    def read(self) -> None:
        """Reads what the sites have written since the last call. Raises Malformed if it is no trace."""
        for site in self._sites:
            path = node_file(self._trace, site)
            with path.open("rb") as file:
                file.seek(self._read[site])
                lines = file.read().rpartition(b"\n")[0]  # an incomplete line is read the next time
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
        """How many configurations were read so far, at all sites together."""
        return sum(map(len, self.seen.values()))

    def unexpected(self) -> str | None:
        """The first configuration that differs from the expected one, in one line."""
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
        """Expected changes, and configurations on the way to them, at all sites together."""
        due = sum(len(members) - 1 for members in self.due.values())
        return due, sum(len(seen) - 1 for seen in self.seen.values()) - due

    def took(self, what: str, since_ns: int) -> Change:
        """Records how long the change that began at `since_ns` took the last site. It is complete."""
        self.read()
        latest = [seen[-1].at_ns for seen in self.seen.values() if seen and seen[-1].at_ns >= since_ns]
        if not latest:
            raise Malformed(f"{self._trace}: no site has a new configuration since {what}")
        self.changes.append(Change(what, max(latest) - since_ns))
        return self.changes[-1]


def _shown(members: Members) -> str:
    return " ".join(members)
