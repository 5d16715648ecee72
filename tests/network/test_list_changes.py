"""The list of sites changes on real sites, one restart after another, with a partition in the middle."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.network.sites import NODE, RealSites, until

import reconvene.blocking
from reconvene.errors import Unavailable

FIVE, THREE = "abcde", "abc"


def give(sites: RealSites, name: str, listed: str, version: int, **more: object) -> None:
    """Writes the site's file with this list."""
    addresses = {other: sites.addresses[other] for other in listed}
    sites.write(name, {"sites": addresses, "sites_version": version, **more}, instead=False)
    text = sites.file(name).read_text()
    for other in set(sites.addresses) - set(listed):
        text = text.replace(f'{other} = "{sites.addresses[other]}"\n', "")
    sites.file(name).write_text(text)


def restart(sites: RealSites, name: str, listed: str, version: int, **more: object) -> None:
    sites.leave(name)
    give(sites, name, listed, version, **more)
    sites.start(name)


def cut(sites: RealSites, names: str, others: str) -> None:
    """Disconnects these sites from the others. Sites that are not named stay connected to all."""
    for name in names:
        with reconvene.blocking.connect(f"unix:{sites.socket(name)}") as site:
            site.block(list(others), list(others))


def listed(sites: RealSites, name: str) -> dict[str, Any]:
    found: dict[str, Any] = sites.status(name)["list"]
    return found


def health(sites: RealSites, names: str, wanted: str) -> None:
    def holds() -> bool:
        return all(status["health"] == wanted for status in sites.statuses(*names).values())

    until(holds, lambda: f"{names} {wanted}: {sites.statuses(*names)}")


def says_safe(sites: RealSites, name: str, data: bytes) -> bool:
    """Whether a group with the filter delivers a safe message at this site."""
    with reconvene.blocking.connect(f"unix:{sites.socket(name)}") as site:
        group = site.join("bank", primary=True)
        try:
            for _ in group.events(timeout=0.7):
                if group.view is not None:
                    break
            if group.view is None or group.blocked:
                return False
            group.send(data, "safe")
            return any(getattr(event, "data", None) == data for event in group.events(timeout=2.0))
        except Unavailable:
            return False


@pytest.mark.long("a real cluster for ten seconds; tests/sim/test_list_changes.py has such changes")
def test_five_become_three_through_a_partition(tmp_path: Path) -> None:
    """a and b have the new list and are a majority of it. c, d and e have the old list and are a majority of that."""
    with RealSites(tmp_path, FIVE, {"faults": {"allowed": True}}) as sites:
        sites.start()
        sites.wait_for()
        cut(sites, "cde", "ab")
        for name in "ab":
            restart(sites, name, THREE, 2)
        sites.wait_for("ab", "cde")
        health(sites, "ab", "minority")
        health(sites, "cde", "primary")
        assert says_safe(sites, "d", b"in the old list's majority")
        assert not says_safe(sites, "a", b"in the new list's majority alone")
        assert listed(sites, "a")["waits_for"] == (
            "one component with a majority of version 1 (a b c d e) and of version 2 (a b c)"
        )
        cut(sites, "cde", "")
        sites.wait_for()
        until(lambda: all(listed(sites, name)["finished"] for name in FIVE), "version 2 finished")
        restart(sites, "c", THREE, 2)
        for name in "de":
            sites.leave(name)
        sites.wait_for(THREE)
        sites.leave("c")
        sites.wait_for("ab")
        health(sites, "ab", "primary")
        assert says_safe(sites, "a", b"two of three")


@pytest.mark.long("sites in namespaces")
def test_one_version_with_two_lists_is_refused_at_both(tmp_path: Path) -> None:
    with RealSites(tmp_path, "abcd") as sites:
        for name in "abc":
            give(sites, name, "abc", 1)
        give(sites, "d", "abd", 2, numbers=["a", "b", "c", "d"])
        sites.start("a", "b", "c")
        sites.wait_for("abc")
        restart(sites, "a", "abcd", 2)
        sites.start("d")
        until(lambda: sites.lines("a", "version 2 of the list", "a b d there and a b c d here"), "a line at a")
        until(lambda: sites.lines("d", "version 2 of the list", "a b c d there and a b d here"), "a line at d")
        assert sites.counter("a", "dropped_other_sites") > 0
        assert "a b d there" in listed(sites, "a")["refused"]["d"]
        assert "a b c d there" in listed(sites, "d")["refused"]["a"]
        health(sites, "abc", "primary")
        health(sites, "d", "minority")


def test_a_list_that_changed_under_its_version_ends_the_start(tmp_path: Path) -> None:
    with RealSites(tmp_path, "ab") as sites:
        sites.start()
        sites.wait_for()
        sites.leave("b")
        give(sites, "b", "b", 1)
        ended = subprocess.run(
            [sys.executable, *NODE, "node", "--config", str(sites.file("b"))],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ended.returncode == 2
        assert "version 1 of the list is a b as this site has stored it, and b in the file" in ended.stderr
        assert "Traceback" not in ended.stderr


@pytest.mark.long("a real cluster for ten seconds")
def test_a_disk_that_is_lost_after_the_list_has_changed(tmp_path: Path) -> None:
    """Once a is removed, the numbers of the other sites are no longer their places in the file, and what the site
    knew of the list is lost with its disk."""
    with RealSites(tmp_path, "abcd", {"faults": {"allowed": True}}) as sites:
        sites.start()
        sites.wait_for()
        for name in "bcd":
            restart(sites, name, "bcd", 2)
        until(lambda: all(listed(sites, name)["finished"] for name in "bcd"), "version 2 finished")
        sites.leave("a")
        for _ in range(2):
            sites.crash("c")
            sites.start("c")
        sites.wait_for("bcd")
        sites.crash("c")
        shutil.rmtree(tmp_path / "c" / "store")
        argv = [sys.executable, *NODE, "replace", "--config", str(sites.file("c"))]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, cwd=tmp_path)
        assert done.returncode == 2
        assert "numbers" in done.stderr
        assert not (tmp_path / "c" / "store").exists()
        give(sites, "c", "bcd", 2, numbers=["a", "b", "c", "d"], faults={"allowed": True, "blocked": ["b", "d"]})
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "not heard" not in done.stdout
        assert "its next incarnation is 5" in done.stdout
        sites.start("c")
        found = listed(sites, "c")
        assert (found["version"], found["finished"]) == (2, True), "the others have told it to replace"
        cut(sites, "c", "")
        sites.wait_for("bcd")
