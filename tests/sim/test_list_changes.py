"""The list of sites changes while sites crash and the network breaks: there is one primary component at most.

Seeds with random changes, and the moment that matters most by hand: a site crashes before it has stored the new list.
Planted bugs show that both can fail.
"""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.sim.chunks import in_chunks
from tests.sim.groups_world import GroupSite, Life
from tests.sim.list_world import ListWorld

from reconvene.core.groups.events import GroupEvent
from reconvene.core.groups.lineage import Lineage
from reconvene.core.options import Options
from reconvene.core.record import boot, stored_list
from reconvene.core.site import Site
from reconvene.sim.cluster import Cluster
from reconvene.sim.core import SiteLike
from reconvene.sim.node import Node
from reconvene.site_list import SiteList, read_list
from reconvene.verify.engine import verify
from reconvene.verify.history import History

SEEDS = 60
_CHUNK = 10
SECOND = 1_000_000_000


@pytest.mark.parametrize("start", in_chunks(SEEDS, _CHUNK))
def test_seeds(start: int) -> None:
    used = finished = 0
    for seed in range(start, start + _CHUNK):
        world = ListWorld(seed)
        world.run()
        assert not world.two_at_once(), seed
        used += len(world.used)
        finished += any(known.base > 1 for known in world.lists())
        if world.all_reachable:
            assert all(known.finished for known in world.lists()), seed
            assert all(world.primary()), seed
    assert used > 20
    assert finished > 5


def test_traces_pass_every_check() -> None:
    """Of safety: of groups with the filter too, for which virtual synchrony knows one primary component. Those of
    liveness go by the scenario's last network, which this world mends."""
    for seed in (2, 5):
        result = ListWorld(seed, recorded=True).run()
        report = verify([History.of(result.meta, result.rows)])
        broken = [check.id for check in report.checks if check.violations and not check.id.startswith("live.")]
        assert not broken, seed
        assert sum(check.cases for check in report.checks if check.id.startswith("vs.")) > 20


def test_ignoring_the_older_list_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    primary = SiteList.primary
    monkeypatch.setattr(
        SiteList,
        "primary",
        lambda self, members: primary(replace(self, lists={self.newest: self.lists[self.newest]}), members),
    )
    world = ListWorld(53)
    world.run()
    assert world.two_at_once()


# -- by hand


class Replacement:
    """a b c are to become c d e. Together, b, c and d hold both majorities; but b crashes before it has stored the
    new list. Then it meets a, and d meets e."""

    def __init__(self) -> None:
        self.files = {"a": (1, "abc"), "b": (1, "abc"), "c": (2, "cde"), "d": (2, "cde"), "e": (2, "cde")}
        self.cluster = Cluster("abcde", seed=3, core=self, options=Options(return_unsent=True))
        self.doomed = False

    # how sites are made

    def boot(self, stored: bytes | None, ordinal: int, token: int) -> bytes:
        name = self.cluster.names[ordinal]
        version, listed = self.files[name]
        known = stored_list(stored)
        if known is None and name == "c":
            known = read_list(None, 1, "abc", "abcde")  # it had the first version before
        return boot(stored, ordinal, token, read_list(known, version, listed, "abcde"))

    def site(self, options: Options, ordinal: int, sites: int, record: bytes, now: int) -> SiteLike:
        return GroupSite(self, options, ordinal, sites, record, now)

    def begin(self, life: Life) -> None:
        pass

    def react(self, site: GroupSite, events: list[GroupEvent]) -> None:
        pass

    # what happens

    def run(self) -> None:
        cluster = self.cluster
        cluster.on_step(self._step)
        cluster.partition(["a", "bcd", "e"])
        cluster.start()
        cluster.run_for(2 * SECOND)
        assert self.doomed, "b has formed a configuration with c and d"
        cluster.partition(["ab", "c", "de"])
        if not cluster.node("b").up:
            cluster.restart("b")
        cluster.run_for(2 * SECOND)

    def _step(self, node: Node, before: str, now: str) -> None:
        site = node.site
        if node.name == "b" and now.startswith("recovering") and not self.doomed and isinstance(site, GroupSite):
            round_ = site.site.changes.round
            if round_ is not None and round_.members == (1, 2, 3):
                self.doomed = True
                self.cluster.doom_sync("b", completes=False)

    def primary(self) -> list[str]:
        """The sites that take themselves for members of the primary component."""
        sites = {node.name: node.site for node in self.cluster.nodes}
        return [name for name, site in sites.items() if isinstance(site, GroupSite) and site.groups._lineage.active]


def test_a_site_that_crashes_before_it_has_stored_the_list() -> None:
    story = Replacement()
    story.run()
    assert story.primary() == ["a", "b"]


def _finished_when_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    install: Callable[..., None] = Lineage.install

    def too_early(self: Any, number: int, members: Any, sites: SiteList) -> None:
        install(self, number, members, sites)
        if self.primary:
            self.newly_used = (sites.newest, number)

    monkeypatch.setattr(Lineage, "install", too_early)


def _not_waited_for_the_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Site, "sites_kept", property(lambda self: True))


@pytest.mark.parametrize("plant", [_finished_when_installed, _not_waited_for_the_sync])
def test_what_would_give_two_primary_components(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    story = Replacement()
    story.run()
    assert story.primary() == ["a", "b", "d", "e"]
