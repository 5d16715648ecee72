"""Clients that never read, while others work: they are disconnected, use no more memory than their limit, and delay
no other client."""

import os
import secrets
import signal
import socket
import time
import urllib.request
from collections.abc import Callable

import pytest
from tests.real.arena import BUSY_S, Arena, arena

from reconvene import Message, Unavailable, View, blocking
from reconvene.lab.ledger.group import head
from reconvene.lab.soak.vitals import private_bytes
from reconvene.wire.clients import MAJOR, MINOR, Hello, Join, encode
from reconvene.wire.handshake import NONCE_BYTES
from reconvene.wire.records import frame

INBOX_BYTES = 1 << 20
NARROW = {"limits": {"inbox_bytes": INBOX_BYTES, "message_bytes": INBOX_BYTES // 2}}
SPARE_BYTES = 24 << 20
"""A site's memory varies by this much under such a load anyway."""
STRANGER = head(0xFFFF, 0, False, 0)
"""A message that no client of the load has sent."""
HEAVY = 0.03
"""Messages are large, so that limits are reached within seconds."""


@pytest.mark.long("real clients for seconds; tests/runtime/clients has such a client without a cluster")
def test_a_client_that_never_reads() -> None:
    with arena(71, large=HEAVY, settings=NARROW) as it:
        it.pass_by(1)
        before = private_bytes(it.cluster.pids["b"])
        with blocking.connect(it.cluster.addresses["a"]) as site, socket.socket(socket.AF_UNIX) as deaf:
            group = site.join("plain")
            known = set(group.view.members)
            deaf.connect(it.cluster.addresses["b"])
            hello = Hello(MAJOR, MINOR, "", secrets.token_bytes(NONCE_BYTES))
            for struct in (hello, Join(1, "plain", False, True), Join(2, "prime", True, True)):
                deaf.sendall(b"".join(frame(encode([struct]))))
            came = _next_view(group, lambda view: any(process.site == "b" for process in set(view.members) - known))
            (process,) = (process for process in set(came.members) - known if process.site == "b")
            _next_view(group, lambda view: process in view.left and view.kind == "regular")
            group.send(STRANGER)
            assert any(event.sender == group.me for event in group.events(BUSY_S) if isinstance(event, Message))
        it.pass_by(1)
        after = private_bytes(it.cluster.pids["b"])
        print(f"memory of its site: {before >> 20} MiB before, {after >> 20} MiB after")
        assert after < before + INBOX_BYTES + SPARE_BYTES
        assert "does not read" in it.cluster.layout.log("b").read_text()
        assert _metric(it, "b", "reconvene_clients_cut_off_total") == 1
        _never_takes(it)
        end = it.finish(changes=False)
        assert end.clients.ended == []


def _never_takes(it: Arena) -> None:
    """The client reads from its socket, but the program never receives from the client."""
    with (
        blocking.connect(it.cluster.addresses["b"], inbox_bytes=INBOX_BYTES) as site,
        blocking.connect(it.cluster.addresses["a"]) as other,
    ):
        group, watched = site.join("plain"), other.join("plain")
        _next_view(watched, lambda view: group.me in view.left and view.kind == "regular")
        with pytest.raises(Unavailable, match="waited unread, beyond the limit"):
            list(group.events())
        assert site.health() == "primary", "the connection is there as before"


@pytest.mark.long("real clients for seconds")
def test_client_processes_that_stand_still() -> None:
    with arena(73, large=HEAVY, processes=2, settings=NARROW) as it:
        stopped = it.load.pids[1]
        os.kill(stopped, signal.SIGSTOP)
        try:
            _wait_for_log(it, "b", "does not read")
            it.pass_by(1)
        finally:
            os.kill(stopped, signal.SIGCONT)
        it.pass_by(1)
        end = it.finish(changes=False)
        assert {reading.reader for reading in end.clients.readings if reading.rejoined} == {"client 1"}


def _next_view(group: blocking.Group, wanted: Callable[[View], bool]) -> View:
    deadline = time.monotonic() + BUSY_S
    for event in group.events(BUSY_S):
        if isinstance(event, View) and wanted(event):
            return event
        assert time.monotonic() < deadline, "the view did not come"
    raise AssertionError("nothing comes any more")


def _metric(it: Arena, name: str, metric: str) -> float:
    address = f"http://127.0.0.1:{it.cluster.choices.sites[name].http}/metrics"
    with urllib.request.urlopen(address, timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(metric))


def _wait_for_log(it: Arena, name: str, words: str) -> None:
    deadline = time.monotonic() + BUSY_S
    while words not in it.cluster.layout.log(name).read_text():
        assert time.monotonic() < deadline, f"site {name} never said {words!r}"
        time.sleep(0.05)
