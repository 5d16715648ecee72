"""Extended Virtual Synchrony, section 2.1: one test for each specification, without the verifier.

They use histories in which the network breaks and heals and processes fail and recover while all services are in use.
The first test makes sure that the histories have everything that the others are about.
"""

from collections.abc import Callable
from itertools import combinations, pairwise

import pytest
from tests.paper.story import Story, regular, stormy
from tests.sim.core_cluster import SimCluster
from tests.sim.core_service import Configuration


@pytest.fixture(params=["atop-11", "atop-12", "all-ack-11"])
def story(request: pytest.FixtureRequest) -> Story:
    order, _, seed = str(request.param).rpartition("-")
    return stormy(order, int(seed))


def test_the_story_has_all_that_it_should(story: Story) -> None:
    kinds = {item.kind for node in story.cluster.nodes for item in story.cluster.configurations(node)}
    assert {"regular", "transitional"} <= kinds
    in_transition = [
        message
        for node in story.cluster.nodes
        for message in story.cluster.deliveries(node)
        if "+" in message.configuration
    ]
    assert {message.service for message in in_transition} >= {"agreed", "safe"}
    assert len(story.sends) > 200
    assert story.cluster.verify().ok


def test_1_1_precedes_is_a_partial_order(story: Story) -> None:
    """1.1: there is no cycle. Growing numbers prove it: by the simulator's clock, each event comes after the earlier
    events of its process, and each delivery after its sending."""
    sent_at = {row.msg: row.t for rows in story.rows.values() for row in rows if row.kind == "send"}
    for rows in story.rows.values():
        assert all(before.t <= after.t for before, after in pairwise(rows))
        assert all(sent_at[row.msg] <= row.t for row in rows if row.kind == "deliver")


def test_1_2_the_events_of_a_process_are_totally_ordered(story: Story) -> None:
    """1.2."""
    for rows in story.rows.values():
        assert [row.n for row in rows] == sorted({row.n for row in rows})


def test_1_3_what_is_delivered_was_sent_in_that_configuration(story: Story) -> None:
    """1.3: a delivered message was sent before, in the same regular configuration or the one that precedes it."""
    for node in story.cluster.nodes:
        for message in story.cluster.deliveries(node):
            _, conf, _ = story.sends[message.id]
            assert conf == regular(message.configuration)


def test_1_4_sent_once_in_a_regular_configuration_and_delivered_once(story: Story) -> None:
    """1.4: a message is sent by one process, in one regular configuration, and delivered at most once by each."""
    sends = [row for rows in story.rows.values() for row in rows if row.kind == "send"]
    assert len({row.msg for row in sends}) == len(sends)
    assert all("+" not in row.conf for row in sends)
    for node in story.cluster.nodes:
        ids = [message.id for message in story.cluster.deliveries(node)]
        assert len(set(ids)) == len(ids)


def test_2_1_members_of_a_last_configuration_stay_in_it(story: Story) -> None:
    """2.1: a process that ends in a configuration ends in it with all members, none of which failed there."""
    for node in story.cluster.nodes:
        last = story.cluster.configuration(node)
        assert last.kind == "regular"
        for member in last.members:
            assert story.cluster.configuration(member) == last
            assert story.cluster.sim.node(member).up


def test_2_2_every_event_lies_in_the_configuration_it_names(story: Story) -> None:
    """2.2: events lie between the change to their configuration and the next change or failure of the process."""
    for rows in story.rows.values():
        inside: str | None = None
        for row in rows:
            if row.kind == "conf":
                inside = inside if row.conf_kind == "hidden" else row.conf
            elif row.kind in ("send", "deliver", "fail"):
                assert row.conf == inside
                inside = None if row.kind == "fail" else inside


def test_2_3_and_2_4_changes_are_in_one_order_everywhere(story: Story) -> None:
    """2.3, 2.4: what precedes a configuration at one member precedes it at all: so the configurations that two
    processes share come in the same order at both, and no message crosses one of them."""
    for one, two in combinations(story.cluster.nodes, 2):
        mine = [conf.id for conf in story.cluster.configurations(one) if conf.kind == "regular"]
        theirs = [conf.id for conf in story.cluster.configurations(two) if conf.kind == "regular"]
        assert [conf for conf in mine if conf in theirs] == [conf for conf in theirs if conf in mine]


def test_3_a_process_delivers_its_own_messages(story: Story) -> None:
    """3: a process delivers each message that it sent, unless it failed in that configuration."""
    for node, rows in story.rows.items():
        failed = {regular(row.conf) for row in rows if row.kind == "fail"}
        own = {row.msg for row in rows if row.kind == "send" and row.conf not in failed}
        assert own <= {message.id for message in story.cluster.deliveries(node)}


def test_4_those_who_go_on_together_deliver_the_same(story: Story) -> None:
    """4: processes that go from one configuration to the same next one deliver the same set of messages in it."""
    compared = 0
    steps: dict[tuple[str, str], set[frozenset[str]]] = {}
    for node in story.cluster.nodes:
        for life in story.sections(node):
            for (conf, ids), (following, _) in pairwise(life):
                steps.setdefault((conf.id, following.id), set()).add(frozenset(ids))
                compared += len(conf.members) > 1
    assert all(len(sets) == 1 for sets in steps.values())
    assert compared > 10


def test_5_causal_predecessors_come_first(story: Story) -> None:
    """5: if m was sent before m' in a configuration, a process that delivers m' delivers m first. `Before` is
    recomputed from the rows: what its sender had sent or delivered there. fifo messages promise no more than their
    sender's order."""
    before: dict[str, set[str]] = {}
    for rows in story.rows.values():
        past: set[str] = set()
        for row in rows:
            if row.kind == "conf" and row.conf_kind == "regular":
                past = set()
            elif row.kind == "send":
                before[row.msg] = set(past)
                past.add(row.msg)
            elif row.kind == "deliver":
                past.add(row.msg)
    checked = 0
    for node in story.cluster.nodes:
        for life in story.sections(node):
            order = {message: at for at, message in enumerate(message for _, ids in life for message in ids)}
            for message in order:
                if story.sends[message][2] == "fifo":
                    continue
                for past_one in before[message]:
                    if story.sends[past_one][2] != "fifo":
                        assert order[past_one] < order[message]
                        checked += 1
    assert checked > 1_000


def test_5_fifo_messages_keep_their_senders_order(story: Story) -> None:
    for node in story.cluster.nodes:
        last: dict[tuple[str, str], int] = {}
        for message in story.cluster.deliveries(node):
            if message.service == "fifo":
                sender, incarnation, counter = message.id.split(":")
                assert last.get((sender, incarnation), 0) < int(counter)
                last[sender, incarnation] = int(counter)


def test_6_1_and_6_2_one_logical_time(story: Story) -> None:
    """6.1, 6.2: a message's timestamp is the same wherever it is delivered, and grows along each process's history,
    so ord can be read off it."""
    stamps: dict[str, set[tuple[int, ...]]] = {}
    for rows in story.rows.values():
        latest: tuple[int, ...] = ()
        for row in rows:
            if row.kind == "fail":
                latest = ()
            if row.kind == "deliver" and row.ts:
                assert row.ts > latest
                latest = row.ts
                stamps.setdefault(row.msg, set()).add(row.ts)
    assert stamps
    assert all(len(found) == 1 for found in stamps.values())
    assert len({stamp for found in stamps.values() for stamp in found}) == len(stamps), "and no two share one"


def test_6_3_no_gaps_but_of_those_who_parted(story: Story) -> None:
    """6.3: if p delivers m before m', then q, which delivers m' in c', delivers m too if m's sender is in c'."""
    checked = 0
    found: dict[str, dict[str, list[tuple[str, Configuration]]]] = {}
    for node in story.cluster.nodes:
        for life in story.sections(node):
            for conf, ids in life:
                ordered = [(message, conf) for message in ids if story.sends[message][2] in ("agreed", "safe")]
                found.setdefault(regular(conf.id), {}).setdefault(node, []).extend(ordered)
    for nodes in found.values():
        for p, q in combinations(nodes, 2):
            for one, other in ((p, q), (q, p)):
                has = {message for message, _ in nodes[other]}
                position = {message: at for at, (message, _) in enumerate(nodes[one])}
                for message, conf in nodes[other]:
                    for earlier, _ in nodes[one][: position.get(message, 0)]:
                        if story.sends[earlier][0] in conf.members:
                            assert earlier in has
                            checked += 1
    assert checked > 1_000


def test_7_1_safe_means_with_every_member(story: Story) -> None:
    """7.1: a safe message delivered in c is delivered by every member of c, there or in the transitional one that
    follows, unless the member fails."""
    checked = 0
    for node in story.cluster.nodes:
        for life in story.sections(node):
            for conf, ids in life:
                for message in ids:
                    if story.sends[message][2] != "safe":
                        continue
                    for member in conf.members:
                        failed = {regular(row.conf) for row in story.rows[member] if row.kind == "fail"}
                        got = {one.id for one in story.cluster.deliveries(member)}
                        assert message in got or regular(conf.id) in failed
                        checked += 1
    assert checked > 100


def test_7_2_safe_means_all_have_installed(story: Story) -> None:
    """7.2: a safe message delivered in a regular configuration proves that all its members installed it."""
    for node in story.cluster.nodes:
        for life in story.sections(node):
            for conf, ids in life:
                if conf.kind == "regular" and any(story.sends[message][2] == "safe" for message in ids):
                    for member in conf.members:
                        assert conf in story.cluster.configurations(member)


def test_a_recovered_process_is_alone_at_first(sim_cluster: Callable[..., SimCluster]) -> None:
    """Section 2: after a failure it recovers in a configuration of its own, under the same name."""
    three = sim_cluster(3)
    three.wait_together()
    three.crash("b")
    three.restart("b")
    assert three.configuration("b").members == ("b",)
    three.wait_together()


def test_transitional_members_come_from_one_and_go_to_one(story: Story) -> None:
    """Section 2: those of the next regular configuration that have the same one behind them."""
    for node in story.cluster.nodes:
        for life in story.sections(node):
            confs = [conf for conf, _ in life]
            for before, conf, after in zip(confs, confs[1:], confs[2:], strict=False):
                if conf.kind == "transitional":
                    assert before.kind == after.kind == "regular"
                    assert set(conf.members) <= set(before.members) & set(after.members)
                    assert node in conf.members
