"""Site views: when a configuration is adopted, who is born in it, who is lost, and who tells the table (4.2)."""

from random import Random

import pytest
from msgspec import msgpack
from tests.isis.hand import Hand

from reconvene.core.effects import Changed, ConfKind, Delivered, LayerEvent, Used
from reconvene.ids import Service
from reconvene.isis.events import Blocked, Killed, SiteAdopted
from reconvene.isis.messages import Announce, Decided, StoredView, Table, encode_control
from reconvene.isis.site_views import Adoption, Block, Control, Lost, SiteViews, Step, TellDecided, TellTable
from reconvene.site_list import first_list

SITES = first_list(3)
NOTHING = encode_control(Announce([]))


def regular(*members: int) -> Changed:
    return Changed(ConfKind.REGULAR, "c", members, sites=SITES)


def transitional(*members: int) -> Changed:
    return Changed(ConfKind.TRANSITIONAL, "t", members, "c")


def message(payload: bytes = NOTHING, sender: int = 0) -> Delivered:
    return Delivered("c", sender, 1, Service.SAFE, 1, [payload], None)


def used(number: int, brought: dict[int, bytes] | None, heirs: tuple[int, ...], *members: int) -> Used:
    return Used(number, f"c{number}", members, heirs, brought)


def table(view: int) -> bytes:
    return encode_control(Table(view, [], [], 0, 0, False))


def decided(view: int, *senders: int) -> list[LayerEvent]:
    """These sites have told what they know to be decided."""
    return [message(encode_control(Decided(view, [], True)), sender) for sender in senders]


class Line:
    """One site's line, fed by hand; the others bring what a site like it would."""

    def __init__(self, site: int = 0) -> None:
        self.views = SiteViews(site, 1)

    def take(self, *events: LayerEvent) -> list[Step]:
        return [step for event in events for step in self.views.take(event)]

    def adopt(self, number: int = 1, *members: int) -> None:
        """The first of all."""
        brought = {site: SiteViews(site, 1).brings() for site in members}
        (step,) = self.take(regular(*members), used(number, brought, (), *members))
        assert isinstance(step, Adoption)


def kinds(steps: list[Step]) -> list[str]:
    return [type(step).__name__ for step in steps]


def test_where_nobody_has_a_table_all_are_born() -> None:
    line = Line()
    brought = {site: SiteViews(site, 1).brings() for site in (0, 1)}
    (step,) = line.take(regular(0, 1), used(4, brought, (), 0, 1))
    assert isinstance(step, Adoption)
    assert {site: born.number for site, born in step.view.members.items()} == {0: 4, 1: 4}
    assert (step.departed, step.table, step.changing) == (frozenset(), (), False)
    assert line.views.open


def test_where_all_go_on_together_none_is_born() -> None:
    line = Line()
    line.adopt(1, 0, 1)
    assert line.take(transitional(0, 1), regular(0, 1), used(2, None, (0, 1), 0, 1)) == [TellDecided(2)]
    step = line.take(*decided(2, 0, 1))[-1]
    assert isinstance(step, Adoption)
    assert {site: born.number for site, born in step.view.members.items()} == {0: 1, 1: 1}


def test_a_site_view_is_adopted_when_all_that_go_on_have_told_what_is_decided() -> None:
    line = Line()
    line.adopt(1, 0, 1, 2)
    line.take(transitional(0, 1), regular(0, 1), used(2, None, (0, 1), 0, 1))
    part = message(encode_control(Decided(2, [], False)), 1)
    assert kinds(line.take(*decided(1, 1), part, *decided(2, 0))) == ["Control", "Control"], "not of another view"
    assert not line.views.open
    assert kinds(line.take(*decided(2, 1))) == ["Control", "Adoption"]
    assert line.views.open
    assert line.take(*decided(2, 1)) == [], "told twice"


def test_a_site_without_a_quorum_blocks_and_goes_on_if_the_others_have_not() -> None:
    line = Line()
    line.adopt(1, 0, 1)
    assert kinds(line.take(transitional(0), regular(0))) == ["Block"]
    assert not line.views.open
    brought = {0: line.views.brings(), 1: line.views.brings()}
    line.take(transitional(0), regular(0, 1), used(3, brought, (0, 1), 0, 1))
    step = line.take(*decided(3, 0, 1))[-1]
    assert isinstance(step, Adoption)
    assert step.view.members[0].number == 1


def test_a_newcomer_waits_for_the_table_and_early_messages_wait_too() -> None:
    old, new = Line(0), Line(2)
    old.adopt(1, 0, 1)
    brought = {0: old.views.brings(), 1: old.views.brings(), 2: new.views.brings()}
    event = used(2, brought, (0, 1), 0, 1, 2)
    assert old.take(transitional(0, 1), regular(0, 1, 2), event) == [TellDecided(2), TellTable(2, False)]
    assert new.take(regular(0, 1, 2), event) == []
    for line in (old, new):
        assert kinds(line.take(*decided(2, 0, 1))) == (["Control"] * 2 if line is old else [])
        assert not line.views.open
        assert line.take(message()) == []
        assert line.take(message(table(1))) == [], "of another configuration"
        adoption, early = line.take(message(table(2)))
        assert isinstance(adoption, Adoption)
        assert adoption.view.members[2].number == 2
        assert (adoption.table == ()) == (line is old)
        assert isinstance(early, Control)
        assert line.take(message(table(2))) == [], "told twice"


def test_only_the_oldest_tells_the_table() -> None:
    line = Line(1)
    line.adopt(1, 0, 1)
    brought = {0: line.views.brings(), 1: line.views.brings(), 2: SiteViews(2, 1).brings()}
    assert line.take(transitional(0, 1), regular(0, 1, 2), used(2, brought, (0, 1), 0, 1, 2)) == [TellDecided(2)]


def test_what_a_transitional_configuration_brings_is_applied_at_the_next_adoption() -> None:
    line = Line()
    line.adopt(1, 0, 1, 2)
    assert line.take(transitional(0, 1), message(sender=1)) == []
    assert line.take(regular(0, 1)) == []
    brought = dict.fromkeys((0, 1), line.views.brings())
    steps = line.take(used(2, brought, (0, 1), 0, 1))
    assert kinds(steps) == ["Control", "TellDecided"]
    adoption = line.take(*decided(2, 0, 1))[-1]
    assert isinstance(adoption, Adoption)
    assert adoption.departed == {2}
    assert adoption.changing


def test_what_is_told_late_in_the_next_configuration_does_not_count() -> None:
    """A newcomer lacks the table when the next configuration comes, and says so. What the others say of the last one
    after that must not make it adopt that one: for the others it is born in the next."""
    line = Line(2)
    assert (
        line.take(regular(0, 1, 2), used(2, {0: _other(1), 1: _other(1), 2: line.views.brings()}, (0, 1), 0, 1, 2))
        == []
    )
    assert line.take(*decided(2, 0, 1)) == []
    assert line.take(transitional(0, 1, 2), regular(0, 1, 2)) == []
    brought = {0: _other(1), 1: _other(1), 2: line.views.brings()}
    assert line.take(message(table(2))) == []
    assert line.take(used(3, brought, (0, 1, 2), 0, 1, 2)) == []
    (adoption,) = line.take(message(table(3)), *decided(3, 0, 1))
    assert isinstance(adoption, Adoption)
    assert adoption.view.members[2].number == 3


def test_what_was_to_be_told_is_not_told_in_the_next_configuration() -> None:
    hand = Hand("abc")
    hand.install("ab")
    hand.run()
    hand.hold = lambda message, site: True
    hand.install("abc")
    hand.run()
    teller = hand.sites["a"]
    assert teller.next_control() is not None
    teller.take([transitional(0, 1, 2), regular(0, 1, 2)], hand.now)
    assert teller.next_control() is None


def test_a_killed_site_drops_it_and_is_born_again() -> None:
    line = Line()
    line.adopt(1, 0, 1, 2)
    line.views.next = (8, 5)
    assert kinds(line.take(transitional(0), message(), regular(0))) == ["Block"]
    brought = {0: line.views.brings(), 1: _other(1), 2: _other(1)}
    steps = line.take(regular(0, 1, 2), used(5, brought, (1, 2), 0, 1, 2))
    assert steps == [Lost(5)], "its processes below number 5 are over"
    assert not line.views.open
    assert line.take(message(table(5), 1), *decided(5, 1)) == []
    (adoption,) = line.take(*decided(5, 2))
    assert isinstance(adoption, Adoption)
    mine = adoption.view.members[0]
    assert (mine.number, mine.first_cast, mine.first_process) == (5, 8, 5)
    assert adoption.table is not None


def _other(born: int) -> bytes:
    return msgpack.encode([born, 1, 1, 1, 1, 1])


def test_used_is_known_only_in_the_transitional_configuration() -> None:
    """Then the configuration that ends counts: it is adopted with the next, and the site brings it along."""
    line = Line()
    line.adopt(1, 0, 1)
    line.take(transitional(0, 1), regular(0, 1))
    told = decided(2, 0, 1)
    assert line.take(transitional(0), used(2, None, (0, 1), 0, 1), *told, regular(0)) == [Block()]
    assert msgpack.decode(line.views.brings())[0] == 1
    brought = {0: line.views.brings(), 1: _other(1)}
    steps = line.take(transitional(0), regular(0, 1), used(4, brought, (0, 1), 0, 1))
    assert kinds(steps) == ["TellDecided", "Control", "Control", "Adoption", "TellDecided"]


def test_malformed_messages_and_tables_are_counted() -> None:
    line = Line()
    line.adopt(1, 0, 1)
    assert line.take(message(b""), message(b"\xff"), message(NOTHING[:1] + b"\xc1")) == []
    assert line.views.malformed == 3
    brought = {0: line.views.brings(), 1: b"nonsense"}
    steps = line.take(transitional(0), regular(0, 1), used(2, brought, (0, 1), 0, 1))
    assert line.views.malformed == 4
    assert steps == [TellDecided(2), TellTable(2, True)], "a site that brings nonsense brings nothing"


@pytest.mark.parametrize("seed", range(20))
def test_all_members_adopt_the_same(seed: int) -> None:
    """Random configurations, majorities and minorities: sites with the same number have the same view, and a site
    that others went on without is killed before it goes on."""
    random = Random(f"site views/{seed}")
    sites = "abcde"
    hand = Hand(sites)
    hand.install(sites)
    for site in sites:
        hand.open(site)
    for _ in range(12):
        members = "".join(sorted(random.sample(sites, random.choice((3, 4, 5)))))
        hand.install(members)
        alone = "".join(site for site in sites if site not in members)
        if alone and random.random() < 0.7:
            hand.install(alone)
        hand.run(random.randrange(10))
    hand.install(sites)
    hand.run(50)
    seen: dict[int, SiteAdopted] = {}
    for site, events in hand.events.items():
        numbers = [event.number for event in events if isinstance(event, SiteAdopted)]
        assert numbers == sorted(set(numbers))
        for event in events:
            if isinstance(event, SiteAdopted):
                assert seen.setdefault(event.number, event) == event
        killed = [event for event in events if isinstance(event, Killed)]
        assert all(one.was.number < one.process.number for one in killed)
        assert hand.sites[site].here.open
        last = [event for event in events if isinstance(event, Blocked | SiteAdopted)][-1]
        assert isinstance(last, SiteAdopted)
    assert hand.judge() == []


def test_what_a_site_has_stored_counts_in_the_configuration_into_which_it_brought_it() -> None:
    """Site 2 brings a view into a configuration that is never adopted. Site 1 was not in it: in the next one it would
    decide otherwise than site 0 who failed last."""
    witness = SiteViews(2, 2)
    witness.stored = {"bank": StoredView(1, 1, [2])}
    line, newcomer = Line(0), Line(1)
    line.adopt(1, 0, 1, 2)
    line.take(regular(0, 2), used(2, {0: line.views.brings(), 2: witness.brings()}, (0,), 0, 2))
    brought = {0: line.views.brings(), 1: newcomer.views.brings()}
    adopted = [
        one.take(regular(0, 1), used(3, brought, (0,), 0, 1), *decided(3, 0), message(table(3)))[-1]
        for one in (line, newcomer)
    ]
    assert [step.stored for step in adopted if isinstance(step, Adoption)] == [{}, {}]
