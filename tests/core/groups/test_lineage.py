"""Which sites are heirs of the last used configuration, from what each of them claims."""

from reconvene.core.groups.lineage import Claim, Lineage
from reconvene.site_list import SiteList, first_list

FIVE = first_list(5)


def decided(claims: dict[int, Claim], sites: SiteList = FIVE, number: int = 9) -> tuple[int, ...]:
    """The heirs, as each member decides them: they agree."""
    members = []
    for own in claims.values():
        lineage = Lineage(own.forgotten or 0)
        lineage.lineage, lineage.memory, lineage.used, lineage.exit = own[:4]
        lineage.install(number, sorted(claims), sites)
        members.append(lineage)
    brought = {
        site: lineage.claim()._replace(forgotten=claims[site].forgotten)
        for site, lineage in zip(claims, members, strict=True)
    }
    found = set()
    for lineage in members:
        lineage.decide(brought)
        lineage.activate()
        lineage.invariants()
        found.add(lineage.heirs)
    (heirs,) = found
    return heirs


def came(used: int, exit_: int, lineage: int = 0) -> Claim:
    return Claim(max(lineage, used), True, used, exit_)


OUTSIDE = Claim(5, True, 0, 0)
STARTED = Claim(0, False, 0, 0)


def test_those_that_left_the_last_used_one_together() -> None:
    assert decided({0: came(5, 7), 1: came(5, 7), 2: OUTSIDE}) == (0, 1)


def test_of_several_that_left_it_apart_the_most() -> None:
    assert decided({0: came(5, 6), 1: came(5, 8), 2: came(5, 8), 3: OUTSIDE}) == (1, 2)


def test_of_as_many_the_first_exit() -> None:
    assert decided({0: came(5, 8), 1: came(5, 6), 2: OUTSIDE}) == (1,)


def test_none_comes_from_an_earlier_one() -> None:
    """Site 2 has heard of the use of 6, from which none of these came."""
    assert decided({0: came(5, 7), 1: came(5, 7), 2: Claim(6, True, 0, 0)}) == ()


def test_those_of_a_later_one_and_not_the_many_of_an_earlier() -> None:
    assert decided({0: came(5, 7), 1: came(5, 7), 2: came(6, 8)}) == (2,)


def test_a_quorum_has_to_remember() -> None:
    assert decided({0: came(5, 7), 1: came(5, 7), 2: STARTED}) == ()
    assert decided({0: came(5, 7), 1: came(5, 7), 2: OUTSIDE, 3: STARTED}) == (0, 1)


# -- what a site that has started again knows


def again(stored: int | None) -> Claim:
    return Claim(0, False, 0, 0, stored)


def test_a_site_that_has_started_again_can_tell_that_it_was_in_no_later_one() -> None:
    for stored in (3, 5):
        assert decided({0: came(5, 7), 1: came(5, 7), 2: again(stored)}) == (0, 1)


def test_one_that_may_have_been_in_a_later_one_can_not() -> None:
    assert decided({0: came(5, 7), 1: came(5, 7), 2: again(6)}) == ()


def test_one_that_can_not_tell_is_no_witness() -> None:
    assert decided({0: came(5, 7), 1: came(5, 7), 2: again(0)}) == ()


def test_what_counts_is_the_last_one_that_any_of_them_has_heard_of() -> None:
    """Site 2 was outside, and knows of 6: so 6 is the last, and none of these came from it."""
    assert decided({0: came(5, 7), 2: Claim(6, True, 0, 0), 3: again(6)}) == ()
    assert decided({0: came(6, 7), 2: OUTSIDE, 3: again(6)}) == (0,)


def test_a_site_that_has_started_again_is_no_heir() -> None:
    """Not even where all have, and each can tell."""
    assert decided({0: again(3), 1: again(4), 2: again(5)}) == ()
    assert decided({0: again(3), 1: again(4), 2: Claim(5, False, 0, 0, 5)}) == ()


def test_one_that_has_been_in_a_used_one_since_its_start_remembers() -> None:
    assert decided({0: came(5, 7), 1: came(5, 7), 2: Claim(5, True, 0, 0, 4)}) == (0, 1)


def test_while_a_member_has_an_older_program_all_decide_as_it_does() -> None:
    older = came(5, 7)._replace(forgotten=None)
    assert decided({0: older, 1: came(5, 7), 2: again(5)}) == ()
    assert decided({0: older, 1: came(5, 7), 2: OUTSIDE, 3: again(5)}) == (0, 1)


def test_outside_of_the_primary_component_a_site_loses_its_place() -> None:
    lineage = Lineage()
    for number, members in ((5, (0, 1, 2)), (6, (0, 1)), (7, (0, 1, 2))):
        lineage.install(number, members, FIVE)
        if number == 5:
            lineage.activate()
    assert lineage.claim() == OUTSIDE
    assert lineage.heirs == ()


def test_an_unused_configuration_does_not_change_where_a_site_left() -> None:
    lineage = Lineage()
    lineage.install(5, (0, 1, 2), FIVE)
    lineage.activate()
    lineage.install(6, (0, 1, 2), FIVE)
    lineage.install(8, (0, 1, 2), FIVE)
    assert lineage.claim() == came(5, 6)
    assert lineage.heirs == (0, 1, 2)


# -- the list of sites changes


def test_a_later_list_that_is_in_use_was_used_by_others() -> None:
    """Sites 0 and 1 come from 5. Site 3, which was never with them, brings version 2, which 7 made the base."""
    later = SiteList((), {2: 0b1011}, 2, since=7)
    assert decided({0: came(5, 6), 1: came(5, 6), 3: STARTED}, later) == ()
    assert decided({0: came(7, 8), 1: came(7, 8), 3: STARTED}, later) == (0, 1)


def test_a_quorum_of_each_list_has_to_remember() -> None:
    """Versions 1 and 2 count: {0, 1, 2} and {2, 3, 4}."""
    both = SiteList((), {1: 0b111, 2: 0b11100}, 1)
    claims = {1: came(5, 7), 2: came(5, 7), 3: STARTED, 4: STARTED}
    assert decided(claims, both) == ()
    assert decided({**claims, 3: OUTSIDE}, both) == (1, 2)


def test_a_site_that_is_on_no_list_any_more_can_be_an_heir() -> None:
    later = SiteList((), {2: 0b111}, 2, since=5)
    assert decided({0: came(5, 7), 1: came(5, 7), 4: came(5, 7)}, later) == (0, 1, 4)


def test_a_set_of_sites_that_becomes_primary_by_a_change_of_the_list_begins_anew() -> None:
    """They came together, without a place in the line."""
    lineage = Lineage()
    lineage.install(5, (3, 4), FIVE)
    assert not lineage.primary
    lineage.install(6, (3, 4), SiteList((), {2: 0b11000}, 2))
    lineage.activate()
    assert lineage.heirs == ()
