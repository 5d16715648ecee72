"""COReL, sections 4 and 5.4: the invariants, checked after every step of random walks, in the words of the paper.

A walk delivers messages, syncs writes, partitions and merges sites, crashes and restarts them, in any order that the
properties of the group communication allow. At its end all sites merge, for property 3.8.
"""

from random import Random

import pytest
from tests.corel.by_hand import Replicas

from reconvene.corel.batch import BatchId
from reconvene.corel.events import Accepted, Green, Logged

WALKS = range(60)
STEPS = 150


class Walk:
    """A run, and what must hold of it according to the paper."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = Replicas("abcde"[: self.random.choice((3, 3, 4, 5))])
        self.world.slow.update(self.world.names)
        self.world.held.update(self.world.names)
        self.world.on_step = self.look
        self.order: list[BatchId] = []
        """The longest green prefix so far: the one global order."""
        self.made_green: dict[int, int] = {}
        """By primary component: up to where its members have marked messages as green in it."""
        self.before: dict[BatchId, set[BatchId]] = {}
        """For each message: what its author had received or sent when it accepted the message."""
        self.count = 0

    # -- the walk

    def run(self) -> None:
        self.world.view(*self.world.names)
        for _ in range(STEPS):
            self.step()
        world = self.world
        for name in world.names:
            if name not in world.lives:
                world.start(name)
        world.slow.clear()
        world.held.clear()
        world.view(*world.names)
        world.run()

    def step(self) -> None:
        world, random = self.world, self.random
        name = random.choice(world.names)
        life = world.lives.get(name)
        if life is None:
            if random.random() < 0.3:
                world.start(name)
                world.view(name)
            return
        draw = random.random()
        if draw < 0.45:
            behind = len(world.conf(name).stream) - world.conf(name).places[name]
            world.deliver(name, min(behind, random.choice((1, 2, 5, 50))))
        elif draw < 0.75:
            world.sync(name, min(len(life.writes), random.choice((1, 2, 9))))
        elif draw < 0.85:
            self.append(name)
        elif draw < 0.95:
            self.part(name)
        elif draw < 0.97:
            self.crash(name)
        else:
            world.slow.clear()
            world.run(*world.conf(name).members)
            world.slow.update(world.names)

    def crash(self, name: str) -> None:
        for waiting in self.world.log(name).queue.accepted:
            if not waiting.durable:
                del self.before[waiting.heading.id]  # never accepted: the next message gets its counter
        self.world.crash(name)

    def append(self, name: str) -> None:
        self.count += 1
        self.world.append(name, str(self.count))

    def part(self, name: str) -> None:
        """The site continues with some of the others; the rest continue without it."""
        world, random = self.world, self.random
        up = sorted(world.lives)
        together = {other for other in up if other == name or random.random() < 0.6}
        left: dict[int, set[str]] = {}
        for other in up:
            if other not in together:
                left.setdefault(world.conf(other).number, set()).add(other)
        left = {number: rest for number, rest in left.items() if set(world.confs[number - 1].members) - rest}
        world.view(*together)
        for rest in left.values():
            world.view(*rest)

    # -- what must hold

    def look(self) -> None:
        for name in sorted(self.world.lives):
            self.look_at(name)

    def look_at(self, name: str) -> None:
        replica = self.world.log(name)
        queue = replica.queue
        green = [heading.id for _, heading in replica.read(0)]
        # No Changes in Green; Agreed Green (and property 3.6).
        assert green[: len(self.order)] == self.order[: len(green)], f"{name}: green is not a prefix of one order"
        if len(green) > len(self.order):
            self.order = green
        # 3.2
        whole = green + [entry.heading.id for entry in queue.pending()]
        assert len(set(whole)) == len(whole), f"{name} has a message twice"
        # Causal; for green messages property 3.7.
        there: set[BatchId] = set()
        for message in whole:
            assert message in self.before, f"{name} has {message}, which nobody sent"  # 3.1
            assert self.before[message] <= there, f"{name} has {message} before its past"
            there.add(message)
        # Yellow
        if replica.primary:
            self.made_green[replica.primary] = max(len(green), self.made_green.get(replica.primary, 0))
        firm = len(green) + len(queue.yellow)
        for primary, reached in self.made_green.items():
            if replica.record.last_committed_primary >= primary:
                assert firm >= reached, f"{name} knows of {primary} and lacks, or has red, what is green in it"
                assert whole[:reached] == self.order[:reached], f"{name} knows of {primary} and has another order"
        for waiting in queue.accepted:
            if waiting.heading.id not in self.before:
                own = {other.heading.id for other in queue.accepted if other.heading.first < waiting.heading.first}
                self.before[waiting.heading.id] = own | there


@pytest.mark.parametrize("seed", WALKS)
def test_invariants_of_5_4(seed: int) -> None:
    """5.4: Causal, No Changes in Green, Agreed Green, Yellow; 4: properties 3.1, 3.2, 3.6, 3.7 and at the end 3.8."""
    walk = Walk(seed)
    walk.run()
    world = walk.world
    accepted = [event for name in world.names for event in world.events[name] if isinstance(event, Accepted)]
    green = set(walk.order)
    for event in accepted:
        assert event.batch.id in green, "3.8: accepted, and not green though everyone is together"
    for name in world.names:
        replica = world.log(name)
        assert [heading.id for _, heading in replica.read(0)] == walk.order
        assert not [*replica.queue.pending(), *replica.queue.accepted]
        assert replica.malformed == 0


def test_walks_reach_what_they_are_for() -> None:
    """The walks have green and red messages, yellow ones that became red, primary components that were never
    established, and crashes."""
    seen = {"green": 0, "logged": 0, "crashes": 0, "attempts": 0}
    for seed in list(WALKS)[:8]:
        walk = Walk(seed)
        walk.run()
        world = walk.world
        for name in world.names:
            seen["green"] += sum(isinstance(event, Green) for event in world.events[name])
            seen["logged"] += sum(isinstance(event, Logged) for event in world.events[name])
            seen["crashes"] += world.lives[name].incarnation - 1
            seen["attempts"] += world.log(name).record.last_attempted_primary
    assert all(count > 10 for count in seen.values()), seen
