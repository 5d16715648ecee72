"""LMDB's data file, looked at before it is mapped: a page that is not there would end the process with SIGBUS.

Given: the path of a `data.mdb`. Promised: `examine` returns where every page that the newest transaction uses is in
the file, and raises Malformed in one line otherwise.

The newest meta page says which page is the last one. A file that reaches to it is whole as far as this goes. A
shorter one need not be damaged: LMDB does not write a page that was taken and given back within one transaction. So
there, and only there, the trees are walked to see what they use.

    page    number u64, unused u16, flags u16, end of the pointers u16, start of the nodes u16, pointers u16 …
    meta    in a page: magic u32, version u32, address u64, map size u64, two trees, last page u64, transaction u64
    tree    page size u32 (of the first), flags u16, depth u16, pages 3 × u64, entries u64, root u64
    node    size or page u32, flags or page u16, size of the key u16, key, data or (large) the data's first page u64
"""

import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct, error, unpack_from

from reconvene.errors import Malformed

__all__ = ["examine"]

_HEADER = Struct("<QHHHH")
_META = Struct("<IIQQ")
_TREE = Struct("<IHHQQQQQ")
_TAIL = Struct("<QQ")
_NODE = Struct("<IHH")

_MAGIC = 0xBEEFC0DE
_BRANCH, _LEAF, _OVERFLOW = 0x01, 0x02, 0x04
_LARGE = 0x01
_NONE = (1 << 64) - 1
"""The root of an empty tree."""
_MOST_DEPTH = 32


def examine(path: Path) -> None:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            page_bytes, roots, last = _newest_meta(file.fileno())
            if size >= (last + 1) * page_bytes:
                return
            for root in roots:
                for first, count in _pages(file.fileno(), root, page_bytes):
                    if (first + count) * page_bytes > size:
                        raise Malformed(
                            f"{path}: is cut short: it has {size} bytes, and page {first + count - 1} of"
                            f" {page_bytes} bytes is in use"
                        )
        except error:
            raise Malformed(f"{path}: is cut short, or no data file of LMDB: it has {size} bytes") from None


def _newest_meta(fd: int) -> tuple[int, list[int], int]:
    """(page size, roots, last page)"""
    first = _meta(os.pread(fd, 4096, 0))
    second = _meta(os.pread(fd, 4096, first[1]))
    _, page_bytes, roots, last = max(first, second)
    return page_bytes, roots, last


def _meta(page: bytes) -> tuple[int, int, list[int], int]:
    at = _HEADER.size
    magic = _META.unpack_from(page, at)[0]
    if magic != _MAGIC:
        raise error
    at += _META.size
    trees = [_TREE.unpack_from(page, at), _TREE.unpack_from(page, at + _TREE.size)]
    last, transaction = _TAIL.unpack_from(page, at + 2 * _TREE.size)
    page_bytes = trees[0][0]
    if not 256 <= page_bytes <= 65536:
        raise error
    return transaction, page_bytes, [tree[-1] for tree in trees if tree[-1] != _NONE], last


def _pages(fd: int, root: int, page_bytes: int) -> Iterator[tuple[int, int]]:
    """(first, how many) of all that hang from a root; each is told before it is read."""
    waiting = [(root, 0)]
    while waiting:
        number, depth = waiting.pop()
        yield number, 1
        page = os.pread(fd, page_bytes, number * page_bytes)
        own, _, flags, lower, _ = _HEADER.unpack_from(page)
        if own != number or depth > _MOST_DEPTH or not flags & (_BRANCH | _LEAF):
            raise error
        for (at,) in Struct("<H").iter_unpack(page[_HEADER.size : lower]):
            low, high, key_bytes = _NODE.unpack_from(page, at)
            if flags & _BRANCH:
                waiting.append((low | high << 32, depth + 1))
            elif high & _LARGE:
                # The value has pages of its own; only the first has a header.
                (beyond,) = unpack_from("<Q", page, at + _NODE.size + key_bytes)
                yield beyond, -(-(_HEADER.size + low) // page_bytes)
