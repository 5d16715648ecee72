"""reconvene isis, on real processes."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import urlopen

import pytest
from tests.cli.test_operations import call

import reconvene
from reconvene import blocking
from reconvene.cli.isis_listen import Painter, _document
from reconvene.client.events import Blocked, Process
from reconvene.client.isis_events import Action, Cast, GroupLeft, GroupView, Killed, ProcessFailed
from reconvene.local import LocalCluster

A, B = Process("a", 1, 1), Process("b", 1, 4)
PATIENCE_S = 60
MUTE = """
import sys, time
from reconvene import blocking
with blocking.connect(sys.argv[1]) as site:
    site.isis.join("mute")
    print("joined", flush=True)
    for event in site.isis:
        print(type(event).__name__, flush=True)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster.create(tmp_path_factory.mktemp("isis") / "c", nodes=3, isis=True) as made:
        made.start()
        yield made
        assert call("verify", made.trace_dir) == 0


class Shell:
    def __init__(self, cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory = cluster.layout.directory
        self._capsys = capsys

    def run(self, *arguments: object, code: int = 0) -> str:
        found = call("isis", *arguments, "--dir", self.directory)
        captured = self._capsys.readouterr()
        assert found == code, captured
        return captured.out

    def json(self, *arguments: object, code: int = 0) -> Any:
        return json.loads(self.run(*arguments, "--json", code=code))

    def refused(self, *arguments: object) -> str:
        assert call("isis", *arguments) == 2
        captured = self._capsys.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1, captured.err
        return captured.err


@pytest.fixture
def shell(cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(cluster, capsys)


@contextmanager
def program(*arguments: object) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen([sys.executable, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def event(process: "subprocess.Popen[str]") -> dict[str, Any]:
    told: dict[str, Any] = json.loads(line(process))
    return told


@contextmanager
def answering(address: str, group: str) -> Iterator[blocking.IsisGroup]:
    """A member that answers everything with what it was asked, in capitals."""
    with blocking.connect(address) as site:
        joined = site.isis.join(group, timeout=PATIENCE_S)

        def serve() -> None:
            for event in site.isis:
                if isinstance(event, reconvene.Cast) and event.wants_reply:
                    event.reply(event.data.upper())
                elif isinstance(event, reconvene.GroupLeft):
                    return

        serving = threading.Thread(target=serve)
        serving.start()
        try:
            yield joined
        finally:
            joined.leave()
            serving.join(PATIENCE_S)


def test_groups_cast_and_listen(shell: Shell, cluster: LocalCluster) -> None:
    assert "no group has members" in shell.run("groups")
    listen = ("-m", "reconvene", "isis", "listen", "bank", "--dir", shell.directory, "--site", "b", "--count", 5)
    with program(*listen, "--json-lines") as listener:
        first = event(listener)
        assert (first["event"], first["view"], len(first["members"])) == ("view", 1, 1)
        (heard,) = first["members"]
        with answering(cluster.addresses["c"], "bank") as bank:
            grown = event(listener)
            assert (grown["view"], grown["members"][0], len(grown["joined"])) == (2, heard, 1)
            bank.set(mode=b"ro", key=b"\xff")
            assert event(listener)["properties"] == {"mode": {"text": "ro"}, "key": {"base64": "/w=="}}
            _look(shell, grown["members"])
            _cast(shell, listener, grown["members"])
        assert listener.wait(PATIENCE_S) == 0


def _look(shell: Shell, members: list[str]) -> None:
    told = shell.json("groups", "--site", "a")
    assert (told["site"], told["blocked"], told["refused"]) == ("a", False, [])
    assert sorted(told["sites"]) == ["a", "b", "c"]
    assert told["groups"] == [
        {
            "name": "bank",
            "view": 3,
            "members": members,
            "properties": {"mode": {"text": "ro"}, "key": {"base64": "/w=="}},
        }
    ]
    shown = shell.run("groups")
    assert ": a b c\n" in shown
    assert f"bank 3 {' '.join(members)} key=\\xff mode=ro" in " ".join(shown.split())


def _cast(shell: Shell, listener: "subprocess.Popen[str]", members: list[str]) -> None:
    heard, answers = members
    sent = shell.run("cast", "bank", "one", "two words", "--label", "x").split()
    assert [(told["event"], told["text"]) for told in (event(listener), event(listener))] == [
        ("cbcast", "one"),
        ("cbcast", "two words"),
    ]
    assert len(sent) == 2
    asked = shell.json("cast", "bank", "balance?", "--abcast", "--causal", "--label", "q", "--replies", "all")
    assert (asked["kind"], asked["trouble"], len(asked["ids"])) == ("abcast", None, 1)
    assert {reply["process"]: reply["text"] for reply in asked["replies"]} == {heard: "", answers: "BALANCE?"}
    told = event(listener)
    assert (told["event"], told["id"], told["replies"], told["view"]) == ("abcast", asked["ids"][0], -1, 3)
    one = shell.run("cast", "bank", "first?", "--replies", "1", "--unordered").splitlines()
    assert len(one) == 1
    assert event(listener)["replies"] == 1
    told = shell.json("cast", "bank", "act", "--gbcast")
    assert (told["replies"], event(listener)["id"]) == (None, told["ids"][0])


def test_a_member_that_fails_counts_as_a_reply(shell: Shell, cluster: LocalCluster) -> None:
    cast = ("-m", "reconvene", "isis", "cast", "mute", "?", "--dir", shell.directory, "--site", "a")
    with program("-c", MUTE, cluster.addresses["b"]) as mute:
        assert line(mute) == "joined"
        assert line(mute) == "GroupView"
        late = shell.json("cast", "mute", "?", "--replies", "all", "--timeout", "100ms", code=1)
        assert "not all replies came in time" in late["trouble"]
        assert line(mute) == "Cast"
        (member,) = shell.json("groups")["groups"][0]["members"]
        with program(*cast, "--replies", "all") as asks:
            assert line(mute) == "Cast"
            mute.kill()
            assert line(asks) == f"{member} has failed"
            assert asks.wait(PATIENCE_S) == 0


def test_what_it_costs_is_counted(shell: Shell, cluster: LocalCluster) -> None:
    def metrics(site: str) -> dict[str, float]:
        with urlopen(f"{cluster.dashboards[site]}metrics", timeout=10) as answer:
            text = answer.read().decode()
        rows = (line.split() for line in text.splitlines() if line.startswith("reconvene_isis"))
        return {name.removeprefix("reconvene_isis_"): float(number) for name, number in rows}

    with answering(cluster.addresses["b"], "counted"):
        before = metrics("a")
        done = shell.json("cast", "counted", *map(str, range(20)), "--site", "a")
        after = metrics("a")
    assert len(done["ids"]) == 20
    assert after["casts_total"] - before["casts_total"] == 20
    assert after["channel_records_total"] - before["channel_records_total"] >= 20
    assert 0 < after["channel_packets_total"] - before["channel_packets_total"] <= 60
    assert (after["groups"], after["site_view_members"], after["blocked"]) == (1, 3, 0)
    assert [after[name] for name in ("open_casts", "open_bytes", "waiting_casts", "open_calls")] == [0, 0, 0, 0]


def test_through_a_partition(shell: Shell, cluster: LocalCluster) -> None:
    listen = ("-m", "reconvene", "isis", "listen", "club", "--dir", shell.directory, "--site", "a", "--count", 1)
    with program(*listen, "--json-lines") as listener, answering(cluster.addresses["b"], "club"):
        first = event(listener)
        while len(first["members"]) < 2:
            first = event(listener)
        cluster.partition([["a"], ["b", "c"]])
        cluster.wait_for()
        assert event(listener) == {"event": "blocked"}
        told = shell.json("groups", "--site", "a")
        assert (told["blocked"], len(told["groups"][0]["members"])) == (True, 2)
        shown = shell.run("groups", "--site", "a")
        assert "blocked: site a is not in the primary component" in shown
        assert "as last known" in shown
        for command in (("cast", "club", "x"), ("listen", "club")):
            refused = shell.refused(*command, "--site", "a", "--dir", shell.directory)
            assert "site a is not in the primary component" in refused
        assert shell.json("cast", "club", "x", "--replies", "all")["replies"][0]["text"] == "X", "at another site"
        assert len(shell.json("groups")["groups"][0]["members"]) == 1
        cluster.heal()
        cluster.wait_for()
        assert cluster.statuses()["a"]["counters"]["isis_kills"] >= 1
        killed = event(listener)
        assert (killed["event"], killed["was"] in first["members"]) == ("killed", True)
        again = event(listener)
        assert (again["event"], again["members"][1:]) == ("view", [killed["me"]])
        shell.run("cast", "club", "welcome back")
        assert event(listener)["text"] == "welcome back"
        assert listener.wait(PATIENCE_S) == 0


def test_what_is_refused(shell: Shell, cluster: LocalCluster) -> None:
    there = ("--node", cluster.addresses["a"])
    for words, expected in (
        (("cast", "nobody", "x"), "group 'nobody': there is no such group"),
        (("cast", "g"), "isis cast: expected messages"),
        (("cast", "g", "-", "x"), "expected messages or -"),
        (("cast", "g", "x", "--abcast", "--gbcast"), "not both"),
        (("cast", "g", "x", "--causal"), "--causal: expected --abcast"),
        (("cast", "g", "x", "--gbcast", "--replies", "1"), "--gbcast: expected no --label or --replies"),
        (("cast", "g", "x", "--unordered", "--label", "y"), "--unordered: expected no --label"),
        (("cast", "g", "x", "--replies", "some"), "--replies some: expected a number, or all"),
        (("cast", "g", "x", "--replies", "9999"), "replies"),
        (("cast", "g", "x", "--timeout", "0s"), "--timeout 0s: expected at least 1ms"),
        (("cast", "", "x"), "a group's name"),
        (("cast", "g", "x", "--label", "l" * 256), "label: at most 255 bytes"),
        (("listen", "g" * 256), "a group's name"),
        (("listen", "\udcff"), "a group's name"),
    ):
        assert expected in shell.refused(*words, *there), words
    assert "expected either --dir DIR or --node ADDR" in shell.refused("groups")
    with answering(cluster.addresses["a"], "few"):
        assert "2 replies" in shell.refused("cast", "few", "x", "--replies", "2", *there)


def test_what_is_heard() -> None:
    painter = Painter()

    def cast(kind: str, replies: int) -> Cast:
        return Cast(b"hi\x1b", A, kind, "bank", 1, 7, replies, None)  # type: ignore[arg-type]

    first = GroupView("bank", 1, (A,), {}, (A,), (), ())
    second = GroupView("bank", 2, (A, B), {"mode": b"ro"}, (B,), (), ())
    third = GroupView("bank", 3, (A,), {}, (), (B,), (B,))
    for found, text in (
        (first, "── view 1 a:1:1"),
        (second, "── view 2 a:1:1 b:1:4 · joined b:1:4 · mode=ro"),
        (third, "── view 3 a:1:1 · failed b:1:4 · no properties"),
        (GroupView("bank", 4, (A,), {}, (), (B,), ()), "── view 4 a:1:1 · left b:1:4"),
        (cast("cbcast", 0), "a:1:1  hi\\x1b"),
        (cast("abcast", -1), "a:1:1 abcast asks all to reply  hi\\x1b"),
        (cast("cbcast", 2), "a:1:1 asks for 2 replies  hi\\x1b"),
        (Action(b"act", A, "bank", 1, 8), "a:1:1 gbcast  act"),
        (GroupLeft("bank", True), "── the group was deleted"),
        (ProcessFailed(B), "── b:1:4 has failed"),
        (Blocked(), "── not in the primary component: blocked"),
        (Killed(A, B), "── killed: the others went on without a:1:1; joins again as b:1:4"),
    ):
        assert painter._text(found).plain == text
        assert _document(found)["event"]
