"""What simulated processes ask their site for, and how they answer: against a layer that only takes notes."""

from collections.abc import Sequence

import pytest

from reconvene.core.groups.events import Process
from reconvene.errors import Rejected, Unavailable
from reconvene.isis.events import (
    ALL,
    Blocked,
    CastId,
    Killed,
    LeftGroup,
    Received,
    SiteAdopted,
    StateChunk,
    StateDone,
    StateWanted,
    ViewShown,
)  # fmt: skip
from reconvene.sim.isis_application import IsisApplication, NodeProcesses
from reconvene.sim.isis_scenario import Cast, Casting, Flush, IsisVerb, Join, Kill, Label, Leave, ProcessPlan, Rank

ADOPTED = SiteAdopted("1", 1, ((0, 1),))


class Notes:
    """Takes down every request; refuses those whose name is in `refusals`."""

    def __init__(self, site: int) -> None:
        self.site = site
        self.blocked = True
        self.asked: list[tuple[object, ...]] = []
        self.refusals: dict[str, Exception] = {}
        self._numbers = 0

    def _note(self, name: str, *said: object) -> None:
        if name in self.refusals:
            raise self.refusals[name]
        self.asked.append((name, *said))

    def take(self) -> list[tuple[object, ...]]:
        asked, self.asked = self.asked, []
        return asked

    def open(self, name: str, *, answers: bool, state: bool) -> Process:
        self._numbers += 1
        self._note("open", name, answers, state)
        return Process(self.site, 1, self._numbers)

    def kill(self, process: Process) -> None:
        self._note("kill", process)

    def join(self, process: Process, group: str) -> None:
        self._note("join", process, group)

    def leave(self, process: Process, group: str) -> None:
        self._note("leave", process, group)

    def cbcast(
        self, process: Process, to: str | Sequence[Process], payload: bytes, label: Label = None, replies: int = 0
    ) -> None:
        self._note("cbcast", process, to, len(payload), label, replies)

    def abcast(
        self,
        process: Process,
        to: str | Sequence[Process],
        payload: bytes,
        label: str = "",
        *,
        causal: bool = False,
        replies: int = 0,
    ) -> None:
        self._note("abcast", process, to, len(payload), label, causal, replies)

    def gbcast(self, process: Process, group: str, payload: bytes) -> None:
        self._note("gbcast", process, group, len(payload))

    def rank(self, process: Process, group: str, order: Sequence[Process]) -> None:
        self._note("rank", process, group, order)

    def flush(self, process: Process) -> None:
        self._note("flush", process)

    def watch(self, process: Process, watched: Process) -> None:
        self._note("watch", process, watched)

    def reply(self, process: Process, request: CastId, payload: bytes) -> None:
        self._note("reply", process, request)

    def give(
        self, process: Process, group: str, view: int, newcomer: Process, index: int, data: bytes, last: bool
    ) -> None:
        self._note("give", process, group, view, newcomer, index, data, last)


class World:
    """Two nodes: a with x (replies, state) and y, b with z (state)."""

    def __init__(self) -> None:
        plans = (
            ProcessPlan("a", "x", ("bank",), replies=True, state=True),
            ProcessPlan("a", "y"),
            ProcessPlan("b", "z", ("bank",), state=True),
        )
        self.all = IsisApplication(plans, lambda name, size: b"." * size)
        self.a, self.b = Notes(0), Notes(1)
        self.at_a, self.at_b = self.all.of_node("a"), self.all.of_node("b")
        self.at_a.begin(self.a)
        self.at_b.begin(self.b)
        for notes in (self.a, self.b):
            notes.take()
            notes.blocked = False
        self.at_a.submit(0)
        self.at_b.submit(0)

    def ask(self, verb: IsisVerb) -> list[tuple[object, ...]]:
        self.a.take()
        self.at_a.ask(verb)
        self.at_a.submit(0)
        return self.a.take()


X, Y, Z = Process(0, 1, 1), Process(0, 1, 2), Process(1, 1, 1)


def view(process: Process, number: int, *ranked: Process) -> ViewShown:
    return ViewShown(process, "bank", number, ranked, 1, "1", {})


def received(process: Process, counter: int, replies: int = 0) -> Received:
    return Received(process, "cbcast", Z, CastId(1, 1, counter), 0, b"", "bank", 1, None, replies)


def test_they_begin_with_their_node_and_join_when_it_is_not_blocked() -> None:
    world = World()
    assert world.a.asked == [("join", X, "bank")]
    notes = Notes(0)
    world.at_a.crash()
    world.at_a.begin(notes)
    world.at_a.submit(0)
    assert notes.take() == [("open", "x", True, True), ("open", "y", False, False)]
    world.at_a.take([ADOPTED])
    assert world.at_a.wants_turn
    notes.blocked = False
    notes.refusals["join"] = Unavailable("not yet")
    world.at_a.submit(0)
    assert not world.at_a.wants_turn
    notes.refusals.clear()
    world.at_a.submit(0)
    assert notes.take() == [("join", X, "bank")]
    world.at_a.take([ADOPTED])
    assert not world.at_a.wants_turn


def test_a_killed_site_s_processes_go_on_under_new_identities_and_join_again() -> None:
    world = World()
    world.ask(Join("a.x", "fleet"))
    world.ask(Leave("a.x", "bank"))
    now = Process(0, 1, 7)
    world.at_a.take([Blocked(X), Killed(now, X)])
    assert world.at_a.wants_turn
    world.at_a.submit(0)
    assert world.a.take() == [("join", now, "fleet")]
    assert world.ask(Cast("a.y", Casting("cbcast", ("a.x", "b.z")))) == [("cbcast", Y, [now, Z], 64, None, 0)]


STEPS = [
    (Cast("a.x", Casting("cbcast", "bank", 9, {"k": 1}, replies=2), 2), [("cbcast", X, "bank", 9, {"k": 1}, 2)] * 2),
    (Cast("a.y", Casting("abcast", "bank", 9, "q", replies=ALL)), [("abcast", Y, "bank", 9, "q", False, -1)]),
    (Cast("a.y", Casting("abcast", "bank", 9, causal=True)), [("abcast", Y, "bank", 9, "", True, 0)]),
    (Cast("a.x", Casting("gbcast", "bank", 3)), [("gbcast", X, "bank", 3)]),
    (Flush("a.x"), [("flush", X)]),
    (Rank("a.x", "bank", ("b.z", "a.x")), [("rank", X, "bank", [Z, X])]),
    (Kill(("a.x", "a.y")), [("kill", X), ("kill", Y)]),
]


@pytest.mark.parametrize(("verb", "asked"), STEPS)
def test_steps(verb: IsisVerb, asked: list[tuple[object, ...]]) -> None:
    world = World()
    assert world.ask(verb) == asked
    assert world.all.skipped == 0


@pytest.mark.parametrize("why", [Rejected("no"), Unavailable("blocked")])
def test_a_step_that_is_refused_is_counted_once(why: Exception) -> None:
    world = World()
    world.a.refusals["cbcast"] = why
    verb = Cast("a.x", Casting("cbcast", "bank"), 5)
    world.ask(verb)
    assert world.all.skipped == 1
    world.at_a.ask(verb, counted=False)
    world.at_a.submit(0)
    assert world.all.skipped == 1


def test_a_dead_process_does_nothing_until_its_node_restarts() -> None:
    world = World()
    world.ask(Kill(("a.x",)))
    assert world.at_a.living == ["a.y"]
    assert world.ask(Flush("a.x")) == []
    assert world.ask(Kill(("a.x",))) == []
    assert world.all.skipped == 2
    # Others may still cast to the identity that they knew.
    assert world.ask(Cast("a.y", Casting("cbcast", ("a.x",)))) == [("cbcast", Y, [X], 64, None, 0)]
    world.at_a.crash()
    world.at_a.begin(Notes(0))
    assert world.at_a.living == ["a.x", "a.y"]


def test_steps_that_wait_are_dropped_and_answers_are_not() -> None:
    world = World()
    world.a.take()
    world.at_a.ask(Flush("a.x"))
    world.at_a.take([received(X, 1, replies=1)])
    assert (world.at_a.waiting, world.at_a.drop(), world.at_a.waiting) == (1, 1, 0)
    world.at_a.submit(0)
    assert world.a.take() == [("reply", X, CastId(1, 1, 1))]


def test_only_those_reply_that_say_so_and_only_to_requests() -> None:
    world = World()
    world.a.take()
    world.at_a.take([received(X, 1), received(Y, 2, replies=ALL), received(X, 3, replies=2)])
    world.a.refusals["reply"] = Rejected("the one who asked is gone")
    world.at_a.submit(0)
    assert world.all.skipped == 0
    assert not world.at_a.wants_turn


def give_all(notes: Notes, at: NodeProcesses) -> list[tuple[object, ...]]:
    notes.take()
    while at.wants_turn_at is not None:
        at.submit(at.wants_turn_at)
    return notes.take()


def test_state_is_given_as_of_the_view_in_chunks_and_resumed() -> None:
    world = World()
    world.at_a.take([view(X, 1, X), *(received(X, counter) for counter in range(1, 20)), view(X, 2, X, Z)])
    world.at_a.take([received(X, 20), StateWanted(X, "bank", 2, Z, 0)])
    given = give_all(world.a, world.at_a)
    assert [(each[5], each[7]) for each in given] == [(0, False), (1, False), (2, True)]
    world.at_b.take([view(Z, 2, X, Z), received(Z, 20)])
    world.at_b.take([StateChunk(Z, "bank", each[5], each[6]) for each in given])  # type: ignore[arg-type]
    world.at_b.take([StateDone(Z, "bank", 2)])
    assert (world.all.ledger.cases, world.all.ledger.problems) == (1, [])
    world.at_b.take([view(Z, 3, Z)])
    world.at_a.take([StateWanted(X, "bank", 2, Z, 2)])
    assert give_all(world.a, world.at_a) == given[2:]


def test_a_state_that_lacks_a_cast_is_found() -> None:
    world = World()
    world.at_a.take([view(X, 1, X), received(X, 1), view(X, 2, X, Z), StateWanted(X, "bank", 2, Z, 0)])
    ((*_, data, _),) = give_all(world.a, world.at_a)
    world.at_b.take([view(Z, 2, X, Z)])
    world.at_b.take([StateChunk(Z, "bank", 0, b"0 1 1;"), StateDone(Z, "bank", 2)])
    assert data == b"0 1 1;1:1:1"
    assert world.all.ledger.problems == [
        "view 2 of bank: 1:1:1 has the state of 0 casts, 0:1:1 that of 1; they differ in 1:1:1"
    ]


def test_a_transfer_that_ended_early_is_not_compared_and_state_waits_for_the_own_transfer() -> None:
    world = World()
    world.at_b.take([view(Z, 2, X, Z), StateWanted(Z, "bank", 2, X, 0)])
    assert world.at_b.wants_turn_at is None
    world.at_b.take([StateChunk(Z, "bank", 0, b"0 2 1;1:1:1"), StateDone(Z, "bank", 2)])
    assert [each[6] for each in give_all(world.b, world.at_b)] == [b"0 1 0;1:1:1"]
    world.at_a.take([view(X, 2, X, Z), StateChunk(X, "bank", 0, b"0 1 0;1:1:1"), StateDone(X, "bank", 2)])
    assert (world.all.ledger.cases, world.all.ledger.problems) == (0, [])


def test_it_forgets_the_state_of_a_group_that_it_left() -> None:
    world = World()
    world.at_a.take([view(X, 1, X), received(X, 1), LeftGroup(X, "bank"), received(X, 2), view(X, 5, X)])
    world.at_a.take([StateWanted(X, "bank", 5, Z, 0)])
    assert [each[6] for each in give_all(world.a, world.at_a)] == [b"0 1 1;"]
    world.at_a.take([LeftGroup(X, "bank"), StateChunk(X, "bank", 0, b"0 1 1;"), StateDone(X, "bank", 5)])
