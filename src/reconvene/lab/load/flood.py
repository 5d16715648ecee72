"""A flood of datagrams that a site must reject, and a bare reader that measures what reading them costs.

    python -m reconvene.lab.load.flood send CLUSTER KEY SITES PER_SECOND WATCHED_PORT
    python -m reconvene.lab.load.flood read HOST PORT

It answers {"ready": true}, and takes orders on stdin until it ends.

    send   "FROM TO HOST PORT": records what comes to the watched port for a moment, then sends mixed datagrams, as in
           `KINDS`, until TO; answers {"sent": {kind: n}}, those since FROM
    read   "FROM TO": reads in turns like a site's until TO, and does nothing with what it reads; answers {"read": n},
           those since FROM
"""

import os
import random
import select
import socket
import sys
from collections import Counter
from pathlib import Path
from time import monotonic_ns, sleep

from reconvene.lab.load.program import answer
from reconvene.runtime.access.key_files import load_cluster_keys
from reconvene.wire.seal import ClusterKey, Sealer

__all__ = ["KINDS", "bound", "main", "read_turn"]

KINDS = {
    "random": "bytes of no meaning",
    "truncated": "a member's datagram, cut short",
    "replayed": "a member's datagram, a second time",
    "earlier boot": "sealed with the right key by a boot of a member that is gone",
    "other key": "sealed with another key",
    "other cluster": "of another cluster, sealed with this one's key",
}
"""Kinds of datagrams, in equal shares. Without permission to record there are none of the second and the third."""

RECORD_NS = 300_000_000
RECORDED = 200
MOST_BYTES = 1_400
EACH = 100
"""How many datagrams are made of each kind that is not recorded; they are sent repeatedly."""
_GAP_NS = 1_000_000
TURN = 64
_IP = 0x0800
_UDP = 17


def record(port: int, until_ns: int) -> list[bytes]:
    """Records up to `count` datagrams to a port of this machine; none without permission."""
    try:
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_IP))
    except (OSError, AttributeError):
        return []
    found: list[bytes] = []
    with tap:
        tap.settimeout(0.05)
        while monotonic_ns() < until_ns and len(found) < RECORDED:
            try:
                packet = tap.recv(1 << 16)
            except TimeoutError:
                continue
            header = (packet[0] & 15) * 4
            if packet[9] == _UDP and packet[header + 2 : header + 4] == port.to_bytes(2) and len(packet) > header + 8:
                found.append(packet[header + 8 :])
    return found


def forged(cluster: str, key: ClusterKey, sites: int, rng: random.Random) -> dict[str, list[bytes]]:
    """The kinds that need no recording."""
    kinds: dict[str, list[bytes]] = {kind: [] for kind in ("random", "earlier boot", "other key", "other cluster")}
    makers = {
        "earlier boot": [Sealer(cluster, site, [key]) for site in range(sites)],
        "other key": [Sealer(cluster, site, [ClusterKey(rng.randbytes(32))]) for site in range(sites)],
        "other cluster": [Sealer(f"not {cluster}", site, [key]) for site in range(sites)],
    }
    for _ in range(EACH):
        kinds["random"].append(rng.randbytes(rng.randint(0, MOST_BYTES)))
        for kind, sealers in makers.items():
            kinds[kind].append(rng.choice(sealers).seal(rng.randbytes(rng.randint(20, MOST_BYTES - 100))))
    return kinds


def send(cluster: str, key: Path, sites: int, per_second: int, watched: int) -> None:
    rng = random.Random(1)
    kinds = forged(cluster, load_cluster_keys([key])[0], sites, rng)
    answer({"ready": True})
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        while line := _line():
            from_ns, until_ns, host, port = line.split()
            target = host, int(port)
            if recorded := record(watched, monotonic_ns() + RECORD_NS):
                kinds["replayed"] = [packet for packet in recorded if len(packet) <= MOST_BYTES]
                kinds["truncated"] = [_cut(packet, rng) for packet in recorded]
            mixed = [(kind, packet) for kind, packets in kinds.items() for packet in _some(packets, rng)]
            rng.shuffle(mixed)
            answer({"sent": _flood(sock, target, mixed, per_second, int(from_ns), int(until_ns))})


def _cut(packet: bytes, rng: random.Random) -> bytes:
    return packet[: rng.randint(0, min(MOST_BYTES, len(packet) - 1))]


def _some(packets: list[bytes], rng: random.Random) -> list[bytes]:
    return [rng.choice(packets) for _ in range(EACH)] if packets else []


def _flood(
    sock: socket.socket, target: tuple[str, int], mixed: list[tuple[str, bytes]], per_second: int,
    from_ns: int, until_ns: int,
) -> dict[str, int]:  # fmt: skip
    sent: Counter[str] = Counter()
    at, done = 0, 0
    start = monotonic_ns()
    while (now := monotonic_ns()) < until_ns:
        # After a delay, at most a tenth of a second is made up for.
        due = (now - start) * per_second // 1_000_000_000
        done = max(done, due - per_second // 10)
        while done < due:
            kind, packet = mixed[at]
            at = (at + 1) % len(mixed)
            done += 1
            try:
                sock.sendto(packet, target)
            except OSError:
                break
            sent[kind] += now >= from_ns
        sleep(_GAP_NS / 1e9)
    return dict(sent)


def bound(address: tuple[str, int]) -> socket.socket:
    """A socket with a buffer like a site's."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    sock.setblocking(False)
    sock.bind(address)
    return sock


def read(address: tuple[str, int]) -> None:
    """Reads in turns like a site's, and drops what it reads."""
    buffer = bytearray(1 << 16)
    with bound(address) as sock:
        answer({"ready": True})
        while line := _line():
            from_ns, until_ns = map(int, line.split())
            count = 0
            while (now := monotonic_ns()) < until_ns:
                if select.select([sock], [], [], (until_ns - now) / 1e9)[0]:
                    got = read_turn(sock, buffer)
                    count += got if now >= from_ns else 0
            answer({"read": count})


def read_turn(sock: socket.socket, buffer: bytearray) -> int:
    """Reads what has arrived, at most a turn's datagrams, as a site does."""
    for count in range(TURN):
        try:
            sock.recvfrom_into(buffer)
        except OSError:
            return count
    return TURN


def _line() -> str:
    return os.read(0, 256).decode()


def main() -> None:
    match sys.argv[1:]:
        case ["send", cluster, key, sites, per_second, watched]:
            send(cluster, Path(key), int(sites), int(per_second), int(watched))
        case ["read", host, port]:
            read((host, int(port)))
        case _:
            sys.exit("expected send or read, and what the docstring says")


if __name__ == "__main__":
    main()
