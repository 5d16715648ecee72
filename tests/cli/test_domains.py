"""The commands for joined clusters on this machine."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconvene.errors import Rejected
from reconvene.local import LocalDomains
from reconvene.local.domain_layout import DomainLayout, cluster_names


def run(*arguments: object) -> tuple[int, str, str]:
    program = [sys.executable, "-m", "reconvene", *map(str, arguments)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


def document(*arguments: object) -> dict[str, Any]:
    code, out, err = run(*arguments, "--json")
    assert code == 0, out + err
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.fixture
def towns(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "towns"
    yield directory
    if DomainLayout(directory).exists():
        LocalDomains(directory).kill()


@pytest.mark.long("starts six sites, and ends them")
def test_joined_clusters_from_start_to_end(towns: Path) -> None:
    begun = document("up", "--clusters", 3, "--nodes", 2, "--gateways", 2, "--dir", towns)
    assert [cluster["name"] for cluster in begun["clusters"]] == ["berlin", "oslo", "paris"]
    assert all(cluster["connected"] == ["berlin", "oslo", "paris"] for cluster in begun["clusters"])
    assert run("up", "--clusters", 2, "--dir", towns)[2].count("--clusters is 3 in the existing cluster") == 1

    berlin = next(cluster for cluster in begun["clusters"] if cluster["name"] == "berlin")
    sent = document("send", "--wide", "lobby", "hello", "--dir", towns / "clusters" / "paris")
    assert (sent["sent"], sent["delivered"]) == (1, 1)
    after = document("crash", "@berlin", "--dir", towns)
    now = next(cluster for cluster in after["clusters"] if cluster["name"] == "berlin")
    assert now["representative"] != berlin["representative"]
    assert {site["state"] for site in now["sites"]} == {"up", "down"}

    parted = document("partition", "berlin", "paris,oslo", "--dir", towns)
    assert parted["components"] == [["berlin"], ["oslo", "paris"]]
    found = {cluster["name"]: cluster["connected"] for cluster in parted["clusters"]}
    assert found == {"berlin": ["berlin"], "oslo": ["oslo", "paris"], "paris": ["oslo", "paris"]}
    document("restart", f"berlin/{berlin['representative']}", "--dir", towns)
    healed = document("heal", "--dir", towns)
    assert all(len(cluster["connected"]) == 3 for cluster in healed["clusters"])

    code, out, _ = run("domains", "--dir", towns)
    assert code == 0
    assert "berlin  represented by" in out
    assert "passes out *, in *" in out
    assert set(document("status", "--dir", towns)["clusters"]) == {"berlin", "oslo", "paris"}
    code, out, err = run("verify", towns / "trace")
    assert code == 0, f"a copy of all levels at one moment: {out}{err}"
    assert "clusters/NAME" in run("log", "read", "--dir", towns)[2]
    ended = document("down", "--settle", "--dir", towns)
    assert (len(ended["ended"]), ended["killed"], ended["settled"]) == (6, [], True)
    code, out, err = run("verify", towns / "trace")
    assert code == 0, out + err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["up", "--clusters", "0"], "0 clusters: expected 1 to 64"),
        (["up", "--clusters", "2", "--nodes", "2", "--gateways", "3"], "3 gateways: expected 1 to 2"),
        (["up", "--clusters", "33", "--nodes", "2", "--gateways", "2"], "66 gateways: expected 1 to 64"),
        (["up", "--gateways", "2"], "--gateways: expected --clusters with it"),
        (["up", "--clusters", "2", "--followers", "1"], "--followers: expected none with --clusters"),
        (["domains"], "holds no joined clusters"),
    ],
)
def test_bad_input(towns: Path, arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    from reconvene.cli import main

    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--dir", str(towns)])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert expected in error
    assert error.count("\n") == 1


def test_names(tmp_path: Path) -> None:
    assert cluster_names(3) == ("berlin", "paris", "oslo")
    assert cluster_names(11)[-1] == "c11"
    domains = LocalDomains.create(tmp_path / "x", clusters=["north", "south"], nodes=2, gateways=1)
    assert domains.nodes == ("north/a", "north/b", "south/a", "south/b")
    assert domains.resolve("north/b") == ("north", "b")
    for name, expected in (("a", "expected CLUSTER/SITE"), ("west/a", "there is no cluster 'west'")):
        with pytest.raises(Rejected, match=expected):
            domains.resolve(name)
    with pytest.raises(Rejected, match="is not empty"):
        LocalDomains.create(tmp_path / "x")
    with pytest.raises(Rejected, match="expected up to 32 small letters"):
        LocalDomains.create(tmp_path / "y", clusters=["above"])
