"""A cluster's key is replaced, site by site and without a restart, while it works."""

import signal
from pathlib import Path

import pytest
from tests.network.load import Load
from tests.network.sites import RealSites, until

from reconvene.runtime.access.key_files import write_cluster_key


def list_keys(sites: RealSites, name: str, keys: list[Path]) -> None:
    """Writes the keys into the site's file, as an operator would. Returns once the site has read them."""
    told = len(sites.lines(name, " keys "))
    sites.write(name, {"seal": {"keys": [str(key) for key in keys]}})
    sites.signal(signal.SIGHUP, name)
    until(lambda: len(sites.lines(name, " keys ")) > told, lambda: sites.log(name))


@pytest.mark.long("sites in namespaces; tests/runtime/net has the keys")
def test_rotation(tmp_path: Path) -> None:
    new = tmp_path / "new"
    new_id = write_cluster_key(new).id.hex()
    with RealSites(tmp_path, "abc") as sites:
        old = sites.key
        sites.start()
        sites.wait_for()
        with Load(sites.sockets) as load:
            load.until_moved()
            before = sites.statuses()
            for keys in ([old, new], [new, old], [new]):
                for name in sites.names:
                    list_keys(sites, name, keys)
                    load.until_moved(messages=5)
            load.hold()
            load.until_delivered(load.accepted(), *sites.names)
        assert not load.trouble
        for name, status in sites.statuses().items():
            assert f"seals={new_id} opens={new_id}" in sites.lines(name, " keys ")[-1]
            assert not sites.lines(name, "configuration has changed")
            assert status["configuration"] == before[name]["configuration"]
            drops = {key: count for key, count in status["counters"].items() if key.startswith("dropped_")}
            assert drops == {key: before[name]["counters"][key] for key in drops}, "each is opened, whatever its key"
            assert status["counters"]["sessions"] == before[name]["counters"]["sessions"]

        sites.leave("c")
        sites.write("c", {"seal": {"keys": [str(old)]}})
        sites.start("c")
        until(lambda: sites.lines("c", " dropped_unknown_key "), lambda: sites.log("c"))
        until(lambda: sites.lines("a", " dropped_unknown_key ", sites.addresses["c"]), lambda: sites.log("a"))
        statuses = sites.wait_for("ab", "c")
        assert statuses["a"]["counters"]["dropped_unknown_key"] > 0
        list_keys(sites, "c", [new])  # the site that was forgotten catches up
        sites.judge()
