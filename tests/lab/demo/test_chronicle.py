"""Configurations, read from traces while they are written, compared with those that the script announced."""

from pathlib import Path

import pytest

from reconvene.errors import Malformed
from reconvene.lab.demo.chronicle import Chronicle
from reconvene.trace.events import Row
from reconvene.trace.writer import encode_row, node_file

SITES = ("a", "b", "c")


class Files:
    """Traces that are being written."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._events = dict.fromkeys(SITES, 0)
        for site in SITES:
            node_file(directory, site).touch()

    def install(self, members: str, at_ns: int = 0, kind: str = "regular") -> None:
        """Adds the configuration at each of its members."""
        for site in members:
            self._events[site] += 1
            row = Row(
                node=site, inc=1, n=self._events[site], t=at_ns, layer="evs", kind="conf",
                conf=f"{self._events[site]}", conf_kind=kind, members=list(members),
            )  # fmt: skip
            self.write(site, encode_row(row))

    def write(self, site: str, data: bytes) -> None:
        with node_file(self._directory, site).open("ab") as file:
            file.write(data)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def chronicle(tmp_path: Path, files: Files) -> Chronicle:
    for members in ("a", "b", "c", "ab", "abc"):  # any configuration is fine while they start
        files.install(members, 10)
    chronicle = Chronicle(tmp_path, SITES)
    chronicle.read()
    return chronicle


def test_what_is_announced_is_no_surprise(files: Files, chronicle: Chronicle) -> None:
    assert chronicle.unexpected() is None
    chronicle.expect("ab", "c")
    files.install("ab", 1_500, kind="hidden")  # no site ever has it
    files.install("ab", 1_700)
    files.install("c", 1_600)
    assert chronicle.took("the cut", 1_000).took_ns == 700
    assert chronicle.unexpected() is None


@pytest.mark.parametrize(
    ("announced", "members", "said"),
    [
        ((), ("ab", "c"), "site a went into a configuration of a b: nothing was due"),
        (("a", "bc"), ("a", "bc", "b"), "site b went into a configuration of b: nothing was due"),
        (("abc",), (), "site a is not yet in a configuration of a b c"),
        (("ab", "c"), (*4 * ("a",), "ab", "c"), "site a went into a configuration of a: expected a b"),
    ],
)
def test_what_is_not_is_named(
    announced: tuple[str, ...], members: tuple[str, ...], said: str, files: Files, chronicle: Chronicle
) -> None:
    chronicle.expect(*announced)
    for each in members:
        files.install(each, 2_000)
    chronicle.read()
    assert chronicle.unexpected() == said


def test_steps_on_the_way(files: Files, chronicle: Chronicle) -> None:
    chronicle.expect("a", "b", "c")
    for members in ("ab", "c", "a", "b"):
        files.install(members, 2_000)
    chronicle.expect("abc")
    for members in ("bc", "abc"):
        files.install(members, 3_000)
    chronicle.read()
    assert chronicle.unexpected() is None
    assert chronicle.steps() == (6, 4)


def test_a_stranger_is_not_on_the_way(files: Files, chronicle: Chronicle) -> None:
    chronicle.expect("ab", "c")
    for members in ("ab", "c"):
        files.install(members, 2_000)
    chronicle.expect("a", "b")
    for members in ("abc", "a", "b"):
        files.install(members, 3_000)
    chronicle.read()
    assert chronicle.unexpected() == "site a went into a configuration of a b c: expected a"


def test_an_incomplete_line_is_read_the_next_time(files: Files, chronicle: Chronicle) -> None:
    row = Row(node="a", inc=1, n=9, t=5, layer="evs", kind="conf", conf="9", conf_kind="regular", members=["a"])
    line = encode_row(row)
    files.write("a", line[:20])
    chronicle.read()
    assert chronicle.unexpected() is None
    files.write("a", line[20:])
    chronicle.read()
    assert chronicle.unexpected() == "site a went into a configuration of a: nothing was due"


def test_a_change_without_a_configuration(chronicle: Chronicle) -> None:
    with pytest.raises(Malformed, match="no site has a new configuration since the cut"):
        chronicle.took("the cut", 1_000)
