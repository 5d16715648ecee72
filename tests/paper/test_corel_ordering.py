"""COReL, sections 5.1 and 5.2: reliable multicast, Order Rule 1 and the colours, one test for each sentence."""

from itertools import combinations

import pytest
from tests.corel.by_hand import Replicas, Said
from tests.paper.test_corel_invariants import Walk

from reconvene.corel.events import Accepted, Color, Green, Logged, Recolored
from reconvene.corel.keeping.layout import ACCEPTED, GREEN, RED, YELLOW, decode_place, table_end
from reconvene.corel.keeping.load import load_record
from reconvene.corel.messages import Ack, Commit, Data, Ready, State
from reconvene.quorum import Spec


def together(names: str = "pqr") -> Replicas:
    world = Replicas(names)
    world.view(*names)
    world.run()
    assert all(world.log(name).primary == 1 for name in names)
    return world


def by_hand(world: Replicas, *names: str) -> None:
    """From now on these deliver and sync only on command."""
    world.slow |= set(names)
    world.held |= set(names)


def say(world: Replicas, author: str, *texts: str) -> None:
    """Appends the message, syncs it and sends it."""
    for text in texts:
        world.append(author, text)
        world.sync(author)


def keys(world: Replicas, name: str, *tables: bytes) -> int:
    return sum(len(list(world.tables[name].keys(table, table_end(table)))) for table in tables)


# -- 5.1


def test_accepted_when_it_is_on_stable_storage() -> None:
    """5.1: a message is stored when it is received from the application, before the sending is complete."""
    world = together()
    by_hand(world, "p")
    world.append("p", "1")
    assert not any(isinstance(event, Accepted) for event in world.events["p"])
    assert "1" not in world.texts_said(world.conf("p"))
    world.sync("p")
    assert any(isinstance(event, Accepted) for event in world.events["p"])
    assert world.texts_said(world.conf("p")) == ["1"]


def test_acknowledged_after_it_is_written() -> None:
    """5.1: a process acknowledges a message after it is written to stable storage."""
    world = together()
    by_hand(world, "q")
    world.append("p", "1")
    world.run()
    world.deliver("q")
    assert all(sender != "q" for sender, _ in world.said(world.conf("q"), Ack))
    world.sync("q")
    assert ("q", Ack(1, 0)) in world.said(world.conf("q"), Ack)


def test_acknowledgements_ride_on_messages() -> None:
    """5.1: acknowledgements may be piggybacked on regular messages; they are cumulative."""
    world = together()
    by_hand(world, "q")
    world.append("p", "1", "2")
    world.run()
    world.deliver("q")
    world.append("q", "3")
    world.sync_at_once("q")
    conf = world.conf("q")
    assert [said.acknowledged for sender, said in world.said(conf, Data) if isinstance(said, Data)] == [0, 0, 2]
    assert all(sender != "q" for sender, _ in world.said(conf, Ack))


def test_a_crash_before_the_sending_loses_nothing() -> None:
    """5.1: a message that was stored and not sent is recovered by its author."""
    world = together()
    by_hand(world, "p")
    world.append("p", "1")
    world.lives["p"].conf = None  # its messages reach no other site from now on
    world.sync("p")
    world.crash("p")
    world.view("q", "r")
    world.run()
    world.slow.clear()
    world.held.clear()
    world.start("p")
    world.view("p", "q", "r")
    world.run()
    assert [world.queue(name) for name in "pqr"] == ["1 |  | "] * 3


def test_a_message_acknowledged_below_only_may_be_lost() -> None:
    """5.1: a message that was received but not yet logged is lost in a crash, so it was not acknowledged."""
    world = together()
    by_hand(world, "q")
    world.append("p", "1")
    world.run()
    world.deliver("q")
    world.crash("q")
    world.start("q")
    assert world.queue("q") == " |  | "
    assert all(world.queue(name) == " | 1 | " for name in "pr"), "nobody may take it for green"


def _durable(world: Replicas, said: Said) -> None:
    """What a message says about its sender is on stable storage at the sender."""
    name, content = said.sender, said.content
    record = load_record(world.tables[name])
    if isinstance(content, Data):
        assert keys(world, name, ACCEPTED), "sent before it was stored"
    elif isinstance(content, Ready) and content.primary:
        assert record.last_attempted_primary == content.primary
    elif isinstance(content, Commit):
        assert record.last_committed_primary == content.primary
        assert not keys(world, name, RED), "red though it committed"
    elif isinstance(content, State):
        assert record.last_committed_primary == content.last_committed_primary
        assert record.last_attempted_primary == content.last_attempted_primary
        assert sum(content.has.values()) == sum(
            decode_place(value).count
            for table in (GREEN, YELLOW, RED)
            for _, value in world.tables[name].scan(table, table_end(table))
        )


@pytest.mark.parametrize("seed", range(300, 325))
def test_nothing_is_said_before_it_is_durable(seed: int) -> None:
    """5.1, figure 3.6: holds in random walks for all messages of replicas: state, attempt, commit and regular
    ones."""
    walk = Walk(seed)
    walk.world.on_said = lambda said: _durable(walk.world, said)
    walk.run()


# -- 5.2


def test_logged_with_its_timestamp() -> None:
    """5.2: a message is written along with the timestamp with which it was delivered."""
    world = together()
    world.append("p", "1")
    world.run()
    stamps = {event.timestamp for name in "pqr" for event in world.events[name] if isinstance(event, Logged)}
    places = [said.timestamp for said in world.conf("p").stream if isinstance(said.content, Data)]
    assert stamps == {(*places[0], 0)}


def test_a_message_sent_again_keeps_its_timestamp() -> None:
    """5.2: the timestamp of the original transmission is the only one used."""
    world = together("pqrst")
    world.view("p", "q", "r")
    world.view("s", "t")
    world.run()
    world.append("s", "x")
    world.append("p", "1")
    world.run()
    world.view(*"pqrst")
    world.run()
    stamps: dict[object, set[object]] = {}
    for name in "pqrst":
        for event in world.events[name]:
            if isinstance(event, Logged):
                stamps.setdefault(event.batch.id, set()).add(event.timestamp)
    assert [len(found) for found in stamps.values()] == [1, 1]


def test_a_majority_orders_by_timestamp() -> None:
    """5.2: within a majority component messages are ordered according to their timestamps."""
    world = together()
    by_hand(world, *"pqr")
    say(world, "q", "1")
    say(world, "p", "2")
    say(world, "q", "3")
    world.slow.clear()
    world.held.clear()
    world.run()
    assert [world.queue(name) for name in "pqr"] == ["1 2 3 |  | "] * 3


def test_the_majority_comes_first() -> None:
    """5.2: messages of a majority come before concurrent ones of a minority, whatever their timestamps."""
    world = together()
    world.view("r")
    world.view("p", "q")
    world.run()
    world.append("r", "x")
    world.append("p", "1")
    world.run()
    early, late = (
        next(event.timestamp for event in world.events[name] if isinstance(event, Logged)) for name in ("r", "p")
    )
    assert early < late
    world.view("p", "q", "r")
    world.run()
    assert [world.queue(name) for name in "pqr"] == ["1 x |  | "] * 3


@pytest.mark.parametrize("silent", "pqr")
def test_order_rule_1(silent: str) -> None:
    """5.2, Order Rule 1: a message acknowledged by all members but one is green nowhere; acknowledged by all, it
    is."""
    world = together()
    by_hand(world, silent)
    world.append("p", "1")
    world.run()
    if silent == "p":
        world.sync("p")
        world.run()
    else:
        world.deliver(silent)
    assert all(not world.green(name) for name in "pqr")
    assert all(world.queue(name) == " | 1 | " for name in "pqr" if name != silent)
    world.held.clear()
    world.slow.clear()
    world.run()
    assert [world.queue(name) for name in "pqr"] == ["1 |  | "] * 3


def test_two_communication_rounds() -> None:
    """1, 6: in a stable primary component a message is green once it and its acknowledgements were each sent once."""
    world = together()
    world.slow.clear()
    world.held |= set("pqr")
    conf = world.conf("p")
    start = len(conf.stream)
    world.append("p", "1")
    first = len(conf.stream)
    for name in "pqr":
        world.deliver(name, first - start)
    second = len(conf.stream)
    assert all(not world.green(name) for name in "pqr")
    for name in "pqr":
        world.deliver(name, second - first)
    assert [world.queue(name) for name in "pqr"] == ["1 |  | "] * 3
    assert len(conf.stream) == second, "nothing more had to be said"


def test_an_acknowledgement_of_an_earlier_configuration_counts_for_nothing() -> None:
    """5.2: rule 1 is about the members of the current primary component: an acknowledgement after its end is too
    late."""
    world = together()
    by_hand(world, *"pqr")
    say(world, "p", "1")
    for name in "pqr":
        world.deliver(name, 1)
        world.sync(name)
    world.view("p")  # its own acknowledgement arrives in the transitional configuration
    assert world.queue("p") == " | 1 | "
    world.view("q", "r")
    for name in "qr":
        assert world.queue(name) == " | 1 | "


# -- 5.2.1


def test_yellow_is_what_was_acknowledged_in_a_primary_component() -> None:
    """5.2.1: a message received and acknowledged in the context of a primary component is yellow; any other is
    red."""
    world = together()
    world.view("p", "q")
    world.view("r")
    world.run()
    by_hand(world, "q")
    world.append("p", "1")
    world.append("r", "x")
    world.run()
    assert world.queue("p") == " | 1 | "
    assert world.queue("r") == " |  | x"


def test_yellow_precedes_red() -> None:
    """5.2.1: a green prefix, a yellow zone, a red suffix: messages after the primary component are in the suffix."""
    world = together()
    world.append("p", "1")
    world.run()
    by_hand(world, "q", "r")
    world.append("p", "2")
    world.run("p")
    world.view("p")
    world.run("p")
    world.append("p", "3")
    world.run("p")
    assert world.queue("p") == "1 | 2 | 3"


def test_everything_is_green_after_recovery() -> None:
    """5.2.1: after recovery (of a majority) all messages in the queue are green."""
    world = together("pqrst")
    for name in "pqrst":
        world.view(name)
    world.run()
    for name in "pqrst":
        world.append(name, f"{name}1", f"{name}2")
    world.run()
    assert all(world.queue(name) == f" |  | {name}1 {name}2" for name in "pqrst")
    world.view("q", "s", "t")
    world.run()
    assert all(world.queue(name) == "q1 q2 s1 s2 t1 t2 |  | " for name in "qst")


def test_green_is_told_once_and_in_place() -> None:
    """5.2.1, 5.4: positions grow by one; a message is reported green once."""
    world = together()
    world.append("p", "1", "2")
    world.append("q", "3")
    world.run()
    for name in "pqr":
        greens = [event for event in world.events[name] if isinstance(event, Green)]
        assert [event.position for event in greens] == [0, 1, 2]
        yellows = [event for event in world.events[name] if isinstance(event, Recolored)]
        assert {event.color for event in yellows} == {Color.YELLOW}


def test_messages_are_identified_by_author_and_counter() -> None:
    """5.2: sender and counter are the id of a message: counters continue after a crash, and no message occurs
    twice."""
    world = together()
    world.append("p", "1", "2")
    world.run()
    world.crash("p")
    world.start("p")
    world.view("p")
    world.run()
    world.append("p", "3")
    world.view("p", "q", "r")
    world.run()
    counters = [heading.first for _, heading in world.log("r").read(0)]
    assert counters == [1, 2, 3]
    assert [world.queue(name) for name in "pqr"] == ["1 2 3 |  | "] * 3


# -- 6: quorums

MAJORITY: Spec = {"kind": "majority"}
WEIGHTED: Spec = {"kind": "weighted", "weights": {"a": 3, "b": 1, "c": 1, "d": 2}}
GRID: Spec = {"kind": "grid", "rows": [["a", "b"], ["c", "d"]]}
SETS = ["".join(some) for size in (1, 2, 3, 4) for some in combinations("abcd", size)]
RIGHT = {
    "majority": {"abc", "abd", "acd", "bcd", "abcd"},
    "weighted": {"ab", "ac", "ad", "abc", "abd", "acd", "bcd", "abcd"},
    "grid": {"abc", "abd", "acd", "bcd", "abcd"},
}


@pytest.mark.parametrize("spec", [MAJORITY, WEIGHTED, GRID], ids=lambda spec: str(spec["kind"]))
def test_only_quorums_order(spec: Spec) -> None:
    """6: the concept of majority can be generalized to quorums. A set of sites orders exactly if it is a quorum."""
    right = RIGHT[str(spec["kind"])]
    ordered = set()
    for some in SETS:
        world = Replicas("abcd", quorum=spec)
        world.view(*some)
        world.append(some[0], "1")
        world.run()
        if world.queue(some[-1]) == "1 |  | ":
            ordered.add(some)
        else:
            assert all(world.queue(name) == " |  | 1" for name in some), "accepted, durable, red"
    assert ordered == right


def test_priority_and_red_messages_are_only_said_in_recovery() -> None:
    """5.5: nothing is sent again where no member lacks a message."""
    world = together()
    world.append("p", "1")
    world.run()
    conf = world.view("p", "q", "r")
    world.run()
    assert {type(said.content) for said in conf.stream} == {State, Ready, Commit}
