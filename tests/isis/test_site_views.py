"""A site that is left behind before it has adopted anything."""

from reconvene.core.effects import Changed, ConfKind, Used
from reconvene.isis.site_views import Adoption, Lost, SiteViews, Step


def test_what_a_site_brings_as_its_next_life_is_its_life_if_the_others_go_on_without_it() -> None:
    """The first configuration turns out to be used when it ends. The others leave it without this site, which learns
    that only after it has said what it would be if it went on."""
    views = SiteViews(0, 1)
    views.next = (1, 3)  # it has processes 1 and 2
    steps: list[Step] = []
    none = SiteViews(1, 1).brings()
    for event in (
        Changed(ConfKind.REGULAR, "1", (0, 1, 2)),
        Changed(ConfKind.TRANSITIONAL, "1t", (0,), "1"),
        Used(1, "1", (0, 1, 2), (), {0: views.brings(), 1: none, 2: none}),
        Changed(ConfKind.REGULAR, "3", (0, 1, 2)),
    ):
        steps += views.take(event)
    assert steps == [], "all of it is held"
    other = SiteViews(1, 1)
    other_steps = list(other.take(Used(1, "1", (0, 1, 2), (), {0: none, 1: none, 2: none})))
    assert [type(step) for step in other_steps] == [Adoption]
    brought = {0: views.brings(), 1: other.brings(), 2: other.brings()}
    steps += views.take(Used(3, "3", (0, 1, 2), (1, 2), brought))
    other_steps = list(other.take(Used(3, "3", (0, 1, 2), (1, 2), brought)))
    told = other._line.borns[0]
    assert told.first_process == 3, "to the others, processes 1 and 2 are over"
    assert steps == [Lost(3)], "so they are, here too"
    assert other_steps
