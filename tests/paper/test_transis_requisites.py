"""The Transis Approach, figure 2: the requisites of a partitionable group service; and figure 3."""

from collections.abc import Callable
from itertools import combinations, pairwise

import pytest
from tests.core.hand import Hand
from tests.paper.story import Story, stormy
from tests.sim.core_cluster import SimCluster
from tests.sim.core_service import Configuration, Message

from reconvene.core.effects import ConfKind

Make = Callable[..., SimCluster]


@pytest.fixture(params=["atop-21", "atop-22", "all-ack-21"])
def story(request: pytest.FixtureRequest) -> Story:
    order, _, seed = str(request.param).rpartition("-")
    return stormy(order, int(seed))


def test_self_inclusion(story: Story) -> None:
    """A local view at a machine always includes the machine itself; a hidden one too."""
    for node in story.cluster.nodes:
        assert all(node in conf.members for conf in story.cluster.configurations(node))


def test_same_order(story: Story) -> None:
    """View changes occur in the same order at all their overlapping members, hidden ones included."""
    for one, two in combinations(story.cluster.nodes, 2):
        mine = [conf.id for conf in story.cluster.configurations(one)]
        theirs = [conf.id for conf in story.cluster.configurations(two)]
        assert [conf for conf in mine if conf in theirs] == [conf for conf in theirs if conf in mine]


def views(story: Story, node: str) -> list[list[tuple[str, list[Message]]]]:
    """As in Transis: a view lasts until the next regular one, and includes the transition."""
    out: list[list[tuple[str, list[Message]]]] = []
    for life in story.lives(node):
        found: list[tuple[str, list[Message]]] = []
        for item in life:
            if isinstance(item, Message):
                found[-1][1].append(item)
            elif item.kind == "regular":
                found.append((item.id, []))
        out.append(found)
    return out


def test_virtual_synchrony(story: Story) -> None:
    """Between consecutive view changes the same set of messages is delivered by all machines that have both."""
    between: dict[tuple[str, str], set[frozenset[str]]] = {}
    shared = 0
    for node in story.cluster.nodes:
        for life in views(story, node):
            for (view, messages), (following, _) in pairwise(life):
                found = between.setdefault((view, following), set())
                shared += bool(found)
                found.add(frozenset(message.id for message in messages))
    assert shared > 5
    assert all(len(found) == 1 for found in between.values())


def test_multicast_requisites_agreed_and_safe(story: Story) -> None:
    """Agreed: any two messages that two machines both deliver come in the same order at both."""
    for one, two in combinations(story.cluster.nodes, 2):
        mine, theirs = (
            [message.id for message in story.cluster.deliveries(node) if message.service in ("agreed", "safe")]
            for node in (one, two)
        )
        both = set(mine) & set(theirs)
        assert [message for message in mine if message in both] == [message for message in theirs if message in both]


def test_uniformity(story: Story) -> None:
    """A view change reported to a member is reported to all its other members, regular or hidden, unless they
    crash."""
    reported: dict[str, set[str]] = {}
    members: dict[str, tuple[str, ...]] = {}
    for node in story.cluster.nodes:
        for conf in story.cluster.configurations(node):
            if conf.kind != "transitional":
                reported.setdefault(conf.id, set()).add(node)
                members[conf.id] = conf.members
    crashed = {node for node, rows in story.rows.items() if any(row.kind == "fail" for row in rows)}
    installed = {
        conf.id
        for node in story.cluster.nodes
        for conf in story.cluster.configurations(node)
        if conf.kind == "regular"
    }
    for number in installed:
        assert set(members[number]) - crashed <= reported[number]


def test_uniformity_a_hidden_view_has_the_composition_of_the_regular_one() -> None:
    """Figure 3: A reports {A B}; B, which did not, reports it as hidden, with the same members."""
    hand = Hand("abc")
    hand.wait_together()
    hand.partition("ab", "c")
    hand.until(lambda: hand.sites["a"].step == "forming: states")
    hand.lose.append(lambda packet: packet.to == "b" and packet.kind in ("progress", "beacon"))
    hand.until(lambda: hand.members("a") == "ab")
    regular = hand.changes("a", ConfKind.REGULAR)[-1]
    hand.partition("a", "bc")
    hand.lose.clear()
    hand.wait_together("bc")
    (hidden,) = hand.changes("b", ConfKind.HIDDEN)
    assert (hidden.conf, hidden.members) == (regular.conf, regular.members)
    order = [change.conf for change in hand.changes("b")]
    assert order.index(hidden.conf) < order.index(hand.changes("c", ConfKind.REGULAR)[-1].conf)
    assert hand.changes("c", ConfKind.HIDDEN) == [], "c was never asked"


def test_uniformity_what_is_hidden_here_may_have_been_installed_nowhere() -> None:
    """The converse is not promised: all members that answered report it hidden when it failed for all."""
    hand = Hand("abc")
    hand.wait_together()
    hand.partition("ab", "c")
    hand.until(lambda: hand.sites["a"].step == "forming: states")
    hand.lose.append(lambda packet: packet.kind == "progress")
    hand.until(lambda: hand.sites["b"].step == "recovering: wait")
    hand.partition("a", "b", "c")
    hand.until(lambda: hand.members("a") == "a" and hand.members("b") == "b")
    (one,), (two,) = hand.changes("a", ConfKind.HIDDEN), hand.changes("b", ConfKind.HIDDEN)
    assert one == two


def test_liveness_a_machine_that_does_not_respond_is_removed(sim_cluster: Make) -> None:
    """Within a time that follows from the options: suspicion, a gathering, a round."""
    three = sim_cluster(3)
    three.wait_together()
    three.crash("c")
    three.wait_together("a", "b", timeout="1500ms")


def test_liveness_one_that_hears_and_does_not_answer_is_removed(sim_cluster: Make) -> None:
    three = sim_cluster(3)
    three.wait_together()
    for node in "ab":
        three.cut("c", node)
    three.wait_together("a", "b", timeout="1500ms")


def test_liveness_connected_machines_form_a_common_view(sim_cluster: Make) -> None:
    """Every connected set of machines is reported to all its members, whatever views they come from."""
    five = sim_cluster(5, seed=3)
    five.partition("ab", "cd", "e")
    for group in ("ab", "cd", "e"):
        five.wait_together(*group, timeout="3s")
    five.partition("ace", "bd")
    for group in ("ace", "bd"):
        five.wait_together(*group, timeout="3s")
    five.heal()
    five.wait_together(timeout="3s")


def test_liveness_without_transitive_connection_views_are_stable(sim_cluster: Make) -> None:
    """a–b–c, with a and c disconnected: no common view is possible; one of two possible views forms and stays."""
    three = sim_cluster(3)
    three.wait_together()
    three.cut("a", "c")
    three.cut("c", "a")
    three.run_for("3s")
    before = {node: three.configuration(node) for node in three.nodes}
    assert before["a"].members == before["b"].members == ("a", "b")
    assert before["c"].members == ("c",)
    three.run_for("10s")
    assert {node: three.configuration(node) for node in three.nodes} == before


def test_safety_nobody_is_removed_who_responds(sim_cluster: Make) -> None:
    """Machines are removed only because of Liveness: without faults the common view stays."""
    four = sim_cluster(4, loss=0.05)
    four.wait_together()
    before = [len(four.configurations(node)) for node in four.nodes]
    for turn in range(40):
        four.send(four.nodes[turn % 4], b"x" * 2_000, ("fifo", "causal", "agreed", "safe")[turn % 4])
        four.run_for("50ms")
    four.run_for("3s")
    assert [len(four.configurations(node)) for node in four.nodes] == before
    assert all(len(four.deliveries(node)) == 40 for node in four.nodes)


def test_figure_3_symmetry_is_broken() -> None:
    """A and C merge after B has crashed. C knows from B, through B's application, that {A B} may have existed; A's
    history alone would not show which of them is ahead."""
    hand = Hand("abc")
    hand.wait_together()
    hand.partition("ab", "c")
    hand.until(lambda: hand.sites["a"].step == "forming: states")
    hand.lose.append(lambda packet: packet.to == "b" and packet.kind in ("progress", "beacon"))
    hand.until(lambda: hand.members("a") == "ab")
    hand.partition("a", "bc")
    hand.lose.clear()
    hand.wait_together("bc")
    hand.crash("b")
    hand.partition("ac", "b")
    hand.wait_together("ac")

    def history(name: str) -> list[str]:
        return [
            "".join("abc"[member] for member in change.members) + ("?" if change.kind is ConfKind.HIDDEN else "")
            for change in hand.changes(name)
            if change.kind is not ConfKind.TRANSITIONAL and len(change.members) > 1
        ]

    assert history("a") == ["abc", "ab", "ac"]
    assert history("b") == ["abc", "ab?", "bc"]
    assert history("c") == ["abc", "bc", "ac"]
    numbers = [int(change.conf) for name in "abc" for change in hand.changes(name, ConfKind.REGULAR)]
    assert max(numbers) == int(hand.changes("a")[-1].conf), "past view changes can be ordered by number"


def test_hidden_views_are_told_in_their_place(sim_cluster: Make) -> None:
    """A hidden view is reported before the next regular one, in the order in which they were attempted."""
    four = sim_cluster(4, seed=5, loss=0.3)
    four.run_for("4s")
    four.network(loss=0.0)
    four.wait_together()
    for node in four.nodes:
        confs: list[Configuration] = [c for c in four.configurations(node) if c.kind != "transitional"]
        numbers = [int(conf.id) for conf in confs]
        assert numbers == sorted(numbers)
