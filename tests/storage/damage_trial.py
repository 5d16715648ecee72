"""Opens damaged copies of a store, each in a separate process, since some of them end the process by a signal.

    python damage_trial.py SCRATCH CHECK_S

Prints one line for each damage: PAGE BIT OUTCOME. BIT is -1 for a page of zeros. OUTCOME is the
process's signal, `same` if the store has all its values, `other` if it has not, or the line with which it was
refused.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from reconvene.errors import ReconveneError
from reconvene.storage.lmdb_store import LmdbStore
from reconvene.storage.tables import Put

PAGE = 4096
_META_BYTES = 152
_EVERYTHING = (b"", b"\xff" * 100)


class Damage(NamedTuple):
    page: int
    bit: int
    """The bit of the page that is flipped; -1: the page is all zeros."""


def made(path: Path) -> None:
    """A store with small and large values, branches above its leaves, and free pages."""
    store = LmdbStore(path)
    for number in range(6):
        store.write([Put(b"\x02%04d%02d" % (one, number), bytes([one]) * (one * 97 % 700)) for one in range(14)])
        store.write([Put(b"\x03%04d" % number, b"large" * (number * 400))])
    store.write([Put(b"\x02%04d%02d" % (one, 3), None) for one in range(14)])
    store.write([Put(b"\x03%04d" % 5, None)])
    store.put({"site": b"record"})
    store.close()


def _damages(data: bytes) -> Iterator[Damage]:
    random = Random("damage")
    for page in range(len(data) // PAGE):
        yield Damage(page, -1)
    for page in (0, 1):
        for byte in range(_META_BYTES):
            yield Damage(page, 8 * byte + random.randrange(8))
    for page in range(2, len(data) // PAGE):
        yield Damage(page, random.randrange(8 * 64))


def _damaged(data: bytes, damage: Damage) -> bytes:
    copy = bytearray(data)
    if damage.bit < 0:
        copy[damage.page * PAGE : (damage.page + 1) * PAGE] = bytes(PAGE)
    else:
        copy[damage.page * PAGE + damage.bit // 8] ^= 1 << damage.bit % 8
    return bytes(copy)


def _content(path: Path, check_s: float) -> list[tuple[bytes, bytes]]:
    """Reads and writes as a start does."""
    store = LmdbStore(path, check_s=check_s)
    found = list(store.scan(*_EVERYTHING))
    if any(store.get(key) != value for key, value in found) or store.last(*_EVERYTHING) != found[-1]:
        return []
    store.put({"site": b"record"})
    if list(store.keys(*_EVERYTHING)) != [key for key, _ in found]:
        return []
    store.close()
    return found


def outcomes(path: Path, scratch: Path, check_s: float) -> Iterator[tuple[Damage, str]]:
    good = (path / "data.mdb").read_bytes()
    watermark = (path / "newest").read_bytes()
    expected = _content(path, check_s)
    for damage in _damages(good):
        scratch.mkdir(exist_ok=True)
        (scratch / "data.mdb").write_bytes(_damaged(good, damage))
        (scratch / "newest").write_bytes(watermark)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            try:
                said = "same" if _content(scratch, check_s) == expected else "other"
            except ReconveneError as error:
                said = str(error)
            os.write(writer, said.encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            said = pipe.read()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        yield damage, said if status == 0 else f"signal {-status}"


def main(scratch: str, check_s: str) -> None:
    made(Path(scratch) / "good")
    for damage, outcome in outcomes(Path(scratch) / "good", Path(scratch) / "damaged", float(check_s)):
        print(damage.page, damage.bit, outcome)


if __name__ == "__main__":
    main(*sys.argv[1:])
