"""Judges what processes saw in a run, from the promises of docs/groups.md alone.

`judge` returns the violations as lines, none where all is well. It knows events and what the application did; nothing
of tables, exchanges or how the filter decides.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from tests.sim.groups_world import Accepted, Life, World

from reconvene.core.effects import ConfKind
from reconvene.core.groups.events import Arrived, Blocked, Left, Process, ViewChanged, ViewId
from reconvene.ids import Service

__all__ = ["judge"]

Message = tuple[int, int, int]
"""Site, incarnation, counter."""
Stamp = tuple[int, ...]


@dataclass(slots=True)
class Got:
    message: Message
    sender: Process
    service: Service
    payload: bytes
    view: ViewId
    stamp: Stamp | None
    accepted: Accepted | None = None


@dataclass(slots=True)
class Stretch:
    """What a membership got between a view and the next."""

    view: ViewChanged
    got: list[Got] = field(default_factory=list)

    @property
    def key(self) -> tuple[ConfKind, ViewId, str]:
        return self.view.kind, self.view.view, self.view.conf


@dataclass(slots=True)
class Story:
    """One membership, from its first view on."""

    life: Life
    number: int
    process: Process
    group: str
    primary: bool
    stretches: list[Stretch] = field(default_factory=list)
    """Hidden views are left out: nothing begins with them."""
    ends: list[int] = field(default_factory=list)
    """The stretches before which it saw that it is blocked."""
    blocked: bool = False
    left: Left | None = None

    @property
    def name(self) -> str:
        return f"{self.process.site}:{self.process.incarnation}:{self.process.number}/{self.group}#{self.number}"

    @property
    def alive(self) -> bool:
        """At the run's end it is a member that its site has to keep up to date."""
        return not self.life.crashed and self.left is None and self.number not in self.life.left


class Judge:
    def __init__(self, world: World) -> None:
        self.world = world
        self.found: list[str] = []
        self.stories: list[Story] = []
        self.sent: dict[bytes, Accepted] = {}
        for life in world.lives:
            for accepted in life.accepted:
                self.sent[accepted.payload] = accepted
        for life in world.lives:
            self.stories += self._read(life)
        self.groups: dict[tuple[str, bool], list[Story]] = defaultdict(list)
        for story in self.stories:
            self.groups[story.group, story.primary].append(story)

    def say(self, what: str) -> None:
        self.found.append(what)

    def majority(self, sites: Iterable[int]) -> bool:
        return 2 * len(tuple(sites)) > len(self.world.scenario.nodes)

    # -- reading

    def _read(self, life: Life) -> Iterator[Story]:
        stories = {
            number: Story(life, number, process, group, primary)
            for number, (process, group, primary) in life.joined.items()
        }
        orders: dict[tuple[Process, bool], Stamp] = {}
        for told in life.told:
            event = told.event
            story = stories[event.membership]
            if told.process != story.process:
                self.say(f"{story.name}: its events went to {told.process}")
            if story.left is not None:
                self.say(f"{story.name}: {type(event).__name__} after it had left")
            stopped = story.primary and not told.changed and not self.majority(told.members)
            if stopped and not isinstance(event, Blocked | Left):
                self.say(f"{story.name}: {type(event).__name__} outside of the primary component")
            if isinstance(event, ViewChanged):
                self._view(story, event)
            elif isinstance(event, Arrived):
                self._arrived(story, event, orders)
            elif isinstance(event, Blocked):
                story.blocked = True
                story.ends.append(len(story.stretches))
                if not story.primary:
                    self.say(f"{story.name}: blocked, and has no filter")
            else:
                story.left = event
        yield from stories.values()

    def _view(self, story: Story, view: ViewChanged) -> None:
        before = story.stretches[-1].view if story.stretches else None
        if view.process not in view.members and view.kind is ConfKind.REGULAR:
            self.say(f"{story.name}: is not in its own view {view.view}")
        if len(set(view.members)) != len(view.members):
            self.say(f"{story.name}: view {view.view} names a process twice")
        if view.kind is ConfKind.REGULAR:
            if before is not None and view.view <= before.view:
                self.say(f"{story.name}: view {view.view} after {before.view}")
            story.blocked = False
        else:
            if story.primary:
                self.say(f"{story.name}: a {view.kind.value} view passed the filter")
            if before is None or view.view != before.view:
                self.say(f"{story.name}: a {view.kind.value} view without a regular one")
            if view.kind is ConfKind.HIDDEN:
                return
            if before is not None and before.kind is ConfKind.TRANSITIONAL:
                self.say(f"{story.name}: two transitional views in a row")
            if before is not None and not set(view.members) <= set(before.members):
                self.say(f"{story.name}: a transitional view has members that the regular one had not")
        story.stretches.append(Stretch(view))

    def _arrived(self, story: Story, event: Arrived, orders: dict[tuple[Process, bool], Stamp]) -> None:
        if not story.stretches or story.blocked:
            self.say(f"{story.name}: a message without a view")
            return
        stretch = story.stretches[-1]
        if event.view != stretch.view.view:
            self.say(f"{story.name}: a message of view {event.view} in {stretch.view.view}")
        for place, payload in enumerate(event.payloads):
            stamp = None if event.timestamp is None else (*event.timestamp, event.index + place)
            message = (event.sender.site, event.sender.incarnation, event.first + place)
            got = Got(message, event.sender, event.service, payload, event.view, stamp, self.sent.get(payload))
            stretch.got.append(got)
            self._content(story, got)
            if (stamp is not None) != (event.service >= Service.AGREED):
                self.say(f"{story.name}: {message} has no timestamp, or should have none")
            if stamp is not None:
                # One order across the groups of a process: those without the filter, and those with it.
                lane = (story.process, story.primary)
                if stamp < orders.get(lane, ()):
                    self.say(f"{story.name}: {message} out of the total order")
                orders[lane] = stamp

    def _content(self, story: Story, got: Got) -> None:
        accepted = got.accepted
        if accepted is None:
            self.say(f"{story.name}: {got.message} was never sent")
            return
        if accepted.group != story.group:
            self.say(f"{story.name}: {got.message} is of group {accepted.group}")
        expected = max(accepted.service, Service.AGREED) if story.primary else accepted.service
        if got.service is not expected:
            self.say(f"{story.name}: {got.message} was sent as {accepted.service.label}")
        if not story.primary and accepted.sender != got.sender:
            self.say(f"{story.name}: {got.message} is from {accepted.sender}, not {got.sender}")
        me = story.stretches[-1].view.process
        if accepted.to is not None and me not in accepted.to:
            self.say(f"{story.name}: {got.message} was for others")
        # In a transitional view the sender's join may have come there too, and is seen in no view.
        view = story.stretches[-1].view
        if got.sender not in view.members and view.kind is ConfKind.REGULAR:
            self.say(f"{story.name}: {got.message} is from {got.sender}, which is not in the view {got.view}")

    # -- every group

    def once_and_in_order(self) -> None:
        stamps: dict[Message, Stamp | None] = {}
        for story in self.stories:
            seen: set[Message] = set()
            last: dict[tuple[int, bool], int] = {}
            for got in (got for stretch in story.stretches for got in stretch.got):
                if got.message in seen:
                    self.say(f"{story.name}: {got.message} twice")
                seen.add(got.message)
                if stamps.setdefault(got.message, got.stamp) != got.stamp:
                    self.say(f"{story.name}: {got.message} has another timestamp elsewhere")
                if got.accepted is None:
                    continue
                # By sender: fifo messages among themselves, all others among themselves.
                lane = (got.accepted.membership * 100 + got.sender.site, got.service is Service.FIFO)
                count = int(got.payload.split()[0])
                if count < last.get(lane, 0):
                    self.say(f"{story.name}: {got.message} out of its sender's order")
                last[lane] = count

    def views_agree(self) -> None:
        for (name, _), stories in sorted(self.groups.items()):
            views: dict[object, tuple[Process, ...]] = {}
            for story in stories:
                for stretch in story.stretches:
                    members = stretch.view.members
                    if views.setdefault(stretch.key, members) != members:
                        self.say(f"{story.name}: view {stretch.key} of {name} has other members elsewhere")

    # -- without the filter

    def plain(self) -> None:
        for (_, primary), stories in sorted(self.groups.items()):
            if primary:
                continue
            ordered: dict[object, tuple[Story, list[Got]]] = {}
            whole: dict[object, tuple[Story, list[Got]]] = {}
            for story in stories:
                for one, two in pairwise(story.stretches):
                    self._same(ordered, (one.key, two.key), story, [g for g in one.got if g.stamp is not None])
                    self._going_on(story, one.view, two.view)
                for start, end, got in self._configurations(story):
                    self._same(whole, (start, end), story, sorted(got, key=_by_message))

    def _going_on(self, story: Story, one: ViewChanged, two: ViewChanged) -> None:
        if one.kind is ConfKind.REGULAR and two.kind is ConfKind.REGULAR:
            if one.view.configuration == two.view.configuration:
                if len(set(one.members) ^ set(two.members)) != 1:
                    self.say(f"{story.name}: {one.view} and {two.view} differ by more than a join or a leave")
            else:
                self.say(f"{story.name}: no transitional view between {one.view} and {two.view}")

    def _configurations(self, story: Story) -> Iterator[tuple[object, object, list[Got]]]:
        """Where it was a member from the configuration's first view until the next: how it began, how it ended."""
        start: Stretch | None = None
        got: list[Got] = []
        for last, stretch in zip((story.stretches[:1] + story.stretches), story.stretches, strict=False):
            view = stretch.view
            if view.kind is ConfKind.REGULAR and (start is None or view.view.configuration > start.view.view[0]):
                if start is not None and start.view.view.change == 0:
                    yield start.key, (last.key, view.view.configuration), got
                start, got = stretch, []
            got += stretch.got

    def _same(self, known: dict[object, tuple[Story, list[Got]]], key: object, story: Story, got: list[Got]) -> None:
        """Both got the same, in the same order; of messages to some members, those that both were named in."""
        other, theirs = known.setdefault(key, (story, got))
        if other is story:
            return
        mine = [g.message for g in got if _for(g, other.process)]
        if mine != [g.message for g in theirs if _for(g, story.process)]:
            self.say(f"{story.name} and {other.name}: not the same messages between {key}")

    # -- with the filter

    def filtered(self) -> None:
        for (name, primary), stories in sorted(self.groups.items()):
            if primary:
                self._lineage(name, stories)
                self._synchrony(stories)

    def _lineage(self, name: str, stories: list[Story]) -> None:
        views: dict[ViewId, tuple[Process, ...]] = {}
        for story in stories:
            for stretch in story.stretches:
                views[stretch.view.view] = stretch.view.members
                if stretch.view.conf != str(stretch.view.view.configuration):
                    self.say(f"{story.name}: view {stretch.view.view} in {stretch.view.conf}")
        chain = sorted(views)
        place = {view: index for index, view in enumerate(chain)}
        for process in sorted({process for members in views.values() for process in members}):
            had = [place[view] for view in chain if process in views[view]]
            if had[-1] - had[0] + 1 != len(had):
                self.say(f"{name}: {process} was out of the primary component, and came back the same")
        for story in stories:
            for index, (one_, two_) in enumerate(pairwise(story.stretches), 1):
                one, two = one_.view, two_.view
                same = one.process == two.process
                if same != (index not in story.ends):
                    self.say(f"{story.name}: another identity from {one.view} to {two.view}, or blocked and the same")
                if same:
                    self._following(story, one, two)
                    if place[two.view] != place[one.view] + 1:
                        self.say(f"{story.name}: missed a view between {one.view} and {two.view}")

    def _following(self, story: Story, one: ViewChanged, two: ViewChanged) -> None:
        before, after = set(one.members), set(two.members)
        if one.view.configuration == two.view.configuration:
            if len(before ^ after) != 1:
                self.say(f"{story.name}: {one.view} and {two.view} differ by more than one process")
        elif two.view.change or not after <= before:
            self.say(f"{story.name}: {two.view} begins with processes that {one.view} had not")

    def _synchrony(self, stories: list[Story]) -> None:
        seen: dict[Message, ViewId] = {}
        known: dict[object, tuple[Story, list[Got]]] = {}
        for story in stories:
            for stretch in story.stretches:
                for got in stretch.got:
                    if seen.setdefault(got.message, got.view) != got.view:
                        self.say(f"{story.name}: {got.message} in another view elsewhere")
            for one, two in pairwise(story.stretches):
                if one.view.process == two.view.process:
                    key = (one.view.view, two.view.view)
                    other, theirs = known.setdefault(key, (story, one.got))
                    if _to_all(one.got) != _to_all(theirs):
                        self.say(f"{story.name} and {other.name}: not the same messages in view {one.view.view}")

    # -- liveness

    def settled(self) -> None:
        names = self.world.cluster.names
        for component in self.world.cluster.components():
            sites = {names.index(name) for name in component if self.world.cluster.node(name).up}
            for (name, primary), stories in sorted(self.groups.items()):
                alive = [story for story in stories if story.alive and story.process.site in sites]
                if primary and not self.majority(sites):
                    for story in alive:
                        if not story.blocked:
                            self.say(f"{story.name}: is not blocked in a minority")
                elif alive:
                    self._one_view(name, alive)
        for story in self.stories:
            self._own_messages(story)

    def _one_view(self, name: str, alive: list[Story]) -> None:
        lasts = []
        for story in alive:
            if not story.stretches or story.blocked:
                self.say(f"{story.name}: has no view in the end")
                return
            lasts.append(story.stretches[-1])
        views = {last.key for last in lasts}
        if len(views) != 1:
            self.say(f"{name}: views {sorted(map(str, views))} in the end")
            return
        members = {last.view.process for last in lasts}
        if set(lasts[0].view.members) != members:
            self.say(f"{name}: the last view has {lasts[0].view.members}; expected {sorted(map(str, members))}")
        first = {got.message: got for got in lasts[0].got}
        for story, last in zip(alive[1:], lasts[1:], strict=True):
            here = {got.message for got in last.got if got.stamp is not None and _for(got, lasts[0].view.process)}
            there = {g.message for g in first.values() if g.stamp is not None and _for(g, last.view.process)}
            if here != there:
                self.say(f"{story.name} and {alive[0].name}: not the same messages in the last view")

    def _own_messages(self, story: Story) -> None:
        """What was accepted comes back to its sender, unless that is gone."""
        if story.life.crashed or story.process not in story.life.open:
            return
        got = {got.payload for stretch in story.stretches for got in stretch.got}
        for accepted in story.life.accepted:
            if accepted.membership != story.number or accepted.payload in got:
                continue
            identity = self._identity(story, accepted)
            if accepted.to is not None and identity not in accepted.to:
                continue
            later = story.life.told[accepted.after :]
            if story.primary and any(
                isinstance(t.event, Blocked | Left) and t.event.membership == story.number for t in later
            ):
                continue
            if story.left is not None and story.left.reason.startswith("refused"):
                continue
            self.say(f"{story.name}: {accepted.payload[:8]!r} was accepted and never delivered")

    def _identity(self, story: Story, accepted: Accepted) -> Process | None:
        for told in reversed(story.life.told[: accepted.after]):
            if isinstance(told.event, ViewChanged) and told.event.membership == story.number:
                return told.event.process
        return None


def _for(got: Got, process: Process | None) -> bool:
    """Whether it was sent to this process."""
    return got.accepted is None or got.accepted.to is None or process in got.accepted.to


def _some(got: Got) -> bool:
    """It was sent to some members only."""
    return got.accepted is not None and got.accepted.to is not None


def _to_all(got: Iterable[Got]) -> list[Message]:
    return [one.message for one in got if not _some(one)]


def _by_message(got: Got) -> Message:
    return got.message


def judge(world: World) -> list[str]:
    judged = Judge(world)
    judged.once_and_in_order()
    judged.views_agree()
    judged.plain()
    judged.filtered()
    judged.settled()
    return judged.found
