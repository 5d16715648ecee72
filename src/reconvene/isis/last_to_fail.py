"""Which sites were the last of a group, after all its members have failed (3.1 of the ISIS paper).

Where a process joins with this option, its site stores each view of the group before it is shown. When the group is
empty, those that join with the option wait until it is clear who failed last, from what their sites have stored:

    the newest view that any of them has stored was the last one, if a process of each of its sites is back: whoever
    could have gone on to a later view was in it, or was about to join

So a site stores who is about to join before it agrees to that: a member that failed before it stored the view with
the newcomer still knows that the newcomer may have gone on. Sites report what they have stored when they form a site
view, and with each join.

The sites that have stored the newest view failed last, and have the most that can be recovered. Their processes join
first, in the order in which they asked; then the others, which take the state from them. Where no site of the site
view has stored anything, the group is new. A process that joins without the option does not wait: so a group can be
begun anew if a site is lost for good.

Views are compared by the number of their site view's configuration first, since a group's own numbers begin again
when all sites have failed.
"""

from collections.abc import Collection, Iterable, Mapping

from msgspec import MsgspecError, msgpack

from reconvene.isis.messages import StoredView
from reconvene.storage.tables import Op, Put, Reader

__all__ = ["StoredViews", "last_to_fail"]

_PREFIX = b"isis/view/"
_END = b"isis/view0"
_DECODER = msgpack.Decoder(StoredView)
_VIEW_BYTES = 96
"""The most that a stored view takes, besides its group's name: with 64 sites."""


def last_to_fail(present: Collection[int], stored: Mapping[int, StoredView]) -> frozenset[int] | None:
    """The sites that failed last; empty: none has stored anything; None: others have to come back before that is
    known. `present`: the sites that are back. `stored`: by site, also where it was back and is lost again."""
    if not stored:
        return frozenset()
    newest = max(stored.values(), key=_age)
    if not frozenset(present) >= frozenset(newest.sites):
        return None
    return frozenset(site for site, view in stored.items() if _age(view) == _age(newest))


def _age(view: StoredView) -> tuple[int, int]:
    return view.number, view.view


def _covers(known: StoredView | None, view: StoredView) -> bool:
    if known is None or _age(known) < _age(view):
        return False
    return _age(known) > _age(view) or frozenset(known.sites) >= frozenset(view.sites)


class StoredViews:
    """The last view of each group that this site has shown, or was about to show, on stable storage."""

    def __init__(self, tables: Reader | None) -> None:
        """`tables`: None where nothing is stored, and the option is refused."""
        self.enabled = tables is not None
        self._durable: dict[str, StoredView] = {}
        self._wanted: dict[str, StoredView | None] = {}
        """To be written next; None: to be deleted."""
        self._writing: dict[int, dict[str, StoredView | None]] = {}
        """By token."""
        self._token = 0
        for key, value in () if tables is None else tables.scan(_PREFIX, _END):
            try:
                self._durable[key[len(_PREFIX) :].decode()] = _DECODER.decode(value)
            except (MsgspecError, ValueError):
                continue  # a site that can't read its view has none

    @property
    def all(self) -> dict[str, StoredView]:
        """By group."""
        return dict(sorted(self._durable.items()))

    def has_room(self, groups: Iterable[str], most: int) -> bool:
        """The views of these groups, besides all that are stored or being stored, fit into so many bytes."""
        names = {*groups, *self._durable, *self._wanted}
        for writing in self._writing.values():
            names.update(writing)
        return sum(len(name.encode()) + _VIEW_BYTES for name in names) <= most

    def of(self, group: str) -> StoredView | None:
        return self._durable.get(group)

    def is_stored(self, group: str, view: StoredView) -> bool:
        """Whether the view may be shown. If not, it is written."""
        if _covers(self._durable.get(group), view):
            return True
        last = self._last(group)
        if not _covers(last, view):
            more = last is not None and _age(last) == _age(view)
            sites = sorted({*view.sites, *(last.sites if last is not None and more else ())})
            self._wanted[group] = StoredView(view.number, view.view, sites)
        return False

    def may_grow(self, group: str, sites: Iterable[int]) -> bool:
        """Whether it is stored that the group may soon have members at these sites. If not, it is written."""
        last = self._last(group)
        number, view = (0, 0) if last is None else _age(last)
        return self.is_stored(group, StoredView(number, view, sorted(sites)))

    def forget(self, group: str) -> None:
        """No process of this site is in the group any more, of its own accord."""
        if self._last(group) is not None:
            self._wanted[group] = None

    def _last(self, group: str) -> StoredView | None:
        for ahead in (self._wanted, *reversed(self._writing.values())):
            if group in ahead:
                return ahead[group]
        return self._durable.get(group)

    @property
    def settled(self) -> bool:
        return not self._wanted and not self._writing

    def flush(self) -> tuple[int, list[Op]] | None:
        """What is to be written, with a token that comes back by `synced`."""
        if not self._wanted:
            return None
        self._token += 1
        wanted, self._wanted = self._wanted, {}
        self._writing[self._token] = wanted
        return self._token, list(_ops(wanted.items()))

    def synced(self, token: int) -> None:
        for group, view in self._writing.pop(token).items():
            if view is None:
                self._durable.pop(group, None)
            else:
                self._durable[group] = view


def _ops(wanted: Iterable[tuple[str, StoredView | None]]) -> Iterable[Op]:
    for group, view in wanted:
        yield Put(_PREFIX + group.encode(), None if view is None else msgpack.encode(view))
