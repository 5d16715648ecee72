"""What a simulated cluster runs takes the time and chance from its world, and from nowhere else.

A clock that is read past it gives another run in every process, mostly unnoticed. So it is looked for in the source.
"""

import ast
import asyncio
import os
import random
import time
from pathlib import Path
from random import Random

import pytest

import reconvene
from reconvene.testing.loop import SimLoop
from reconvene.world import REAL, world

SOURCE = Path(reconvene.__file__).parent
FOLDERS = ("runtime", "client", "objects")
REAL_ONLY = {
    "runtime": {
        *("access/key_files", "access/listener", "diagnostics/loop_lag", "diagnostics/structured_logging"),
        *("disk/keeper", "log/files", "net/partition", "net/path", "net/refusals", "net/seal_sessions", "net/udp"),
        *("net/trains", "node/real_time"),
        *(
            "http/server",
            "http/dashboard/delays",
            "http/dashboard/beside",
            "http/dashboard/peers",
            "http/dashboard/sampler",
        ),
        "http/dashboard/watchers",
    },
    "client": {"blocking_readers", "loop_thread"},
    "objects": set[str](),
}
"""Modules that a simulated cluster does without: sockets, seals, HTTP, files, the thread that writes."""
OUTSIDE = {"datetime", "queue", "random", "secrets", "threading", "time", "uuid"}


def looks_outside(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name in OUTSIDE]
        elif isinstance(node, ast.ImportFrom):
            found += [node.module] if node.module in OUTSIDE else []
        elif isinstance(node, ast.Attribute) and node.attr in ("urandom", "to_thread", "run_in_executor"):
            found.append(node.attr)
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_is_simulated_does_not_look_outside(folder: str) -> None:
    paths = {
        path.relative_to(SOURCE / folder).with_suffix("").as_posix(): path for path in (SOURCE / folder).rglob("*.py")
    }
    found = {name: looks_outside(path.read_text()) for name, path in paths.items() if name not in REAL_ONLY[folder]}
    assert {name: what for name, what in found.items() if what} == {}, "take it from reconvene.world"
    assert REAL_ONLY[folder] <= set(paths)


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("from time import monotonic", ["time"]),
        ("def f():\n    import random", ["random"]),
        ("import os\nos.urandom(8)", ["urandom"]),
        ("import asyncio\nfrom reconvene.world import world", []),
    ],
)
def test_a_planted_look_outside_is_found(source: str, what: list[str]) -> None:
    assert looks_outside(source) == what


def test_a_real_event_loop_has_the_real_world() -> None:
    async def found() -> bool:
        return world() is REAL

    assert asyncio.run(found())
    assert world() is REAL
    assert REAL.monotonic_ns is time.monotonic_ns
    assert REAL.random_bytes is os.urandom
    assert REAL.uniform is random.uniform


def test_a_simulated_one_has_its_own() -> None:
    async def found() -> tuple[int, int, bytes]:
        here = world()
        await asyncio.sleep(1.5)
        return here.monotonic_ns(), here.time_ns() % 10**10, here.random_bytes(4)

    def run(seed: int) -> tuple[int, int, bytes]:
        loop = SimLoop(Random(seed), 10**10)
        try:
            return loop.run_until_complete(found())
        finally:
            loop.end()

    assert run(1)[:2] == (1_500_000_000, 1_500_000_000)
    assert run(1) == run(1) != run(2)
