"""Three real sites, each with programs in processes of their own, which are killed with -9, as the sites are."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.client.places import short_dir

from reconvene import ALL, ProcessFailed, Reply, blocking
from reconvene.local import LocalCluster
from reconvene.trace.reader import read_trace
from reconvene.verify.engine import verify
from reconvene.verify.history import History

PROGRAM = Path(__file__).parent / "isis_program.py"
_ENOUGH_S = 60.0


@contextmanager
def programs(cluster: LocalCluster) -> Iterator[dict[str, "subprocess.Popen[str]"]]:
    running: dict[str, subprocess.Popen[str]] = {}
    try:
        for name in cluster.names:
            running[name] = start(cluster, name)
        yield running
    finally:
        for program in running.values():
            end(program)


def end(program: "subprocess.Popen[str]") -> None:
    program.kill()
    program.communicate()


def start(cluster: LocalCluster, name: str) -> "subprocess.Popen[str]":
    arguments = [sys.executable, str(PROGRAM), cluster.addresses[name], f"program at {name}"]
    program = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    assert program.stdout.readline().startswith("joined")
    return program


def wait_for_members(isis: blocking.Isis, *sites: str) -> None:
    deadline = time.monotonic() + _ENOUGH_S
    while True:
        members = [member.partition(":")[0] for group in isis.groups() for member in group.members]
        if sorted(members) == sorted(sites):
            return
        assert time.monotonic() < deadline, f"members at {members}, expected {sites}"
        time.sleep(0.05)


def test_programs_and_sites_are_killed() -> None:
    with (
        short_dir() as directory,
        LocalCluster.create(directory / "c", isis=True, settings={"log": {"enabled": False}}) as cluster,
    ):
        cluster.start()
        with programs(cluster) as running, blocking.connect(cluster.addresses["a"], wait=30) as site:
            wait_for_members(site.isis, "a", "b", "c")
            call = site.isis.abcast(b"?", to="words", label="q", replies=ALL, timeout=_ENOUGH_S)
            assert len([reply for reply in call if isinstance(reply, Reply)]) == 3
            # A program is killed: its failure is known at once, and counts as its reply.
            running["b"].kill()
            call = site.isis.abcast(b"?", to="words", label="q", replies=ALL, timeout=_ENOUGH_S)
            replies = call.replies()
            assert len([reply for reply in replies if isinstance(reply, Reply)]) >= 2
            wait_for_members(site.isis, "a", "c")
            end(running["b"])
            running["b"] = start(cluster, "b")
            wait_for_members(site.isis, "a", "b", "c")
            # A site is killed, and its program with it, as far as the others can tell.
            running["c"].send_signal(signal.SIGSTOP)
            call = site.isis.cbcast(b"?", to="words", replies=ALL, timeout=_ENOUGH_S)
            cluster.crash("c")
            replies = call.replies()
            assert [reply.process.site for reply in replies if isinstance(reply, ProcessFailed)] == ["c"]
            wait_for_members(site.isis, "a", "b")
            cluster.restart("c")
            running["c"].send_signal(signal.SIGCONT)
            wait_for_members(site.isis, "a", "b", "c")  # it goes on as another process
            site.isis.flush(timeout=_ENOUGH_S)
            # They are members to the end, and say nothing more.
            for program in running.values():
                program.send_signal(signal.SIGSTOP)
            trace = read_trace(cluster.finish_trace())
        assert trace.run.settled
        report = verify([History.of(trace.run, trace.rows)])
        assert report.ok, [check for check in report.checks if check.violations]
        cases = {check.id: check.cases for check in report.checks}
        judged = ("atomic", "extended", "causal", "abcast", "views", "members", "failure", "replies", "state", "live")
        assert not [name for name in judged if not cases[f"isis.{name}"]], cases
