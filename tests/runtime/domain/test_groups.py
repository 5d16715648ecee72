"""What processes of a site see of lost sites, beside what changes in their wide groups."""

import asyncio

from reconvene.core.groups.events import Process
from reconvene.domains.events import Lost, WideChanged, WideEvent, WideView
from reconvene.domains.port import Site
from reconvene.domains.tree import Domain, Tree
from reconvene.runtime.domain.events import WideGroupEvent, WideViewed
from reconvene.runtime.domain.groups import WideGroups

TREE = Tree([Domain("berlin", ("a", "b", "c"), ("a",)), Domain("paris", ("p",), ("p",))])
BEGINS = WideChanged("7", True, ("berlin", "paris"), (7,))
LOST = Lost("7", "paris", "q", "9")
MEMBERS = ("berlin/2/a:1:4", "paris/9/p:1:1")


def views_of(*events: WideEvent) -> dict[str, list[WideViewed]]:
    """By group, what its one process gets of these events, after the beginning of a wide configuration."""
    found: dict[int, list[WideViewed]] = {}

    def receive(batch: list[WideGroupEvent]) -> None:
        for event in batch:
            assert isinstance(event, WideViewed)
            found.setdefault(event.membership, []).append(event)

    async def hand_out() -> dict[str, list[WideViewed]]:
        groups = WideGroups(
            "a", Site(TREE, "berlin", 0, 1), lambda: None, message_bytes=100, name_bytes=10, memberships=4
        )
        joined = {group: groups.join(Process(0, 1, 4), group, receive) for group in ("bank", "news")}
        groups.deliver([BEGINS])
        found.clear()
        groups.deliver(events)
        return {group: found.get(membership, []) for group, membership in joined.items()}

    return asyncio.run(hand_out())


def test_a_loss_is_told_with_the_view_that_it_changes_and_by_itself_elsewhere() -> None:
    found = views_of(WideView("7", "news", (7, 1), MEMBERS), LOST, WideView("7", "bank", (7, 2), MEMBERS[:1]))
    assert [(view.lost, len(view.members)) for view in found["bank"]] == [((("paris", "q", "9"),), 1)]
    assert [(view.lost, len(view.members)) for view in found["news"]] == [((), 2), ((("paris", "q", "9"),), 2)]


def test_losses_of_two_places_are_told_apart_and_once() -> None:
    other = Lost("7", "berlin", "c", "5")
    found = views_of(LOST, WideView("7", "bank", (7, 2), MEMBERS), other, WideView("7", "bank", (7, 3), MEMBERS[:1]))
    for group in ("bank", "news"):
        assert [view.lost for view in found[group]] == [(("paris", "q", "9"),), (("berlin", "c", "5"),)], group


def test_a_loss_belongs_to_the_configuration_in_which_it_is_heard() -> None:
    found = views_of(LOST, WideChanged("8", True, ("berlin",), (8,)))
    assert [(view.conf, view.lost) for view in found["bank"]] == [("7", (("paris", "q", "9"),)), ("8", ())]
