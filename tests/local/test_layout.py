"""Directories: made, recognized, refused."""

import tomllib
from pathlib import Path

import msgspec
import pytest

from reconvene.errors import Malformed, ReconveneError, Rejected, Unavailable
from reconvene.local import Layout, LocalCluster, site_names
from reconvene.local.layout import Choices, Ports
from reconvene.local.ports import choose, is_free
from reconvene.local.site_file import write_site_file
from reconvene.local.toml import to_toml
from reconvene.runtime.config.file import load


def test_names() -> None:
    assert site_names(3) == ("a", "b", "c")
    for count in (1, 26, 27, 64):
        names = site_names(count)
        assert len(set(names)) == count
        assert list(names) == sorted(names)
    for count in (0, 65, -1):
        with pytest.raises(Rejected, match="expected 1 to 64"):
            site_names(count)


def test_toml_is_read_back() -> None:
    document = {
        "a": 1,
        "b": True,
        "c": 'quotes " and \\ and \n and ü',
        "d": [1, 2],
        "table": {"x": 0.5, "inner": {"odd key.": "y"}},
        "names": ["a", "b"],
    }
    assert tomllib.loads(to_toml(document)) == document
    with pytest.raises(TypeError):
        to_toml({"a": None})


def test_ports_are_free_and_different() -> None:
    found = choose(20)
    assert len(set(found)) == 20
    assert all(is_free(port) for port in found)


def test_what_was_chosen_is_kept(tmp_path: Path) -> None:
    cluster = LocalCluster.create(tmp_path / "c", nodes=4, order="all-ack", insecure=True, trace=False)
    again = LocalCluster(tmp_path / "c")
    assert again.choices == cluster.choices
    assert again.names == ("a", "b", "c", "d")
    assert again.choices.order == "all-ack"
    assert set(again.states().values()) == {"down"}
    assert not again.layout.key.exists()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "`schema` is None; expected 1"),
        ("x", "expected TOML"),
        ("schema = 7", "`schema` is 7; expected 1"),
        ("schema = 1", "missing required field"),
        ('schema = 1\ncluster = "c"\n[sites]', "0 sites: expected 1 to 64"),
        ('schema = 1\ncluster = "c"\n[sites."../x"]\ndatagrams = 1\nhttp = 2', "expected a name"),
    ],
)
def test_a_broken_file(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "cluster.toml").write_text(content)
    with pytest.raises(ReconveneError, match=problem):
        LocalCluster(tmp_path)


def test_where_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="holds no cluster; `reconvene up"):
        LocalCluster(tmp_path)


def test_a_directory_of_someone_else(tmp_path: Path) -> None:
    (tmp_path / "letter").touch()
    with pytest.raises(Rejected, match="is not empty and holds no cluster"):
        LocalCluster.create(tmp_path)
    with pytest.raises(Rejected, match="is a file"):
        LocalCluster.create(tmp_path / "letter")
    with pytest.raises(Rejected, match="can't be made: Not a directory"):
        LocalCluster.create(tmp_path / "letter" / "below")
    assert [path.name for path in tmp_path.iterdir()] == ["letter"]


def test_bad_choices(tmp_path: Path) -> None:
    for nodes, problem in ((("a", "a"), "named twice"), (("a/b",), "expected a name"), (0, "expected 1 to 64")):
        with pytest.raises(Rejected, match=problem):
            LocalCluster.create(tmp_path / "c", nodes=nodes)
    with pytest.raises(Rejected, match="expected atop or all-ack"):
        LocalCluster.create(tmp_path / "c", order="alphabetical")
    assert not (tmp_path / "c").exists()


def test_long_directories_have_short_sockets(tmp_path: Path) -> None:
    layout = Layout(tmp_path / ("long" * 20))
    choices = Choices(cluster="c", sites={"a": Ports(1, 2)})
    placed = layout.place_sockets(choices)
    assert Path(placed.sockets).is_dir()
    assert Path(placed.sockets).stat().st_mode & 0o777 == 0o700
    assert layout.place_sockets(placed) == placed
    layout.socket(placed, "a").touch()
    layout.remove_sockets(placed)
    assert not Path(placed.sockets).exists()
    again = layout.place_sockets(placed)
    assert again.sockets != placed.sockets
    layout.remove_sockets(again)
    assert not Path(again.sockets).exists()


def test_one_command_at_a_time(tmp_path: Path) -> None:
    layout = LocalCluster.create(tmp_path / "c").layout
    with layout.locked(), pytest.raises(Unavailable, match="another command"), layout.locked():
        pass
    with layout.locked():
        pass


def test_a_site_file_is_a_configuration(tmp_path: Path) -> None:
    cluster = LocalCluster.create(tmp_path / "c", nodes=3, isis=True, settings={"limits": {"processes": 7}})
    choices = msgspec.structs.replace(
        cluster.choices, sites={name: Ports(20_000 + at, 21_000 + at) for at, name in enumerate(cluster.names)}
    )
    write_site_file(cluster.layout, choices, "b", ("c",))
    config = load(cluster.layout.config("b"))
    assert config.name == "b"
    assert config.names == ("a", "b", "c")
    assert config.faults.allowed
    assert config.faults.blocked == ("c",)
    assert config.limits.processes == 7
    assert config.isis.enabled
    assert config.trace.dir == cluster.trace_dir
    assert config.clients.unix == Path(cluster.addresses["b"])
    assert config.http.address == ("127.0.0.1", 21_001)
    assert config.seal.keys == (cluster.layout.key,)


def test_faults_of_a_stranger(tmp_path: Path) -> None:
    cluster = LocalCluster.create(tmp_path / "c")
    cluster.layout.faults.write_text("[")
    with pytest.raises(Malformed, match=r"faults\.json"):
        _ = cluster.components
