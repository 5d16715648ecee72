"""Cycles of objects in a site's process: collected rarely, but collected."""

import subprocess
import sys

PROGRAM = """
import gc
from reconvene.runtime.node.garbage import YOUNG, collect_rarely

class Link:
    made = 0
    freed = 0
    def __init__(self):
        Link.made += 1
        self.itself = self
    def __del__(self):
        Link.freed += 1

kept = [[] for _ in range(1000)]
collect_rarely()
assert gc.isenabled()
assert gc.get_freeze_count() >= 1000
waiting = 0
for _ in range(10 * YOUNG):
    Link()
    waiting = max(waiting, Link.made - Link.freed)
print(waiting, YOUNG)
"""


def test_unreachable_cycles_never_pile_up() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    waiting, young = map(int, done.stdout.split())
    assert young / 10 < waiting <= 2 * young, "rare, and bounded"
