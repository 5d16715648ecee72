"""The size of frames fits the path: an MTU of 1,500 and of 9,000, between network namespaces."""

from pathlib import Path

import pytest
from tests.network.load import Load
from tests.network.packets import inside, kernel_counts
from tests.network.sites import RealSites

from reconvene.lab.namespaces import Namespaces, available
from reconvene.runtime.config.file import load as load_config
from reconvene.runtime.node.explain import explain, lines

WHY_NOT = available()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))


@pytest.mark.parametrize(("mtu", "least", "most"), [(1500, 1200, 1400), (9000, 8700, 8900)])
def test_the_frame_follows_the_path(tmp_path: Path, mtu: int, least: int, most: int) -> None:
    with Namespaces(2, mtu=mtu) as network:
        sites = RealSites(tmp_path, "ab", network=network)
        found = inside(network, 0, lambda: explain(load_config(sites.file("a"))))
        assert found.mtus == {"b": mtu}
        assert least < found.frame_bytes < most
        assert f"{found.frame_bytes} bytes of messages; MTU {mtu} to b" in "\n".join(lines(found))


@pytest.mark.long("sites in namespaces")
def test_frames_larger_than_a_packet(tmp_path: Path) -> None:
    settings = {"transport": {"frame_bytes": 8_900}}
    with Namespaces(2, mtu=1500) as network, RealSites(tmp_path, "ab", settings, network=network) as sites:
        sites.start()
        sites.wait_for()
        (line,) = sites.lines("a", "frames_beyond_path")
        assert "frame_bytes=8900" in line
        assert "MTU 1500" in line
        with Load(sites.sockets, size=30_000) as load:
            load.until_moved(messages=10)
            load.hold()
            load.until_delivered(load.accepted(), *"ab")
        assert not load.trouble
        counts = kernel_counts(network, 0)
        assert counts["Ip:FragCreates"] >= 10 * 4 * 6, "a message is four frames, a frame seven packets"
        assert counts["Ip:ReasmOKs"] >= 10 * 4
        sites.judge()
