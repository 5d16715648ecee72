"""Ports on loopback for tests that start sites and programs.

A port that was free when a test asked for it must be free when the test's program binds it. So ports come from below
the range from which the system assigns them to connections, each test process has its own part of them, and it takes
them in turn.
"""

import itertools
import os
import random
from collections.abc import Iterator

from reconvene.local.ports import is_free

__all__ = ["free_port", "free_ports"]

_LOWEST = 10_000
_OF_A_WORKER = 1_000
_WORKERS = 10
"""More workers than this share ports. The next range, from 20,000 on, belongs to `reconvene up`."""


def _in_turn() -> Iterator[int]:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
    own = range(_LOWEST + worker * _OF_A_WORKER, _LOWEST + (worker + 1) * _OF_A_WORKER)
    # Two runs of the tests at one time start at different ports.
    start = random.SystemRandom().randrange(_OF_A_WORKER)
    return itertools.cycle([*own[start:], *own[:start]])


_NEXT = _in_turn()


def free_ports(count: int) -> list[int]:
    """Distinct ports, each free for datagrams and for connections."""
    found = list(itertools.islice(filter(is_free, itertools.islice(_NEXT, _OF_A_WORKER)), count))
    assert len(found) == count, f"found no {count} free ports"
    return found


def free_port() -> int:
    return free_ports(1)[0]
