"""Site views: the line of primary configurations that were used, and which sites belong to it (4.2).

A site *adopts* a configuration when it knows it to be used, every site that goes on has told which ABCASTs are
decided, and every member has the table of groups: where some lack it, the oldest site that has it tells it. All
members adopt at the same place of the order. A site that does not go on with the line, or enters it, is *born* in
that configuration; what it was before is over.

What a transitional configuration brings is held until the next configuration is used: a site that goes on applies it
then, before anything else; a site that does not drops it. What comes in the next configuration before it is used does
not count: the sites have told by then what they bring.

A site view that is adopted out of what was held is over already, and never `open`. Sites that left its configuration
apart may not have adopted it. A newcomer of these has had no life in it, and its processes go on.
"""

from collections.abc import Iterator
from typing import NamedTuple

from msgspec import MsgspecError, Struct, msgpack

from reconvene.core.effects import Changed, ConfKind, Delivered, Used
from reconvene.errors import Malformed
from reconvene.isis.here import Born, SiteView
from reconvene.isis.messages import Announce, Decided, FlushedSite, Ready, StoredView, Table, decode_control

__all__ = ["Adoption", "Block", "Control", "Lost", "SiteViews", "Step", "TellDecided", "TellTable"]


_MOST_PIECES = 16_384
"""Of a table: far more than any correct site tells."""


class _Brought(Struct, array_like=True, frozen=True):
    """What a site says of itself when configurations meet."""

    born: int
    """0: the site has no table, and is in no site view."""
    incarnation: int
    casts: int
    """The first cast of its present life …"""
    processes: int
    next_casts: int
    """… and of its next, should the others have gone on without it."""
    next_processes: int
    stored: dict[str, StoredView] = {}
    """By group: the last view that the site has stored."""


_BROUGHT = msgpack.Decoder(_Brought)


class Lost(NamedTuple):
    """This site does not go on with the line: all that it had is over."""

    first_process: int
    """Processes with lower numbers are over."""


class Block(NamedTuple):
    """The site is in a configuration without a quorum."""


class TellDecided(NamedTuple):
    """This site goes on, and tells which ABCASTs are decided: should it be lost after the adoption, nobody gives them
    another place."""

    number: int


class TellTable(NamedTuple):
    """This site is the oldest that has the table, and tells it to newcomers."""

    number: int
    changing: bool
    """Sites are missing that were in the last site view."""


class Adoption(NamedTuple):
    view: SiteView
    heirs: frozenset[int]
    """Members that go on."""
    departed: frozenset[int]
    """Members of the last site view that do not, also where the site has come back."""
    table: tuple[Table, ...]
    """Its pieces, for a site that had none; empty also where there is nothing to tell."""
    changing: bool
    stored: dict[int, dict[str, StoredView]]
    """By site and group: views that sites have stored."""


class Control(NamedTuple):
    site: int
    message: Announce | Ready | FlushedSite | Decided


Step = Lost | Block | TellDecided | TellTable | Adoption | Control


class _Line:
    """What is known of the line. A copy of it can look ahead."""

    __slots__ = (
        "borns", "conf", "heirs", "life", "number", "past", "stored", "table", "tabled", "undecided", "view",
        "waiting",
    )  # fmt: skip

    def __init__(self) -> None:
        self.view: SiteView | None = None
        """Adopted, and this site has gone on since."""
        self.tabled = False
        """This site has the table."""
        self.waiting = False
        """A configuration is used and not adopted yet. It lacks …"""
        self.undecided: frozenset[int] = frozenset()
        """… what these sites know to be decided, and …"""
        self.table: tuple[Table, ...] = ()
        """… all pieces of this, unless every member has it."""
        self.number = 0
        """Of the last used configuration; with it …"""
        self.conf = ""
        self.borns: dict[int, Born] = {}
        """… its members, and …"""
        self.heirs: frozenset[int] = frozenset()
        """… those that brought the table."""
        self.stored: dict[int, dict[str, StoredView]] = {}
        """By site: what it brought of groups into the last used configuration, until that is adopted."""
        self.past: dict[int, int] = {}
        """By site: its born in a line that has ended since some site took no part. It never goes back."""
        self.life = (1, 1)
        """The first cast and process of this site's present life."""

    def copy(self) -> "_Line":
        line = _Line()
        line.view, line.tabled, line.waiting = self.view, self.tabled, self.waiting
        line.number, line.conf, line.borns, line.heirs = self.number, self.conf, self.borns, self.heirs
        line.life, line.stored, line.past = self.life, self.stored, self.past
        line.undecided, line.table = self.undecided, self.table
        return line


class SiteViews:
    def __init__(self, site: int, incarnation: int) -> None:
        self._site = site
        self._incarnation = incarnation
        self._line = _Line()
        self._regular = 0
        self._holding = False
        """A transitional configuration has begun, and no configuration is used since."""
        self._transitional = False
        self._held: list[Used | Delivered] = []
        self._early: list[Control] = []
        """Control messages of a configuration that is used and not adopted yet."""
        self.next = (1, 1)
        """This site's next cast and process, as the layer says: its next life begins there."""
        self.stored: dict[str, StoredView] = {}
        """By group: the last view that this site has stored, as the layer says."""
        self.malformed = 0
        self.without: tuple[int, ...] = ()
        """Members of the last used configuration that take no part in ISIS: then nobody does."""

    @property
    def open(self) -> bool:
        """The present configuration is the adopted one, and goes on."""
        return self._line.view is not None and not self._holding and not self._line.waiting

    def brings(self) -> bytes:
        """Of the site as it will be if it goes on."""
        line = self._line.copy()
        for event in self._held:
            for _ in self._apply(line, event):
                pass
        born = line.view.members[self._site].number if line.tabled and line.view is not None else 0
        life = (*line.life, *(self.next if born else line.life))
        return msgpack.encode(_Brought(born, self._incarnation, *life, self.stored))

    # -- events

    def take(self, event: Changed | Delivered | Used) -> Iterator[Step]:
        if isinstance(event, Changed):
            if event.kind is ConfKind.TRANSITIONAL:
                self._holding = self._transitional = True
            elif event.kind is ConfKind.REGULAR:
                self._transitional = False
                self._holding = True
                if event.sites is not None and not event.sites.primary(event.members):
                    yield Block()
        elif isinstance(event, Used) and not self._transitional:
            held, self._held = self._held, []
            if self._site in event.heirs:
                for one in held:
                    yield from self._apply(self._line, one)
            self._holding = False
            yield from self._apply(self._line, event)
        elif self._transitional:
            self._held.append(event)
        elif self._holding:
            pass  # Before a configuration is used nobody speaks in it: this is of the last one, and late. What a site
            # brings is what it knew before.
        else:
            yield from self._apply(self._line, event)

    def _apply(self, line: _Line, event: Delivered | Used) -> Iterator[Step]:
        if isinstance(event, Used):
            yield from self._use(line, event)
            return
        for payload in event.payloads:
            try:
                message = decode_control(payload)
            except Malformed:
                self.malformed += line is self._line
                continue
            if isinstance(message, Table | Decided):
                if line.waiting and message.view == line.number:
                    yield from self._hear(line, event.sender, message)
            elif line is self._line:
                control = Control(event.sender, message)
                if line.waiting:
                    self._early.append(control)
                elif line.view is not None:
                    yield control

    def _hear(self, line: _Line, sender: int, message: Table | Decided) -> Iterator[Step]:
        if sender not in line.heirs:
            return  # no correct site that has no table tells one
        if isinstance(message, Table):
            if sender == SiteView(0, "", line.borns).oldest(line.heirs) and not _is_whole(line.table):
                line.table = (*line.table, message)
        else:
            if line is self._line and line.tabled:
                yield Control(sender, message)
            if message.last:
                line.undecided -= {sender}
        if not line.undecided and (_is_whole(line.table) or line.heirs == line.borns.keys()):
            yield from self._adopt(line, line.table)

    def _use(self, line: _Line, event: Used) -> Iterator[Step]:
        without = () if event.brought is None else tuple(s for s in event.members if not event.brought.get(s))
        if without:
            yield from self._end_line(line, event, without)
            return
        brought = self._brought(line, event)
        if brought is None:
            return
        heirs = frozenset(site for site in event.heirs if brought[site].born)
        borns = {
            site: Born(what.born, what.incarnation, what.casts, what.processes)
            if site in heirs
            else self._born_anew(event.number, what)
            for site, what in brought.items()
        }
        if event.brought is not None:
            # Not what sites brought into an earlier one, which was never adopted: not all members were in that.
            line.stored = {site: what.stored for site, what in brought.items() if what.stored}
        if self._site not in heirs:
            mine = borns[self._site]
            before, line.life = line.life, (mine.first_cast, mine.first_process)
            # It also loses a life that it would have had if it had gone on: what it brought says so.
            if line.tabled or line.life != before:
                yield Lost(mine.first_process)
            line.tabled = False
            line.view = None
        line.number, line.conf, line.borns, line.heirs = event.number, event.conf, borns, heirs
        line.waiting, line.undecided, line.table = bool(heirs), heirs, ()
        if line is self._line:
            self._early = []
        if not heirs:
            yield from self._adopt(line, ())
        if self._site in heirs:
            yield TellDecided(event.number)
            if len(heirs) < len(borns) and self._site == SiteView(0, "", borns).oldest(heirs):
                yield TellTable(event.number, bool(_departed(line)))

    def _end_line(self, line: _Line, event: Used, without: tuple[int, ...]) -> Iterator[Step]:
        """Some members know nothing of ISIS. They would count as heirs of a line that they can't go on with: so it
        ends here, at all members alike, and another one begins when all sites take part again."""
        assert event.brought is not None
        mine = self._decode(event.brought[self._site])
        before, line.life = line.life, (mine.next_casts, mine.next_processes)
        was = line.tabled or line.life != before
        line.past = {**line.past, **{site: born.number for site, born in line.borns.items()}}
        line.view, line.tabled = None, False
        line.number, line.conf, line.heirs = event.number, event.conf, frozenset()
        line.waiting, line.undecided, line.table = True, frozenset(), ()  # for a table that nobody tells
        line.borns = {
            site: self._born_anew(event.number, self._decode(event.brought[site]))
            for site in event.members
            if site not in without
        }
        if line is self._line:
            self._early = []
            self.without = without
        if was:
            yield Lost(mine.next_processes)
        yield Block()

    def _born_anew(self, number: int, what: _Brought) -> Born:
        """The next life of a site that does not go on, or has none yet."""
        return Born(number, what.incarnation, what.next_casts, what.next_processes)

    def _brought(self, line: _Line, event: Used) -> dict[int, _Brought] | None:
        """Where the members came together, each knows of the others what they brought before. Not so where they were
        no primary component before, and become one because the list of sites has changed: then they adopt the next
        configuration."""
        if event.brought is None:
            if not all(site in line.borns or site == self._site for site in event.members):
                return None
            return {site: self._remembered(line, site) for site in event.members}
        return {site: self._checked(line, event, site) for site in event.members}

    def _checked(self, line: _Line, event: Used, site: int) -> _Brought:
        """What the site brought. Of one that goes on, what this site knows counts where the two contradict."""
        assert event.brought is not None
        what = self._decode(event.brought.get(site, b""))
        known = line.borns.get(site)
        if site not in event.heirs or not what.born:
            return what
        if known is None or what.born == known.number:
            plausible = line.past.get(site, 0) <= what.born <= event.number
        else:
            plausible = known.number < what.born <= event.number and self._site not in event.heirs
        if plausible:
            return what
        self.malformed += 1
        if known is None:
            return _Brought(0, 0, 1, 1, 1, 1)
        life = (known.first_cast, known.first_process)
        return _Brought(known.number, known.incarnation, *life, *life)

    def _remembered(self, line: _Line, site: int) -> _Brought:
        born = line.borns.get(site)
        if born is None:
            return _Brought(0, self._incarnation, *line.life, *line.life)
        life = (born.first_cast, born.first_process)
        adopted = not line.waiting or site in line.heirs
        return _Brought(born.number if adopted else 0, born.incarnation, *life, *life)

    def _decode(self, data: bytes) -> _Brought:
        try:
            return _BROUGHT.decode(data)
        except (MsgspecError, ValueError):
            self.malformed += 1
            return _Brought(0, 0, 1, 1, 1, 1)

    def _adopt(self, line: _Line, table: tuple[Table, ...]) -> Iterator[Step]:
        departed = _departed(line)
        had = line.tabled
        line.waiting = False
        line.tabled = True
        line.view = SiteView(line.number, line.conf, line.borns)
        line.table = ()  # it may be large, and the layer has it
        if line is not self._line:
            return
        self.without = ()
        changing = bool(departed) if had else bool(table) and table[-1].changing
        yield Adoption(line.view, line.heirs, departed, () if had else table, changing, line.stored)
        line.stored = {}
        early, self._early = self._early, []
        yield from early


def _is_whole(table: tuple[Table, ...]) -> bool:
    return bool(table) and (table[-1].last or len(table) >= _MOST_PIECES)


def _departed(line: _Line) -> frozenset[int]:
    """Members of the last site view that do not go on, also where the site has come back."""
    return frozenset(() if line.view is None else line.view.members.keys() - line.heirs)
