"""Which site sends what again in recovery: pure functions of the states, so that all sites that hold them agree."""

from hypothesis import given, settings
from hypothesis import strategies as st

from reconvene.core.evs.recovery import Exchange, Recovery
from reconvene.wire.messages import State

quick = settings(max_examples=50, derandomize=True, deadline=None)
Place = tuple[int, int]


@st.composite
def situations(draw: st.DrawFn) -> list[State]:
    """Some members of an old configuration of up to five go on; each has a beginning of every sender's frames, and
    some beyond a gap."""
    size = draw(st.integers(1, 5))
    going = sorted(draw(st.sets(st.integers(0, size - 1), min_size=1)))
    states: list[State] = []
    for site in going:
        received = [draw(st.integers(0, 6)) for _ in range(size)]
        beyond = [(q, seq) for q in range(size) for seq in range(received[q] + 2, 9)]
        extras = sorted(draw(st.sets(st.sampled_from(beyond), max_size=5)))
        known = [[draw(st.integers(0, 6)) for _ in range(size)] for _ in range(size)]
        clocks = [draw(st.integers(0, 9)) for _ in range(size)]
        states.append(
            State(
                9 << 16, site, going, [1] * len(going), 1, 8 << 16, list(range(size)), received,
                [number for place in extras for number in place], known, clocks, draw(st.integers(0, 31)),
            )
        )  # fmt: skip
    return states


def has(state: State) -> set[Place]:
    """Everything that a member holds, one by one."""
    extras = set(zip(state.extras[::2], state.extras[1::2], strict=True))
    return extras | {(q, seq) for q, high in enumerate(state.received) for seq in range(1, high + 1)}


@quick
@given(situations())
def test_the_union_is_what_some_have_and_some_lack(states: list[State]) -> None:
    held = [has(state) for state in states]
    expected = set().union(*held) - held[0].intersection(*held)
    for state, own in zip(states, held, strict=True):
        exchange = Exchange(states, state.site)
        assert exchange.union == expected
        assert exchange.lacking == expected - own
        assert exchange.members == tuple(one.site for one in states)


@quick
@given(situations())
def test_every_frame_has_one_sender_the_lowest_holder(states: list[State]) -> None:
    exchanges = {state.site: Exchange(states, state.site) for state in states}
    duties = [place for exchange in exchanges.values() for place in exchange.duties]
    assert len(duties) == len(set(duties))
    assert set(duties) == next(iter(exchanges.values())).union
    for site, exchange in exchanges.items():
        for place in exchange.duties:
            assert site == min(state.site for state in states if place in has(state))


@quick
@given(situations())
def test_after_all_duties_no_site_lacks_anything(states: list[State]) -> None:
    recoveries = {state.site: Recovery(Exchange(states, state.site)) for state in states}
    held = {state.site: has(state) for state in states}
    for recovery in recoveries.values():
        for sites, place in recovery.first():
            for site in sites:
                assert place not in held[site], "no site is sent what it has"
                assert recoveries[site].takes(place)
                assert not recoveries[site].takes(place), "once"
                held[site].add(place)
    assert all(not recovery.lacking for recovery in recoveries.values())
    assert len({frozenset(one) for one in held.values()}) == 1


@quick
@given(situations())
def test_what_is_missing_is_told_in_ranges_and_repaired(states: list[State]) -> None:
    recoveries = {state.site: Recovery(Exchange(states, state.site)) for state in states}
    for site, recovery in recoveries.items():
        missing = recovery.missing()
        told = {
            (missing[i], seq) for i in range(0, len(missing), 3) for seq in range(missing[i + 1], missing[i + 2] + 1)
        }
        assert told == recovery.lacking
        repaired: set[Place] = set()
        for other, helper in recoveries.items():
            if other != site:
                repaired |= set(helper.repair(site, missing, 0, 5))
        assert repaired == recovery.lacking
        assert recovery.lacked_from() == {recovery.exchange.holder(place) for place in recovery.lacking}


@quick
@given(situations())
def test_what_is_under_way_is_not_sent_again(states: list[State]) -> None:
    one = Recovery(Exchange(states, states[0].site))
    for place in one.exchange.duties:
        for site in one.exchange.members:
            wanted = [*place, place[1]]
            assert one.repair(site, wanted, 10, 5) == [place]
            one.sent(site, place, 10)
            assert one.repair(site, wanted, 14, 5) == []
            assert one.repair(site, wanted, 15, 5) == [place]


@quick
@given(situations())
def test_merged_knowledge_is_the_same_for_all(states: list[State]) -> None:
    exchanges = [Exchange(states, state.site) for state in states]
    size = len(states[0].old)
    closure = [max(state.received[q] for state in states) for q in range(size)]
    stable = exchanges[0].stable(closure)
    for exchange in exchanges:
        assert exchange.stable(closure) == stable
        assert exchange.clocks() == [max(state.clocks[q] for state in states) for q in range(size)]
    gone = [rank for rank in range(size) if rank not in exchanges[0].members]
    for q in range(size):
        told = [max(state.known[rank][q] for state in states) for rank in gone]
        assert stable[q] == min([closure[q], *told])


@quick
@given(situations())
def test_obligations_are_the_members_and_theirs(states: list[State]) -> None:
    """Step 5.c."""
    for state in states:
        mask = Exchange(states, state.site).obligations()
        for other in states:
            assert mask >> other.site & 1
            assert mask & other.obligations == other.obligations
