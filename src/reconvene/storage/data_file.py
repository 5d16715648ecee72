"""LMDB's data file, looked at before it is mapped: LMDB trusts its pages. One that is not there ends the process with
SIGBUS, and a damaged one may end it too.

Given: the path of a `data.mdb` that no one writes to. Promised: `examine` returns where every page that the newest
transaction uses is in the file; `walk` returns where its trees are sound, too: pages that are what they should be,
none used twice or free and in use, keys in order and where they are looked for, as many as the meta page says. Both
raise Malformed in one line otherwise.

The newest meta page says which page is the last one. A file that reaches to it is whole as far as this goes. A
shorter one need not be damaged: LMDB does not write a page that was taken and given back within one transaction. So
there, and only there, `examine` walks the trees to see what they use.

    page    number u64, unused u16, flags u16, end of the pointers u16, start of the nodes u16, pointers u16 …
    meta    in a page: magic u32, version u32, address u64, map size u64, two trees, last page u64, transaction u64
    tree    page size u32 (of the first), flags u16, depth u16, pages 3 × u64, entries u64, root u64
    node    size or page u32, flags or page u16, size of the key u16, key, data or (large) the data's first page u64
"""

import os
from itertools import pairwise
from pathlib import Path
from struct import Struct, error, unpack_from
from typing import NamedTuple

from reconvene.errors import Malformed

__all__ = ["examine", "walk"]

_HEADER = Struct("<QHHHH")
_META = Struct("<IIQQ")
_TREE = Struct("<IHHQQQQQ")
_TAIL = Struct("<QQ")
_NODE = Struct("<IHH")
_POINTER = Struct("<H")
_LARGE_HEADER = Struct("<QxxHI")

_MAGIC = 0xBEEFC0DE
_BRANCH, _LEAF, _OVERFLOW, _DIRTY = 0x01, 0x02, 0x04, 0x10
_LARGE = 0x01
_NONE = (1 << 64) - 1
"""The root of an empty tree."""


class _Tree(NamedTuple):
    flags: int
    depth: int
    entries: int
    root: int


class _Meta(NamedTuple):
    transaction: int
    page_bytes: int
    trees: tuple[_Tree, _Tree]
    """Of free pages, whose keys are numbers, and of what is kept."""
    last: int


class _Branch(NamedTuple):
    """A page that is still to be walked, and what it may hold: keys from `low` on and before `high`."""

    page: int
    depth: int
    low: bytes
    high: bytes | None


def examine(path: Path) -> None:
    with path.open("rb") as file:
        data = _DataFile(path, file.fileno())
        if data.size < (data.meta.last + 1) * data.meta.page_bytes:
            data.walk()


def walk(path: Path) -> None:
    """Reads every page of the trees; of large values only where they begin: their checksums tell of the rest."""
    with path.open("rb") as file:
        _DataFile(path, file.fileno()).walk()


class _DataFile:
    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self.fd = fd
        self.size = os.fstat(fd).st_size
        try:
            first = _meta(os.pread(fd, 4096, 0))
            self.meta = max(first, _meta(os.pread(fd, 4096, first.page_bytes)))
        except error:
            raise Malformed(f"{path}: is cut short, or no data file of LMDB: it has {self.size} bytes") from None
        self._seen = bytearray()
        """A byte for each page of the file: whether it is used, or known to be free."""

    def walk(self) -> None:
        self._seen = bytearray(self.size // self.meta.page_bytes)
        for number, tree in enumerate(self.meta.trees):
            try:
                entries = self._walk_tree(tree, is_free=number == 0)
            except _Damaged as damaged:
                raise Malformed(f"{self.path}: is damaged: {damaged}") from None
            if entries != tree.entries:
                raise Malformed(f"{self.path}: is damaged: it has {entries} keys, and should have {tree.entries}")

    def _walk_tree(self, tree: _Tree, is_free: bool) -> int:
        """How many keys it has."""
        entries = 0
        waiting = [_Branch(tree.root, 1, b"", None)] if tree.root != _NONE else []
        while waiting:
            branch = waiting.pop()
            self._mark(branch.page, 1)
            page = self._read(branch.page, 1)
            is_leaf = branch.depth == tree.depth
            try:
                nodes = _nodes(page, branch.page, _LEAF if is_leaf else _BRANCH)
                keys = [node.key for node in nodes]
                if is_free:
                    keys = [key[::-1] for key in keys]  # numbers, the lowest byte first
                if not is_leaf:
                    keys[0] = branch.low  # the first child takes all that is below the second's key
                _check_order(keys, branch)
                if is_leaf:
                    entries += len(nodes)
                    self._walk_values(page, nodes, is_free)
                else:
                    children = zip(nodes, keys, [*keys[1:], branch.high], strict=True)
                    waiting += [_Branch(node.child, branch.depth + 1, low, high) for node, low, high in children]
            except error:
                raise _Damaged(f"page {branch.page} is not what it should be") from None
        return entries

    def _walk_values(self, page: bytes, nodes: "list[_Node]", is_free: bool) -> None:
        for node in nodes:
            if node.flags & ~_LARGE:
                raise error
            if node.flags & _LARGE:
                value = self._read_large(page, node, is_free)
            else:
                value = page[node.data : node.data + node.size]
                if len(value) != node.size:
                    raise error
            if is_free:
                (count,) = unpack_from("<Q", value)
                if node.size < 8 * (count + 1):
                    raise error
                for number in unpack_from(f"<{count}Q", value, 8):
                    self._mark(number, 1, is_free=True)

    def _read_large(self, page: bytes, node: "_Node", all_of_it: bool) -> bytes:
        """A value has pages of its own; only the first has a header. A smaller one than was there keeps them all."""
        (first,) = unpack_from("<Q", page, node.data)
        needed = -(-(_HEADER.size + node.size) // self.meta.page_bytes)
        self._mark(first, needed)
        value = self._read(first, needed if all_of_it else 1)
        own, flags, count = _LARGE_HEADER.unpack_from(value)
        if own != first or flags & ~_DIRTY != _OVERFLOW or count < needed:
            raise error
        if count > needed:
            self._mark(first + needed, count - needed)
        return value[_HEADER.size : _HEADER.size + node.size]

    def _mark(self, first: int, count: int, is_free: bool = False) -> None:
        beyond = first + count
        if first < 2 or beyond > self.meta.last + 1:
            raise _Damaged(f"it has no page {first if first < 2 else beyond - 1}")
        if beyond > len(self._seen):
            if is_free:
                return  # it was taken and given back, and never written
            raise Malformed(
                f"{self.path}: is cut short: it has {self.size} bytes, and page {beyond - 1} of"
                f" {self.meta.page_bytes} bytes is in use"
            )
        if any(self._seen[first:beyond]):
            raise _Damaged(f"page {first} is in use twice, or free and in use")
        self._seen[first:beyond] = b"\1" * count

    def _read(self, first: int, count: int) -> bytes:
        return os.pread(self.fd, count * self.meta.page_bytes, first * self.meta.page_bytes)


class _Damaged(Exception):
    """Caught here, where the path is known."""


class _Node(NamedTuple):
    size: int
    flags: int
    key: bytes
    data: int
    """Where in the page its data begins."""

    @property
    def child(self) -> int:
        return self.size | self.flags << 32


def _meta(page: bytes) -> _Meta:
    at = _HEADER.size
    if _META.unpack_from(page, at)[0] != _MAGIC:
        raise error
    at += _META.size
    free, kept = _TREE.unpack_from(page, at), _TREE.unpack_from(page, at + _TREE.size)
    last, transaction = _TAIL.unpack_from(page, at + 2 * _TREE.size)
    if not 512 <= free[0] <= 65536:
        raise error
    trees = (_Tree(*free[1:3], *free[6:]), _Tree(*kept[1:3], *kept[6:]))
    return _Meta(transaction, free[0], trees, last)


def _nodes(page: bytes, number: int, kind: int) -> list[_Node]:
    own, _, flags, lower, upper = _HEADER.unpack_from(page)
    if own != number or flags & ~_DIRTY != kind or not _HEADER.size < lower <= upper <= len(page) or lower & 1:
        raise error
    nodes = []
    for (at,) in _POINTER.iter_unpack(page[_HEADER.size : lower]):
        low, high, key_bytes = _NODE.unpack_from(page, at)
        data = at + _NODE.size + key_bytes
        if at < upper or data > len(page):
            raise error
        nodes.append(_Node(low, high, page[at + _NODE.size : data], data))
    return nodes


def _check_order(keys: list[bytes], branch: _Branch) -> None:
    if keys[0] < branch.low or (branch.high is not None and keys[-1] >= branch.high):
        raise error
    if any(one >= other for one, other in pairwise(keys)):
        raise error
