"""Fuzzing guided by coverage, for as long as you like; the tests do not need it.

    python -m tests.wire.fuzz_atheris -max_total_time=60      (needs the package atheris)

Each input is a step to reach, then datagrams with their lengths before them. Inputs that cause a known defect are
skipped.
"""

import sys
from copy import deepcopy
from functools import cache
from importlib import import_module
from typing import Any


def main() -> int:
    try:
        atheris: Any = import_module("atheris")
    except ImportError:
        print("atheris is not installed: nothing is fuzzed")
        return 0
    with atheris.instrument_imports(include=["reconvene"]):
        hostile = import_module("tests.wire.hostile")
        known = import_module("tests.wire.test_hostile").known
    reach = cache(hostile.reach)

    def feed(data: bytes) -> None:
        if not data:
            return
        target = deepcopy(reach(hostile.STEPS[data[0] % 6], ("atop", "all-ack")[data[0] // 8 % 2]))
        rest = data[1:]
        while rest:
            length, datagram, rest = rest[0], rest[1 : 1 + rest[0]], rest[1 + rest[0] :]
            if length < 3:
                # So that the fuzzer need not guess a whole message.
                datagram = target.recorded[len(rest) * 7 % len(target.recorded)]
            if not known(target.site, datagram):
                target.feed(datagram)

    atheris.Setup(sys.argv, feed)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
