"""Joined clusters on a network with real cuts: between clusters, between one cluster's gateways, within a cluster."""

import asyncio
from pathlib import Path
from typing import cast

import pytest
from tests.network.joined import JoinedSites
from tests.real.test_wide import expect_good
from tests.real.wide_ledger import Ledger

from reconvene.lab.namespaces import JoinedNamespaces, available
from reconvene.local import LocalDomains

WHY_NOT = available()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))

CLUSTERS = ("berlin", "oslo", "paris")


def _nodes(*names: str) -> frozenset[str]:
    return frozenset(f"{name}/{site}" for name in names for site in "abc")


@pytest.mark.long("nine sites in namespaces, and three cuts")
def test_cuts_between_and_within_clusters(tmp_path: Path) -> None:
    with JoinedNamespaces(3, 3) as network, JoinedSites(tmp_path, CLUSTERS, network) as sites:
        sites.start()
        asyncio.run(_through_cuts(network, sites))
        trace = sites.finish_trace()
    expect_good(trace, "wide.order", "wide.agree", "wide.first", "wide.rep", "wide.self", "live.wide")


async def _through_cuts(network: JoinedNamespaces, sites: JoinedSites) -> None:
    ledger = Ledger(cast(LocalDomains, sites), list(sites.nodes), every_s=0.05)
    await ledger.start()
    await asyncio.sleep(0.5)

    # The line between berlin and the two others.
    network.cut_clusters([[0], [1, 2]])
    sites.changed()
    await asyncio.to_thread(
        sites.wait_for, {_nodes("berlin"): ("berlin",), _nodes("oslo", "paris"): ("oslo", "paris")}
    )
    await asyncio.sleep(0.5)
    await _heal(network, sites)

    # The line between berlin's gateways: both stay connected above with the others.
    network.cut_within(0, [[0, 2], [1]])
    sites.changed()
    await asyncio.sleep(4.0)
    await _heal(network, sites)

    # A local split with both parts above.
    network.cut_within(0, [[0], [1, 2]])
    sites.changed()
    await asyncio.sleep(4.0)
    await _heal(network, sites)

    await asyncio.sleep(0.5)
    await ledger.stop_sending()
    await asyncio.sleep(2.0)
    await ledger.finish(1.0)
    ledger.judge_parted()


async def _heal(network: JoinedNamespaces, sites: JoinedSites) -> None:
    network.heal()
    sites.changed()
    await asyncio.to_thread(sites.wait_for, {frozenset(sites.nodes): CLUSTERS})
    await asyncio.sleep(0.5)
