"""Wide views and losses at one site."""

from reconvene.domains.events import Lost, WideView
from reconvene.domains.messages import Loss, News, Roster
from reconvene.domains.rosters import Rosters
from reconvene.domains.tree import Domain
from reconvene.domains.views import Views

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
