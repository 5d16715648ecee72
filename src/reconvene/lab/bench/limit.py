"""What datagrams alone cost: a bare loop in Python sends and receives them.

    python -m reconvene.lab.bench.limit INDEX BYTES COUNT HOST:PORT …

One process at each address sends COUNT datagrams to each of the others and receives as many from each. There is no
protocol: a datagram names its sender, and no process is further ahead of the slowest than a window, so none is lost.
It answers {"ready": true}; a line on stdin starts it; then it answers {"took": ns, "cpu": s}.
"""

import os
import select
import socket
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import mean
from time import monotonic, monotonic_ns, process_time

import msgspec

from reconvene.errors import Unavailable
from reconvene.lab.bench.sites import Setup
from reconvene.lab.load.process import LoadProcess, end, start
from reconvene.lab.load.program import answer
from reconvene.lab.namespaces import Namespaces
from reconvene.local.ports import choose

__all__ = ["Limit", "bare"]

READY_TIMEOUT_S = 30.0
WORK_TIMEOUT_S = 60.0
_PORT = 7400
_BUFFER_BYTES = 4 << 20
_IN_FLIGHT_BYTES = 1 << 18
_MOST_WINDOW = 64
_LEAST_BYTES = 16
_SILENCE_S = 2.0


class Limit(msgspec.Struct, frozen=True):
    per_second: float
    """Datagrams that one process sent, counted for each destination; it received as many."""
    cpu: float
    """Cores that each process used."""


def bare(setup: Setup, size: int, count: int) -> Limit:
    """`count` datagrams from each site to each other one, on the path of the setup."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rcv-", dir="/var/tmp")))
        network = (
            None if setup.mtu is None else stack.enter_context(Namespaces(setup.sites, setup.mtu, true_packets=True))
        )
        if network is None:
            addresses = [f"127.0.0.1:{port}" for port in choose(setup.sites)]
        else:
            addresses = [f"{address}:{_PORT}" for address in network.addresses]
        loads: list[LoadProcess] = []
        stack.callback(end, loads)
        for index in range(setup.sites):
            arguments = [str(index), str(size), str(count), *addresses]
            errors = folder / f"limit-{index}"
            loads.append(start("bare loop", "reconvene.lab.bench.limit", arguments, errors, network, index))
        for load in loads:
            load.hear("ready", monotonic() + READY_TIMEOUT_S)
        for load in loads:
            load.say("go")
        answers = [load.hear("took", monotonic() + WORK_TIMEOUT_S) for load in loads]
    took_s = max(line["took"] for line in answers) / 1e9
    return Limit(count * (setup.sites - 1) / took_s, mean(line["cpu"] for line in answers) / took_s)


def exchange(index: int, size: int, count: int, addresses: Sequence[tuple[str, int]], sock: socket.socket) -> None:
    """Sends and receives all of them. Raises Unavailable if datagrams stop coming."""
    others = [place for place in range(len(addresses)) if place != index]
    window = max(2, min(_MOST_WINDOW, _IN_FLIGHT_BYTES // size // len(others)))
    got = [count if place == index else 0 for place in range(len(addresses))]
    targets = [addresses[place] for place in others]
    packet = bytes([index]) * size
    buffer = bytearray(1 << 16)
    view = memoryview(buffer)
    take, send = sock.recv_into, sock.sendto
    sent, total, missing = 0, 0, count * len(others)
    while sent < count or total < missing:
        before = total
        room = min(count, min(got) + window) - sent
        for _ in range(room):
            for target in targets:
                send(packet, target)
        sent += max(0, room)
        while True:
            try:
                take(view)
            except BlockingIOError:
                break
            got[buffer[0]] += 1
            total += 1
        if room <= 0 and total == before and not select.select([sock], [], [], _SILENCE_S)[0]:
            raise Unavailable(f"nothing came for {_SILENCE_S:g} s, {missing - total} of {missing} are missing")


def main() -> None:
    index, size, count = map(int, sys.argv[1:4])
    addresses = [(host, int(port)) for host, _, port in (place.rpartition(":") for place in sys.argv[4:])]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
        sock.bind(addresses[index])
        sock.setblocking(False)
        answer({"ready": True})
        if not os.read(0, 64):
            return
        began, spent = monotonic_ns(), process_time()
        try:
            exchange(index, max(_LEAST_BYTES, size), count, addresses, sock)
        except (Unavailable, OSError) as error:
            print(error, file=sys.stderr)
            return
        answer({"took": monotonic_ns() - began, "cpu": process_time() - spent})
        os.read(0, 64)


if __name__ == "__main__":
    main()
