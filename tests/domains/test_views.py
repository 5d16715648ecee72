"""Wide views and losses at one site."""

import pytest

from reconvene.domains.events import Lost, WideView
from reconvene.domains.messages import Joined, Loss, News, Placed, Roster, Turn, encode
from reconvene.domains.rosters import Local, Rosters
from reconvene.domains.tree import Domain
from reconvene.domains.views import Views
from reconvene.errors import Unavailable

BERLIN = Domain("berlin", ("a", "b", "c"), ("a",))


def roster(conf: int, sites: list[int], *processes: str, domain: str = "berlin", version: int = 0) -> Roster:
    return Roster(domain, conf, version, sites, [("bank", list(processes))], [])


def test_a_later_roster_takes_the_place_of_those_with_sites_in_common() -> None:
    rosters = Rosters([roster(1, [0, 1, 2], "a.x", "c.x"), roster(2, [0, 1], "a.x"), roster(3, [2], "c.x")])
    assert rosters.views() == {"bank": ("berlin/2/a.x", "berlin/3/c.x")}, "both parts of a parted cluster"
    rosters.apply(roster(1, [0, 1, 2], "a.x"))
    assert rosters.views() == {"bank": ("berlin/2/a.x", "berlin/3/c.x")}, "an old one that comes late"
    rosters.apply(roster(4, [0, 1, 2], "c.x"))
    rosters.apply(roster(4, [0, 1, 2], version=1))
    rosters.apply(roster(4, [0, 1, 2], "c.x"))
    assert rosters.views() == {"bank": ()}


def test_the_rosters_of_all_clusters_fit_into_a_message() -> None:
    """A TURN tells them. Half of a message is theirs, and each gateway's cluster has its share."""
    gateways, most = 64, 2 << 20
    local = Local(most // (2 * gateways))
    taken = sum(
        local.apply(Joined(0, f"{'ü' * 100}{number}", f"a:1:{number}"), joins=True) for number in range(1_024)
    )
    assert 0 < taken < 1_024
    sites, lost = list(range(64)), [Loss("s" * 32, 1 << 40)] * 64
    rosters = [Roster("d" * 32, 1 << 40, 1, sites, sorted(local.groups().items()), lost)] * gateways
    placed = [Placed("s" * 32, 1 << 40, 1 << 40, 1 << 40)] * 256
    turn = Turn(1, "", [], True, "65536", True, 65_536, ["d" * 32] * 64, [65_536], placed, rosters, [65_536, 1])
    assert len(encode(turn)) <= most


def test_a_site_may_not_ask_for_more_than_its_cluster_may_have() -> None:
    views = Views(BERLIN, 1, most_bytes=100)
    for _ in range(3):
        views.join("bank", "b:1:1")
        views.leave("bank", "b:1:1")
    views.join("g" * 60, "b:1:1")
    with pytest.raises(Unavailable, match="names in wide groups of this site exceed 100 bytes"):
        views.join("h" * 60, "b:1:1")
    views.leave("g" * 60, "b:1:1")
    views.join("h" * 60, "b:1:1")


def test_at_home_a_loss_is_reported_by_those_that_were_there() -> None:
    """Another site is a member of that configuration, and never entered it: the others went on without it."""
    views = Views(BERLIN, 1)
    views.begin(2, (0, 1))
    views.enter(7)
    told = Roster("berlin", 2, 0, [0, 1], [], [Loss("c", 1), Loss("c", 2)])
    assert views.news(News(1, [7, 1], told), "7", (7,)) == [Lost("7", "berlin", "c", "2")]
    elsewhere = Roster("paris", 9, 0, [0], [], [Loss("q", 8)])
    assert views.news(News(1, [7, 2], elsewhere), "7", (7, 1, 0)) == [Lost("7", "paris", "q", "8")]
    assert views.news(News(1, [7, 3], elsewhere), "7", (7, 2, 0)) == [], "once"


def test_a_view_is_reported_once_the_own_roster_has_come_back() -> None:
    views = Views(BERLIN, 1)
    views.begin(2, (0, 1))
    views.enter(7)
    assert views.news(News(1, [7, 1], roster(9, [0], "p.x", domain="paris")), "7", (7,)) == []
    events = views.news(News(1, [7, 2], roster(2, [0, 1], "a.x")), "7", (7, 1, 0))
    assert events == [WideView("7", "bank", (7, 2), ("berlin/2/a.x", "paris/9/p.x"))]
