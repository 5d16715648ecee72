"""COReL, section 5.5.2: the recovery procedure, step by step, and the retransmission rule (figure 3.7).

Most tests have five sites, of which two or three merge: without a majority, the result of recovery can be seen.
"""

from tests.corel.by_hand import Conf, Replicas
from tests.paper.test_corel_ordering import by_hand, say, together
from tests.paper.test_corel_view_changes import open_hands

from reconvene.corel.events import Adopted, Attempted, Color, Green, Logged, Recolored
from reconvene.corel.keeping.load import load_record
from reconvene.corel.messages import Claims, Commit, Priority, Ready, Reds, State


def state_of(world: Replicas, conf: Conf, name: str) -> State:
    return next(said for sender, said in world.said(conf, State) if sender == name and isinstance(said, State))


def apart(world: Replicas, *names: str) -> None:
    """Five sites, each alone and at rest."""
    for name in names or world.names:
        world.view(name)
    world.run()


def recolored(world: Replicas, name: str, color: Color) -> list[str]:
    events = [event for event in world.events[name] if isinstance(event, Recolored) and event.color is color]
    return [world.text(name, event.batch) for event in events]


def uneven(*delivered: int, acknowledged: bool = False) -> Replicas:
    """p, q and r were a primary component of five. p sent 1 2 3, of which each has so many, yellow. All are alone
    now.

    `acknowledged`: p knows what the others have."""
    world = together("pqrst")
    world.view("s", "t")
    world.view("p", "q", "r")
    world.run()
    by_hand(world, "p", "q", "r")
    say(world, "p", "1", "2", "3")
    for name, count in zip("pqr", delivered, strict=True):
        world.deliver(name, count)
        world.sync(name)
    if acknowledged:
        world.deliver("p")
    for name in "pqr":
        world.lives[name].writes.clear()
        world.view(name)
    open_hands(world)
    world.run()
    return world


# -- steps 1 and 2


def test_step_1_what_a_state_message_says() -> None:
    """1: both numbers, the last message received from each process, the green line, the yellow line."""
    world = uneven(3, 2, 1)
    conf = world.view("q", "s")
    world.run()
    state = state_of(world, conf, "q")
    assert (state.last_committed_primary, state.last_attempted_primary) == (2, 2)
    assert state.has == {0: 2}
    assert (state.green, state.yellow) == (0, 2)
    state = state_of(world, conf, "s")
    assert (state.last_committed_primary, state.last_attempted_primary, state.has) == (1, 1, {})


def test_step_1_what_was_accepted_and_not_logged_is_not_had() -> None:
    """1, note 4: *has* means on stable storage with a timestamp: a process does not have its own message before it is
    delivered to it."""
    world = together()
    by_hand(world, *"pqr")
    world.append("p", "1")
    world.sync("p")
    world.crash("p")
    open_hands(world)
    world.start("p")
    conf = world.view("p")
    world.run()
    assert state_of(world, conf, "p").has == {}
    assert world.queue("p") == " |  | 1", "it was sent again, after recovery"


def test_step_2_waits_for_all_state_messages() -> None:
    """2: wait for state messages from all the other members."""
    world = together()
    world.held.add("r")
    world.slow.add("r")
    world.append("p", "1")
    world.run()
    world.deliver("r")  # its state is still being written, so no other site knows it yet
    conf = world.view("p", "q", "r")
    world.run()
    assert [sender for sender, _ in world.said(conf, State)] == ["p", "q"]
    assert not world.said(conf, Ready)
    open_hands(world)
    world.run()
    assert [sender for sender, _ in world.said(conf, State)] == ["p", "q", "r"]
    assert [world.queue(name) for name in "pqr"] == ["1 |  | "] * 3


# -- step 3


def test_step_3_green_is_the_highest_line() -> None:
    """3: the representatives mark as green what any member has green."""
    world = uneven(3, 3, 3, acknowledged=True)
    assert (world.queue("p"), world.queue("q")) == ("1 2 3 |  | ", " | 1 2 3 | ")
    world.view("q", "p")
    world.run()
    assert world.queue("q") == "1 2 3 |  | "
    assert not world.log("q").primary, "in a minority: recovery did it"
    assert [event.position for event in world.events["q"] if isinstance(event, Green)] == [0, 1, 2]


def test_step_3_yellow_is_the_lowest_line() -> None:
    """3: yellow lines retreat to what all representatives have yellow; the rest becomes red."""
    world = uneven(3, 2, 1)
    assert [world.queue(name) for name in "pqr"] == [" | 1 2 3 | ", " | 1 2 | ", " | 1 | "]
    world.view("p", "q")
    world.run()
    assert world.queue("p") == world.queue("q") == " | 1 2 | 3"
    assert recolored(world, "p", Color.RED) == ["3"]


def test_step_3_red_along_with_all_that_follows() -> None:
    """3: p changes m to red along with any messages that follow m in its queue."""
    world = uneven(3, 2, 1)
    world.view("p", "r")
    world.run()
    assert world.queue("p") == world.queue("r") == " | 1 | 2 3"
    assert recolored(world, "p", Color.RED) == ["2", "3"]


def test_step_3_who_does_not_know_the_last_primary_component_has_no_say() -> None:
    """3: only representatives count: s has nothing of the component, and no line retreats because of it."""
    world = uneven(3, 2, 1)
    world.view("p", "s", "t")
    world.deliver("p", 3)
    assert world.queue("p") == " | 1 2 3 | "
    world.run()
    assert [world.queue(name) for name in "pst"] == ["1 2 3 |  | "] * 3
    assert recolored(world, "p", Color.RED) == []


def test_step_3_a_retreat_survives_a_crash() -> None:
    """3, 5.4 Yellow: a line that retreated is durable before anything depends on it."""
    world = uneven(3, 2, 1)
    world.view("p", "r")
    world.run()
    world.crash("p")
    world.start("p")
    assert world.queue("p") == " | 1 | 2 3"


# -- step 4


def test_step_4_all_representatives_go_to_step_7() -> None:
    """4: if all have the same last committed primary component, no messages have priority."""
    world = uneven(3, 2, 1)
    conf = world.view("p", "q")
    world.run()
    assert not world.said(conf, Priority)
    assert world.sent_again(conf, Reds) == [("p", "3", True)]


def test_step_4_one_representative() -> None:
    """4: a unique representative, the same for all: the first that knows the last primary component."""
    world = uneven(3, 3, 3)
    conf = world.view("q", "r", "s")
    world.run()
    assert {sender for sender, _ in world.said(conf, Priority)} == {"q"}
    assert world.queue("s") == "1 2 3 |  | "


# -- step 5


def test_step_5_sends_what_follows_the_common_green_prefix() -> None:
    """5: the representative sends its green and yellow messages after what is green at all; it does not send red
    ones."""
    world = together("pqrst")
    world.append("p", "1", "2")
    world.run()
    world.view("s", "t")
    world.view("p", "q", "r")
    world.run()
    world.append("p", "3")
    world.run()
    apart(world, "p", "q", "r")
    world.append("p", "4")
    world.run()
    assert world.queue("p") == "1 2 3 |  | 4"
    conf = world.view("p", "s")
    world.run()
    assert world.sent_again(conf, Priority) == [("p", "3", True)]
    assert world.sent_again(conf, Reds) == [("p", "4", True)]
    assert world.queue("s") == "1 2 3 |  | 4"


def test_step_5_header_only_of_what_all_have() -> None:
    """5: component_stable messages are sent as a header only, the others with their data."""
    world = together("pqrst")
    world.view("r", "s")
    world.run()
    world.append("s", "m")
    world.run()
    world.view("s")
    world.view("p", "q", "r")
    world.run()
    world.append("q", "n")
    world.run()
    assert world.queue("r") == "m n |  | "
    assert world.queue("s") == " |  | m"
    conf = world.view("r", "s")
    world.run()
    assert world.sent_again(conf, Priority) == [("r", "m", False), ("r", "n", True)]
    assert world.queue("s") == "m n |  | "


def test_step_5_the_representatives_order_is_adopted() -> None:
    """5, note 5: a member that has these messages in another order takes the order of the representative."""
    world = together("pqrst")
    apart(world)
    world.append("s", "a")
    world.append("t", "b")
    world.run()
    world.view("r", "t")
    world.run()
    world.view("t")
    world.view("p", "q", "r")
    world.run()
    assert world.queue("r") == "b |  | "
    world.view("s", "t")
    world.run()
    assert world.queue("t") == " |  | a b", "by timestamp"
    conf = world.view("r", "t")
    world.run()
    assert world.sent_again(conf, Priority) == [("r", "b", False)]
    assert world.queue("r") == world.queue("t") == "b |  | a"


def test_step_5_priority_messages_lie_ahead_of_all_others() -> None:
    """5: following the green prefix, and ahead of any other messages, whatever the timestamps."""
    world = together("pqrst")
    world.view("s")
    world.view("p", "q", "r")
    world.run()
    world.append("s", "x")
    world.run()
    by_hand(world, "q", "r")
    say(world, "p", "1")
    for name in "qr":
        world.deliver(name, 1)
        world.sync(name)
    open_hands(world)
    apart(world, "q", "r", "p")
    assert world.queue("q") == " | 1 | "
    world.view("q", "s")
    world.run()
    assert world.queue("q") == world.queue("s") == " | 1 | x"


def test_step_5_the_order_of_the_yellow_zone_is_adopted() -> None:
    """5: a message that a commit put after older yellow messages stays there, though its timestamp is lower."""
    world = together("pqrst")
    world.view("t")
    world.append("t", "x")
    world.run()
    world.view("p", "q", "r")
    world.run()
    world.held |= {"q", "r"}
    world.append("p", "1")
    world.run()
    for name in "qr":
        world.deliver(name, 1)
    open_hands(world)
    apart(world, "q", "r", "p")
    conf = world.view("p", "q", "t")
    world.held.add("q")
    world.run()
    world.deliver_until("q", lambda said: isinstance(said.content, Ready))
    world.run()
    assert [sender for sender, _ in world.said(conf, Commit)] == ["p", "t"]
    open_hands(world)
    world.view("p", "s")
    world.run()
    assert world.queue("p") == world.queue("s") == " | 1 x | "


# -- step 6


def behind() -> Replicas:
    """s knows of primary component 3. p knows of 2, in which 5 is yellow at p alone; y, older, is red at p."""
    world = together("pqrst")
    world.view("t")
    world.append("t", "y")
    world.run()
    world.view("p", "q", "r")
    world.run()
    by_hand(world, "p", "q", "r")
    say(world, "p", "5")
    world.deliver("p")
    world.sync("p")
    open_hands(world)
    world.view("p")
    world.view("q", "r", "s")
    world.run()
    world.append("q", "6")
    world.run()
    world.view("p", "t")
    world.run()
    assert world.queue("p") == " | 5 | y"
    assert world.queue("s") == "6 |  | "
    return world


def test_step_6_yellow_that_was_not_sent_again_is_red() -> None:
    """6: such messages become red, and stand in the red part in the order of timestamps."""
    world = behind()
    world.view("p", "s")
    world.run()
    assert world.queue("p") == world.queue("s") == "6 |  | y 5"
    assert recolored(world, "p", Color.RED) == ["5"]


def test_step_6_sets_last_committed_primary() -> None:
    """6: Last_Committed_Primary becomes Max_Committed, on stable storage."""
    world = behind()
    assert load_record(world.tables["p"]).last_committed_primary == 2
    world.view("p", "s")
    world.run()
    assert load_record(world.tables["p"]).last_committed_primary == 3
    assert [event.primary for event in world.events["p"] if isinstance(event, Adopted)] == [3]


def test_step_6_sets_the_lines_by_the_representative() -> None:
    """6: the yellow line is the last retransmitted message."""
    world = uneven(3, 2, 1)
    world.view("q", "s")
    world.run()
    assert world.queue("s") == world.queue("q") == " | 1 2 | "
    assert recolored(world, "s", Color.YELLOW) == ["1", "2"]


def test_step_6_is_one_atomic_step() -> None:
    """6: after a crash all of it is on stable storage, or nothing."""
    seen = set()
    for synced in range(6):
        world = behind()
        world.view("p", "s")
        by_hand(world, "p")
        world.run()
        world.deliver("p", 2)
        world.sync("p")
        world.run("s")
        world.deliver("p")
        world.sync("p", synced)
        world.crash("p")
        world.start("p")
        known = load_record(world.tables["p"]).last_committed_primary
        seen.add((known, world.queue("p").split(" | ", 1)[1]))
    assert seen == {(2, "5 | y"), (3, " | y 5")}


# -- step 7


def test_step_7_each_message_is_sent_again_by_one() -> None:
    """7: messages that not all have are retransmitted, each by at most one process, and no others."""
    world = together("pqrst")
    world.view("p", "q")
    world.view("s", "t")
    world.run()
    world.append("q", "1")
    world.append("t", "x", "y")
    world.run()
    world.view("q", "t")
    world.run()
    conf = world.view(*"pqst")
    world.run()
    assert world.sent_again(conf, Reds) == [("p", "1", True), ("q", "x", True), ("q", "y", True)]


def test_step_7_concurrent_messages_are_interleaved_by_timestamp() -> None:
    """7: retransmitted messages of different processes stand in the order of their original timestamps."""
    world = together("pqrst")
    for text in ("1", "2"):
        for name in "ts":
            world.view(name)
            world.append(name, f"{name}{text}")
            world.run()
    assert (world.queue("s"), world.queue("t")) == (" |  | s1 s2", " |  | t1 t2")
    world.view("s", "t")
    world.run()
    assert world.queue("s") == world.queue("t") == " |  | t1 s1 t2 s2"


def chained() -> tuple[Replicas, Conf]:
    """q and r have m; r alone has n, which follows it. They merge with p, which has neither; none has sent anything
    yet."""
    world = together("pqrst")
    world.view("q", "r")
    world.run()
    world.append("q", "m")
    world.run()
    world.view("r")
    world.run()
    world.append("r", "n")
    world.run()
    conf = world.view("p", "q", "r")
    by_hand(world, "p", "q", "r")
    return world, conf


def test_retransmission_rule_waits_for_what_another_has_to_send() -> None:
    """3.7: r has to send n, and does not before it has received m, which q has to send."""
    world, conf = chained()
    world.deliver("r")
    world.sync("r")
    world.turn("r")
    assert len(world.said(conf, State)) == 3
    assert world.sent_again(conf, Reds) == []
    world.deliver("q")
    world.sync("q")
    assert world.sent_again(conf, Reds) == [("q", "m", True)]
    world.deliver("r")
    world.sync("r")
    assert world.sent_again(conf, Reds) == [("q", "m", True), ("r", "n", True)]


def test_retransmission_rule_keeps_a_senders_order() -> None:
    """3.7: if p has to retransmit m and m', which follows it, p retransmits m first, whatever their authors."""
    world = together("pqrst")
    world.view("s", "t")
    world.run()
    for author, text in (("t", "1"), ("s", "2"), ("t", "3"), ("s", "4")):
        world.append(author, text)
        world.run()
    world.view("t")
    conf = world.view("p", "s")
    world.run()
    assert world.sent_again(conf, Reds) == [("s", text, True) for text in "1234"]
    assert world.queue("p") == " |  | 1 2 3 4"


def test_causal_though_recovery_was_cut_short() -> None:
    """3.7, 5.4 Causal: a process that received only some of them has, with each message, all that precede it."""
    for reached in range(10):
        world, conf = chained()
        world.slow -= {"p", "q", "r"}
        world.held -= {"q", "r"}
        for _ in range(20):
            world.run()
        world.deliver("p", min(reached, len(conf.stream)))
        world.view("p")
        world.run()
        assert world.queue("p") in (" |  | ", " |  | m", " |  | m n", " | m n | ", "m n |  | ")


# -- the end of the procedure


def test_a_run_that_was_cut_short_is_not_undone() -> None:
    """5.5.2, Note: the procedure starts again for the new view; what was received so far is kept."""
    world, conf = chained()
    world.deliver("q")
    world.sync("q")
    world.deliver("p")
    world.sync("p")
    assert world.queue("p") == " |  | m"
    open_hands(world)
    world.view("p")
    world.run()
    assert world.queue("p") == " |  | m"
    conf = world.view("p", "r")
    world.run()
    assert world.sent_again(conf, Reds) == [("r", "n", True)], "m need not be sent again"


def test_a_majority_establishes_after_recovery() -> None:
    """5.5.2: after receiving all of the retransmitted messages, if it is a majority, they try to establish."""
    world, conf = chained()
    for name in "pqr":
        world.deliver(name)
        world.sync(name)
    assert [sender for sender, _ in world.said(conf, Ready)] == ["r"], "not before: only r has everything"
    open_hands(world)
    world.run()
    kinds = [type(said.content) for said in conf.stream]
    assert kinds.index(Ready) > kinds.index(Reds)
    assert [world.queue(name) for name in "pqr"] == ["m n |  | "] * 3
    assert any(isinstance(event, Attempted) and event.conf == conf.name for event in world.events["p"])


def test_a_message_sent_twice_keeps_its_lowest_timestamp() -> None:
    """5.2, beyond the paper: an author that crashed before it logged its message sends it again; all keep one."""
    world = together("pqrst")
    world.view("s", "t")
    world.run()
    by_hand(world, "s")
    world.append("s", "x")
    world.sync("s")
    world.run()
    assert (world.queue("t"), world.accepted("s")) == (" |  | x", ["x"])
    first = next(event.timestamp for event in world.events["t"] if isinstance(event, Logged))
    world.crash("s")
    open_hands(world)
    world.start("s")
    world.view("t")
    world.view("s")
    world.run()
    again = next(event.timestamp for event in world.events["s"] if isinstance(event, Logged))
    assert again > first
    conf = world.view("s", "t")
    world.run()
    assert world.said(conf, Claims)
    stamps = {name: [entry.timestamp for entry in world.log(name).queue.red] for name in "st"}
    assert stamps == {"s": [first], "t": [first]}
