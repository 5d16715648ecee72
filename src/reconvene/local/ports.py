"""Free ports on loopback.

They are below the range from which the system assigns ports to connections, so that a site that was down finds its
port free again. Another program may still take one between choosing and binding: the code that starts sites handles
that.
"""

import random
import socket
import time

from reconvene.errors import Unavailable

__all__ = ["LOOPBACK", "choose", "is_free", "wait_free"]

LOOPBACK = "127.0.0.1"

_LOWEST, _HIGHEST = 20_000, 32_000
_TRIES = 2_000


def choose(count: int) -> list[int]:
    """Distinct ports, each free now for datagrams and for connections."""
    chooser = random.SystemRandom()  # programs with the same seed of `random` must not choose the same ports
    chosen: list[int] = []
    for _ in range(_TRIES):
        if len(chosen) == count:
            return chosen
        port = chooser.randint(_LOWEST, _HIGHEST)
        if port not in chosen and is_free(port):
            chosen.append(port)
    raise Unavailable(f"found no {count} free ports between {_LOWEST} and {_HIGHEST} on {LOOPBACK}")


def is_free(port: int) -> bool:
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        with socket.socket(socket.AF_INET, kind) as probe:
            if kind == socket.SOCK_STREAM:
                # As servers do: connections of the last one that are still winding up do not count.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                return False
    return True


def wait_free(port: int, timeout_s: float) -> bool:
    """Whether it becomes free within this time."""
    deadline = time.monotonic() + timeout_s
    while not is_free(port):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.01)
    return True
