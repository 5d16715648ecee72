"""What keeps casts within a cluster behind the crossings that they follow (4.6).

Casts within a cluster go by channels, and could overtake what comes from a crossing. So a site that has taken a
CBCAST of a crossing names it on its channels before its next cast (`Marked`), to each site once. The receiver reads
on when it has taken the same.
"""

from collections.abc import Callable

from reconvene.isis.far_events import Origin
from reconvene.isis.here import Here
from reconvene.isis.messages import Marked

__all__ = ["Marks"]


class Marks:
    def __init__(self, here: Here, has: Callable[[Origin, int], bool]) -> None:
        """`has`: messages flow in the local configuration, and this site has delivered the message with this counter,
        or one after it."""
        self._here = here
        self._has = has
        self._conf = 0
        """The number of the local configuration …"""
        self._taken: dict[Origin, tuple[int, int]] = {}
        """… and the CBCASTs that were taken since messages flow in it: by sender, the counter of the last, and the
        version that it made. The last that was taken comes last."""
        self._version = 0
        self._told: dict[tuple[int, int], int] = {}
        """By site and its born: the version that it was told."""

    def begin(self, conf: int) -> None:
        """A local configuration begins."""
        self._conf = conf
        self._taken.clear()

    def take(self, origin: Origin, counter: int) -> None:
        self._version += 1
        self._taken.pop(origin, None)
        self._taken[origin] = counter, self._version

    def mark(self, site: int) -> Marked | None:
        """What the site must have taken before it reads the next cast that is sent to it; None: it was told."""
        view = self._here.view
        if view is None or site not in view.members:
            return None
        key = site, view.members[site].number
        told = self._told.get(key, 0)
        if told == self._version:
            return None
        news: list[tuple[str, str, int, int]] = []
        for origin, (counter, version) in reversed(self._taken.items()):
            if version <= told:
                break
            news.append((*origin, counter))
        if len(self._told) > len(view.members):
            lives = {(one, born.number) for one, born in view.members.items()}
            self._told = {life: version for life, version in self._told.items() if life in lives}
        self._told[key] = self._version
        return Marked(self._conf, sorted(news)) if news else None

    def is_reached(self, marked: Marked) -> bool:
        """This site has taken what the mark names. In a later local configuration it has, or never will: then it did
        not come there together with the site that sent the mark, and its processes are new."""
        if marked.conf != self._conf:
            return marked.conf < self._conf
        return all(
            self._has(Origin(domain, site, incarnation), counter)
            for domain, site, incarnation, counter in marked.taken
        )

    def reset(self) -> None:
        """This site was killed: its channels begin anew."""
        self._told.clear()
