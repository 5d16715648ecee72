"""A site that does not belong to the cluster is never admitted, and the logs of both sides say why, in one line
each."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.network import variant
from tests.network.sites import NODE, RealSites, until

from reconvene.runtime.access.key_files import write_cluster_key

NEXT_MAJOR = (variant.__file__, "major")


@dataclass(frozen=True)
class Stranger:
    """The third site, with one wrong setting."""

    settings: Callable[[RealSites], Mapping[str, object]] = lambda sites: {}
    program: tuple[str, ...] = NODE
    refused: tuple[str, str] = ("", "")
    """The event that the cluster logs, and the reason."""
    refuses: tuple[str, str] = ("", "")
    """The event that the site logs about the cluster, and the reason."""


def other_key(sites: RealSites) -> Mapping[str, object]:
    path = sites.directory / "other.key"
    write_cluster_key(path, force=True)
    return {"seal": {"keys": [str(path)]}}


STRANGERS = {
    "wrong key": Stranger(
        other_key,
        refused=("dropped_unknown_key", "sealed with key"),
        refuses=("dropped_unknown_key", "sealed with key"),
    ),
    "another cluster": Stranger(
        lambda sites: {"cluster": "shed"},
        refused=("dropped_foreign_cluster", "of a cluster with another name"),
        refuses=("dropped_foreign_cluster", "of a cluster with another name"),
    ),
    "another major version": Stranger(
        program=NEXT_MAJOR,
        refused=("dropped_version", "speaks wire version 2, this site 1"),
        refuses=("dropped_version", "speaks wire version 1, this site 2"),
    ),
    "insecure": Stranger(
        lambda sites: {"seal": {"insecure": True}},
        refused=("dropped_unsealed", "not sealed: its sender is configured as insecure, this site is not"),
        refuses=("dropped_sealed", "sealed, and this site is configured as insecure"),
    ),
    "another list of sites": Stranger(
        lambda sites: {"sites": {**sites.addresses, "d": "127.0.0.1:9"}},
        refused=("dropped_other_sites", "the configuration of c lists other sites"),
        refuses=("dropped_other_sites", "lists other sites"),
    ),
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSites]:
    """Two sites of three, in one configuration."""
    with RealSites(tmp_path_factory.mktemp("pair"), "abc") as sites:
        sites.start("a", "b")
        sites.wait_for("ab")
        yield sites


@pytest.mark.parametrize("kind", STRANGERS)
def test_a_stranger_stays_outside(pair: RealSites, tmp_path: Path, kind: str) -> None:
    stranger = STRANGERS[kind]
    settings = {"dir": str(tmp_path), "trace": {}, **stranger.settings(pair)}
    pair.write("c", settings, instead=True)
    before = pair.statuses("a", "b")
    pair.log_file("c").unlink(missing_ok=True)
    pair.start("c", program=stranger.program)
    try:
        pair.wait_for("ab", "c")
        event, why = stranger.refused
        until(lambda: all(pair.lines(name, event, why) for name in "ab"), lambda: pair.log("a"))
        time.sleep(0.5)  # time for more beacons and their consequences
        for name in "ab":
            assert len(pair.lines(name, f" {event} ", f"source={pair.addresses['c']} ", why)) == 1, pair.log(name)
            status = pair.status(name)
            assert status["configuration"] == before[name]["configuration"]
            assert status["counters"][event] > before[name]["counters"][event]
        event, why = stranger.refuses
        for name in "ab":
            assert len(pair.lines("c", f" {event} ", f"source={pair.addresses[name]} ", why)) == 1, pair.log("c")
        status = pair.status("c")
        assert (status["members"], status["configurations"]) == (["c"], 1)
        assert status["counters"][event] > 2
        assert status["counters"]["sessions"] == 0
    finally:
        pair.crash("c")
