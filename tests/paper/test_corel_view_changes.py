"""COReL, section 5.5: the view change handler (figure 3.5) and establishing a primary component (figure 3.6)."""

import pytest
from tests.corel.by_hand import Replicas
from tests.paper.test_corel_ordering import by_hand, together

from reconvene.corel.events import Accepted, Attempted, Committed, Established, PrimaryLost
from reconvene.corel.keeping.layout import RED, YELLOW, table_end
from reconvene.corel.keeping.load import load_record
from reconvene.corel.messages import Commit, Data, Ready, State


def readys(world: Replicas, name: str) -> list[int]:
    return [said.primary for sender, said in world.said(world.conf(name), Ready) if isinstance(said, Ready)]


def numbers(world: Replicas, name: str, kind: type[Attempted | Committed | Established]) -> list[int]:
    return [event.primary for event in world.events[name] if isinstance(event, kind)]


def at_attempt(world: Replicas, *members: str) -> None:
    """Sites that have recovered and sent their attempt messages; none has been delivered."""
    world.view(*members)
    by_hand(world, *members)
    for name in members:
        world.deliver(name, len(members))
        world.sync(name)
    for name in members:
        world.sync(name)
        assert readys(world, name) == [readys(world, name)[0]] * len(members)


def open_hands(world: Replicas) -> None:
    world.slow.clear()
    world.held.clear()


# -- figure 3.5


def test_the_primary_component_bit_is_false_from_the_change_on() -> None:
    """3.5: set to FALSE when a view change is delivered, and to TRUE only when a primary component is established."""
    world = together()
    by_hand(world, *"pqr")
    world.view("p", "q")
    assert world.log("p").primary == world.log("q").primary == 0
    assert any(isinstance(event, PrimaryLost) for event in world.events["p"])
    open_hands(world)
    world.run()
    assert world.log("p").primary == world.log("q").primary == 2


def test_what_comes_after_the_bit_is_false_is_red() -> None:
    """3.5: a message of the old view that is delivered once the bit is FALSE is not yellow."""
    world = together()
    by_hand(world, *"pqr")
    world.append("p", "1")
    world.sync("p")
    world.view("p")
    open_hands(world)
    world.run()
    assert world.queue("p") == " |  | 1"


def test_no_regular_messages_while_the_handler_runs() -> None:
    """3.5: stop sending regular messages; what applications append meanwhile is accepted, and sent afterwards."""
    world = together()
    conf = world.view("p", "q", "r")
    world.held.add("r")
    world.run()
    world.append("p", "1")
    world.run()
    assert any(isinstance(event, Accepted) for event in world.events["p"]), "accepted during recovery, durable"
    assert world.texts_said(conf) == []
    world.held.clear()
    world.run()
    kinds = [type(said.content) for said in conf.stream]
    assert kinds.index(Data) > max(place for place, kind in enumerate(kinds) if kind in (State, Ready))
    assert [world.queue(name) for name in "pqr"] == ["1 |  | "] * 3


def test_recovery_for_every_view() -> None:
    """3.5, deviation: also in a view without new members the handler begins with state messages."""
    world = together()
    conf = world.view("p", "q")
    world.run()
    assert [sender for sender, _ in world.said(conf, State)] == ["p", "q"]


def test_a_minority_goes_on_without_a_primary_component() -> None:
    """3.5: establishing is for a majority; others continue handling and sending regular messages."""
    world = together()
    conf = world.view("r")
    world.run()
    world.append("r", "x")
    world.run()
    assert readys(world, "r") == [0]
    assert not world.said(conf, Commit)
    assert world.queue("r") == " |  | x"
    assert numbers(world, "r", Attempted) == [1]


# -- figure 3.6


def test_new_primary_is_one_above_the_last_attempt_of_anyone() -> None:
    """3.6: New_Primary = max (Last_Attempted_Primary) + 1, not max (Last_Committed_Primary) + 1."""
    world = together("pqrst")
    at_attempt(world, "p", "q", "r")
    assert numbers(world, "p", Attempted) == [1, 2]
    open_hands(world)
    world.view("p", "s", "t")
    world.run()
    assert world.log("s").primary == 3
    world.view("q", "r", "s")
    world.run()
    assert world.log("q").primary == 4


def test_phase_1_is_on_stable_storage_before_it_is_said() -> None:
    """3.6, phase 1: set Last_Attempted_Primary on stable storage, and send an attempt message."""
    world = together()
    world.view("p", "q", "r")
    by_hand(world, *"pqr")
    world.deliver("p", 3)
    assert world.log("p").record.last_attempted_primary == 2
    assert load_record(world.tables["p"]).last_attempted_primary == 1
    assert readys(world, "p") == []
    world.sync("p")
    assert load_record(world.tables["p"]).last_attempted_primary == 2
    assert readys(world, "p") == [2]


def test_phase_1_waits_for_all() -> None:
    """3.6, phase 1: wait for attempt messages from all members."""
    world = together()
    world.view("p", "q", "r")
    by_hand(world, "r")
    world.run()
    assert readys(world, "p") == [2, 2]
    assert numbers(world, "p", Committed) == numbers(world, "q", Committed) == [1]
    open_hands(world)
    world.run()
    assert world.log("p").primary == 2


def test_phase_2_is_one_write_before_it_is_said() -> None:
    """3.6, phase 2: Last_Committed_Primary and the yellow marks are on stable storage before the commit message."""
    world = Replicas("pqr")
    for name in "pqr":
        world.view(name)
        world.append(name, f"{name}1")
    world.run()
    at_attempt_with_reds(world)
    conf = world.conf("p")
    world.deliver_until("p", lambda said: isinstance(said.content, Commit))
    assert world.log("p").record.last_committed_primary == 1
    assert load_record(world.tables["p"]).last_committed_primary == 0
    assert len(world.lives["p"].writes) == 1, "one write for all of it"
    assert not world.said(conf, Commit)
    tables = world.tables["p"]
    assert (len(list(tables.keys(RED, table_end(RED)))), len(list(tables.keys(YELLOW, table_end(YELLOW))))) == (3, 0)
    world.sync("p")
    assert (len(list(tables.keys(RED, table_end(RED)))), len(list(tables.keys(YELLOW, table_end(YELLOW))))) == (0, 3)
    assert [sender for sender, _ in world.said(conf, Commit)] == ["p"]


def at_attempt_with_reds(world: Replicas) -> None:
    """Sites that have all sent attempt messages and exchanged their red messages."""
    world.view("p", "q", "r")
    by_hand(world, *"pqr")
    for _ in range(20):
        for name in "pqr":
            world.sync(name)
            world.deliver_until(name, lambda said: isinstance(said.content, Ready))
    assert readys(world, "p") == [1, 1, 1]


def test_phase_3_waits_for_all() -> None:
    """3.6, phase 3: a site establishes once commit messages from all members have arrived: the whole queue is
    green."""
    world = Replicas("pqr")
    for name in "pqr":
        world.view(name)
        world.append(name, f"{name}1")
    world.run()
    at_attempt_with_reds(world)
    world.held.remove("p")
    world.held.remove("q")
    world.slow.clear()
    world.run()
    for name in "pq":
        assert world.queue(name) == " | p1 q1 r1 | "
        assert not world.log(name).primary
    assert world.queue("r") == " |  | p1 q1 r1"
    open_hands(world)
    world.run()
    assert [world.queue(name) for name in "pqr"] == ["p1 q1 r1 |  | "] * 3
    assert world.log("p").primary == 1


def test_an_aborted_establishing_is_not_undone() -> None:
    """3.6: a view change aborts it. What was attempted, committed and yellow stays, through a crash too."""
    world = Replicas("pqr")
    for name in "pqr":
        world.view(name)
        world.append(name, f"{name}1")
    world.run()
    at_attempt_with_reds(world)
    world.held -= {"p", "q"}
    world.slow.clear()
    world.run()
    world.crash("p")
    world.start("p")
    world.view("p")
    world.view("q")
    world.view("r")
    open_hands(world)
    world.run()
    for name in "pq":
        record = load_record(world.tables[name])
        assert (record.last_attempted_primary, record.last_committed_primary) == (1, 1)
        assert world.queue(name) == " | p1 q1 r1 | "
    record = load_record(world.tables["r"])
    assert (record.last_attempted_primary, record.last_committed_primary) == (1, 0)
    assert numbers(world, "p", Established) == []
    world.view("q", "r")
    world.run()
    assert world.queue("q") == world.queue("r") == "p1 q1 r1 |  | "
    assert world.log("q").primary == 2


def test_the_three_phases_in_their_order() -> None:
    """3.6: attempt, commit, establish, each once and with the same number, members and view at all."""
    world = together()
    for name in "pqr":
        phases = [e for e in world.events[name] if isinstance(e, Attempted | Committed | Established)]
        assert [type(event) for event in phases] == [Attempted, Committed, Established]
        assert {(event.primary, event.conf, event.members) for event in phases} == {(1, "1", ("p", "q", "r"))}


@pytest.mark.parametrize("crashed", ["p", "q", "r", "pq", "pqr"])
def test_an_attempt_survives_a_crash(crashed: str) -> None:
    """3.6: the numbers are on stable storage: an attempt is never made twice under one number."""
    world = together()
    at_attempt(world, "p", "q", "r")
    for name in crashed:
        world.crash(name)
        world.start(name)
    open_hands(world)
    world.view("p", "q", "r")
    world.run()
    assert [world.log(name).primary for name in "pqr"] == [3, 3, 3]
    assert numbers(world, "q", Attempted) == [1, 2, 3]


def test_state_messages_come_first() -> None:
    """3.5, 5.5.2: state messages come in each view before any other message of the log."""
    world = together()
    conf = world.view("p", "r")
    world.run()
    assert [isinstance(said.content, State) for said in conf.stream] == [True, True] + [False] * (
        len(conf.stream) - 2
    )
