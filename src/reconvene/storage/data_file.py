"""Checks LMDB's data file before it is mapped, because LMDB trusts its pages: a missing page ends the process with
SIGBUS, and a damaged one with an assertion.

Given: the path of a `data.mdb` that no process writes to. Promised: `examine` raises Malformed, in one line, if the
meta pages or a page that it checked are damaged. `walk` checks all pages: their structure, that none is used twice or
both free and in use, that keys are in order and reachable, and that there are as many as the meta page says.
`examine` does the same for a limited time, and returns whether it finished.

The two meta pages are those of the last two transactions, each in the page that its number's lowest bit names. So a
damaged number is noticed; otherwise LMDB would continue with the state before the last commit.

The newest meta page says which page is the last one. A file that ends before it need not be damaged: LMDB does not
write a page that was taken and given back within one transaction. Such a file is always checked completely.

    page    number u64, unused u16, flags u16, end of the pointers u16, start of the nodes u16, pointers u16 …
    meta    in a page: magic u32, version u32, address u64, map size u64, two trees, last page u64, transaction u64
    tree    page size u32 (of the first), flags u16, depth u16, pages 3 × u64, entries u64, root u64
    node    size or page u32, flags or page u16, size of the key u16, key, data or (large) the data's first page u64
"""

import os
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from struct import Struct, error, unpack_from
from time import monotonic
from typing import NamedTuple

from reconvene.errors import Malformed

__all__ = ["DataFile", "Page", "examine", "newest_transaction", "walk", "write_meta_pages_again"]

_HEADER = Struct("<QHHHH")
_META = Struct("<IIQQ")
_TREE = Struct("<IHHQQQQQ")
_TAIL = Struct("<QQ")
_NODE = Struct("<IHH")
_LARGE_HEADER = Struct("<QxxHI")

_MAGIC = 0xBEEFC0DE
_VERSION = 1
_BRANCH, _LEAF, _OVERFLOW, _META_PAGE = 0x01, 0x02, 0x04, 0x08
_LARGE = 0x01
_NUMBERS_AS_KEYS = 0x08
"""A flag of the tree of free pages; the other tree has none."""
_NO_DIRECTORY = 0x4000
"""Flags of how the file was made; LMDB keeps them with the first tree, and they mean nothing here."""
_NONE = (1 << 64) - 1
"""The root of an empty tree."""
_HIGHEST = b"\xff" * 512
_MOST_KNOWN = 1024
"""Most checked pages that are remembered, about 10 KiB each."""


class _Tree(NamedTuple):
    flags: int
    depth: int
    branch_pages: int
    leaf_pages: int
    large_pages: int
    entries: int
    root: int


class _Meta(NamedTuple):
    transaction: int
    page_bytes: int
    free: _Tree
    """Of free pages; its keys are numbers."""
    kept: _Tree
    last: int


class _Branch(NamedTuple):
    """A page that is still to be checked. It may contain keys from `low` to before `high`."""

    page: int
    depth: int
    low: bytes
    high: bytes | None


_Node = tuple[int, int, int]
"""Size of the data (of a branch: the lower half of the child's number), flags (the upper half), where the data is."""


class Page(NamedTuple):
    """A page that was checked and is sound."""

    keys: list[bytes]
    nodes: list[_Node]


def examine(path: Path, within_s: float | None = None) -> bool:
    """Returns whether all pages were checked; without `within_s` they always are."""
    with path.open("rb") as file:
        data = DataFile(path, file.fileno())
        is_short = data.size < (data.meta.last + 1) * data.meta.page_bytes
        return data.walk(None if is_short else within_s)


def walk(path: Path) -> None:
    """Checks every page of the trees; of large values only the first page, since checksums cover the rest."""
    examine(path)


def newest_transaction(path: Path) -> int:
    with path.open("rb") as file:
        return DataFile(path, file.fileno()).meta.transaction


def write_meta_pages_again(path: Path) -> None:
    """As they are read now, so that the disk has them: after a write that failed the system may take a page for
    written that is not. Raises OSError."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        page_bytes = DataFile(path, fd).meta.page_bytes
        for at in (0, page_bytes):
            os.pwrite(fd, os.pread(fd, page_bytes, at), at)
        os.fdatasync(fd)
    finally:
        os.close(fd)


class DataFile:
    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self.fd = fd
        self.size = os.fstat(fd).st_size
        self.meta = self.read_meta()
        self._seen: bytearray | None = None
        """A byte for each page of the file: whether it is in use or free. None: pages are not counted."""
        self._used = 0
        self.known: dict[int, Page] = {}
        """If pages are not counted: pages that need not be checked again, by number."""

    def read_meta(self) -> _Meta:
        """The newest one. Raises Malformed where the two are not those of the last two transactions."""
        try:
            first = _meta(os.pread(self.fd, 4096, 0), 0)
            second = _meta(os.pread(self.fd, 4096, first.page_bytes), 1)
        except error:
            raise Malformed(f"{self.path}: is cut short, or no data file of LMDB: it has {self.size} bytes") from None
        older, newer = sorted((first, second), key=lambda meta: meta.transaction)
        is_new = newer.transaction == 0
        if not is_new and (newer.transaction != older.transaction + 1 or first.transaction & 1):
            raise Malformed(
                f"{self.path}: is damaged: its meta pages are of transactions {first.transaction} and"
                f" {second.transaction}; expected an even number and an odd one beside it"
            )
        if first.page_bytes != second.page_bytes:
            raise Malformed(f"{self.path}: is damaged: its meta pages name different page sizes")
        return newer

    # -- all of it

    def walk(self, within_s: float | None = None) -> bool:
        """Returns whether it finished in that time."""
        give_up_at = None if within_s is None else monotonic() + within_s
        self._seen = bytearray(self.size // self.meta.page_bytes)
        self._used = 0
        for tree in (self.meta.free, self.meta.kept):
            entries = 0
            # From the highest key down: the short tables and the newest of the long ones come first.
            for leaf in self.leaves(tree, _HIGHEST, descending=True):
                entries += len(leaf.keys)
                # Every write needs the tree of free pages, so that one is always looked at to its end. It is small.
                if give_up_at is not None and tree is self.meta.kept and monotonic() > give_up_at:
                    return False
            if entries != tree.entries:
                raise Malformed(f"{self.path}: is damaged: it has {entries} keys, and should have {tree.entries}")
        if self._used != self.meta.last - 1:
            raise Malformed(
                f"{self.path}: is damaged: {self._used} pages are used or free, and there should be"
                f" {self.meta.last - 1}"
            )
        return True

    # -- in the order of keys

    def leaves(self, tree: _Tree, start: bytes = b"", descending: bool = False) -> Iterator[Page]:
        """Those that may hold keys from `start` on; descending: up to it. Every page on the way is looked at first.
        Raises Malformed."""
        stack = [iter([_Branch(tree.root, 1, b"", None)])] if tree.root != _NONE else []
        while stack:
            branch = next(stack[-1], None)
            if branch is None:
                stack.pop()
                continue
            try:
                leaf = self._look_at(tree, branch)
            except error:
                raise self._damaged(f"page {branch.page} is not what it should be") from None
            if branch.depth == tree.depth:
                yield leaf
            else:
                stack.append(_children(leaf, branch, start, descending))

    def _look_at(self, tree: _Tree, branch: _Branch) -> Page:
        """Raises struct's error for anything that is wrong within the page."""
        if branch.page in self.known:
            return self.known[branch.page]
        is_leaf = branch.depth == tree.depth
        is_free = bool(tree.flags & _NUMBERS_AS_KEYS)
        self._mark(branch.page, 1)
        page = self._read(branch.page, 1)
        keys, nodes = _nodes(page, branch.page, _LEAF if is_leaf else _BRANCH)
        if is_free:
            keys = [key[::-1] for key in keys]  # numbers, the lowest byte first
        if not is_leaf:
            keys[0] = branch.low  # the first child takes all that is below the second's key
        if keys[0] < branch.low or (branch.high is not None and keys[-1] >= branch.high):
            raise error
        if any(map(bytes.__ge__, keys, keys[1:])):
            raise error
        if is_leaf:
            self._look_at_values(page, nodes, is_free)
        found = Page(keys, nodes)
        if self._seen is None:
            if len(self.known) >= _MOST_KNOWN:
                self.known.clear()
            self.known[branch.page] = found
        return found

    def _look_at_values(self, page: bytes, nodes: list[_Node], is_free: bool) -> None:
        for size, flags, data in nodes:
            if flags == 0:
                value = page[data : data + size] if is_free else b""
            elif flags == _LARGE:
                value = self._look_at_large(page, size, data, is_free)
            else:
                raise error
            if is_free:
                self._look_at_free(value)

    def _look_at_free(self, value: bytes) -> None:
        """All numbers at once: there may be millions of them."""
        (count,) = unpack_from("<Q", value)
        if count == 0 or len(value) < 8 * (count + 1):
            raise error
        numbers = unpack_from(f"<{count}Q", value, 8)
        if any(map(int.__le__, numbers, numbers[1:])):
            raise error  # they go down
        if numbers[-1] < 2 or numbers[0] > self.meta.last:
            raise error
        self._used += count
        seen = self._seen
        if seen is None:
            return
        # One that was taken and given back in one transaction was never written, and may be beyond the file's end.
        there = [number for number in numbers if number < len(seen)]
        if any(map(seen.__getitem__, there)):
            raise self._damaged("a page is free twice, or free and in use")
        for number in there:
            seen[number] = 1

    def _look_at_large(self, page: bytes, size: int, data: int, all_of_it: bool) -> bytes:
        """A value has pages of its own; only the first has a header. A smaller one than was there keeps them all."""
        (first,) = unpack_from("<Q", page, data)
        needed = -(-(_HEADER.size + size) // self.meta.page_bytes)
        self._mark(first, needed)
        value = self._read(first, needed) if all_of_it else os.pread(self.fd, _HEADER.size, self._at(first))
        own, flags, count = _LARGE_HEADER.unpack_from(value)
        if own != first or flags != _OVERFLOW or count < needed:
            raise error
        if count > needed:
            self._mark(first + needed, count - needed)
        return value[_HEADER.size : _HEADER.size + size]

    def _mark(self, first: int, count: int) -> None:
        beyond = first + count
        if first < 2 or beyond > self.meta.last + 1:
            raise self._damaged(f"it has no page {first if first < 2 else beyond - 1}")
        self._used += count
        if beyond * self.meta.page_bytes > self.size:
            raise Malformed(
                f"{self.path}: is cut short: it has {self.size} bytes, and page {beyond - 1} of"
                f" {self.meta.page_bytes} bytes is in use"
            )
        if self._seen is None:
            return
        if any(self._seen[first:beyond]):
            raise self._damaged(f"page {first} is in use twice, or in use and free")
        self._seen[first:beyond] = b"\1" * count

    def _read(self, first: int, count: int) -> bytes:
        return os.pread(self.fd, count * self.meta.page_bytes, self._at(first))

    def _at(self, page: int) -> int:
        return page * self.meta.page_bytes

    def _damaged(self, what: str) -> Malformed:
        return Malformed(f"{self.path}: is damaged: {what}")


def _meta(page: bytes, number: int) -> _Meta:
    own, _, flags, _, _ = _HEADER.unpack_from(page)
    at = _HEADER.size
    magic, version, _, _ = _META.unpack_from(page, at)
    if (own, flags, magic, version) != (number, _META_PAGE, _MAGIC, _VERSION):
        raise error
    at += _META.size
    page_bytes, *free = _TREE.unpack_from(page, at)
    _, *kept = _TREE.unpack_from(page, at + _TREE.size)
    last, transaction = _TAIL.unpack_from(page, at + 2 * _TREE.size)
    meta = _Meta(transaction, page_bytes, _Tree(*free), _Tree(*kept), last)
    if not 512 <= page_bytes <= 65536 or page_bytes & (page_bytes - 1):
        raise error
    if meta.free.flags & ~_NO_DIRECTORY != _NUMBERS_AS_KEYS or meta.kept.flags:
        raise error
    return meta


def _children(page: Page, branch: _Branch, start: bytes, descending: bool) -> Iterator[_Branch]:
    keys, nodes = page
    at = max(bisect_right(keys, start) - 1, 0)
    for index in range(at, -1, -1) if descending else range(at, len(keys)):
        low, high, _ = nodes[index]
        end = keys[index + 1] if index + 1 < len(keys) else branch.high
        yield _Branch(low | high << 32, branch.depth + 1, keys[index], end)


def _nodes(page: bytes, number: int, kind: int) -> tuple[list[bytes], list[_Node]]:
    own, _, flags, lower, upper = _HEADER.unpack_from(page)
    if own != number or flags != kind or not _HEADER.size < lower <= upper <= len(page) or lower & 1:
        raise error
    pointers = unpack_from(f"<{(lower - _HEADER.size) // 2}H", page, _HEADER.size)
    if min(pointers) < upper:
        raise error
    head, head_bytes, beyond, is_leaf = _NODE.unpack_from, _NODE.size, len(page), kind == _LEAF
    keys, nodes, filled = [], [], 0
    for at in pointers:
        size, node_flags, key_bytes = head(page, at)
        data = at + head_bytes + key_bytes
        end = data if not is_leaf else data + 8 if node_flags else data + size
        if end > beyond:
            raise error
        filled += (end - at + 1) & ~1
        keys.append(page[at + head_bytes : data])
        nodes.append((size, node_flags, data))
    if filled != beyond - upper:
        raise error  # LMDB leaves no gap between nodes
    return keys, nodes
