"""Which sites are heirs of the last used configuration, from what each of them claims."""

from reconvene.core.groups.lineage import Claim, Lineage
from reconvene.site_list import SiteList, first_list

FIVE = first_list(5)


def decided(claims: dict[int, Claim], sites: SiteList = FIVE, number: int = 9) -> tuple[int, ...]:
    """The heirs, as each member decides them: they agree."""
    members = []
    for own in claims.values():
        lineage = Lineage()
        lineage.lineage, lineage.memory, lineage.used, lineage.exit = own
        lineage.install(number, sorted(claims), sites)
        members.append(lineage)
    brought = {site: lineage.claim() for site, lineage in zip(claims, members, strict=True)}
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
