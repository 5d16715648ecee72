"""Sets of replicas: which sites are in one, which of them are a quorum, and how the set changes through the log.

A replica has a *number*, which is never used again, and the *name* of its site. A site that lost its disk comes back
as another replica, with the same name and another number. Sets are ordered by age: a later change makes a later
version, and a forced one a later epoch, so that a replica that missed it can recognize it.
Promised: every set here has 1 to MAX_SITES replicas and a quorum that fits them, any two of which intersect.
"""

from collections.abc import Collection, Mapping
from functools import lru_cache
from itertools import pairwise

from msgspec import DecodeError, Struct, msgpack
from msgspec.structs import replace

from reconvene.corel.replicas.quorum import Dynamic, Quorum, check_intersects, make_quorum
from reconvene.errors import Malformed, Rejected
from reconvene.ids import MAX_SITES
from reconvene.quorum import Spec
from reconvene.voting import Voters

__all__ = [
    "MAJORITY", "MAX_NAME_BYTES", "MAX_NUMBER", "MAX_QUORUM_BYTES", "MAX_VERSION", "Change", "Member", "ReplicaSet",
    "applies", "check_replicas", "decode_change", "decode_replicas", "encode_change", "encode_replicas",
]  # fmt: skip

MAX_NAME_BYTES = 255
MAX_NUMBER = (1 << 16) - 1
"""Of a replica: batches carry it in 16 bits."""
MAX_VERSION = (1 << 62) - 1
MAX_QUORUM_BYTES = 32 << 10
"""Of a specification, as msgpack: more than any kind that comes with Reconvene needs."""
MAJORITY: Mapping[str, object] = {"kind": "majority"}


class Member(Struct, array_like=True, frozen=True):
    number: int
    """In the log; never used again."""
    name: str
    """Of its site."""


class ReplicaSet(Struct, array_like=True, frozen=True):
    epoch: int
    """From 0; one more at each forced change."""
    version: int
    """From 0; one more at each change."""
    replicas: list[Member]
    """By number."""
    next_number: int
    """Of the next replica that is added."""
    quorum: dict[str, object]

    @classmethod
    def first(cls, names: Collection[str], quorum: Spec = MAJORITY) -> "ReplicaSet":
        """A new log's: numbers are places among the sorted names. Raises Rejected."""
        replicas = [Member(number, name) for number, name in enumerate(sorted(names))]
        return _sound(cls(0, 0, replicas, len(replicas), dict(quorum)))

    @property
    def age(self) -> tuple[int, int]:
        """Of two sets of one log the greater age is the later one's."""
        return self.epoch, self.version

    def names(self) -> list[str]:
        """Sorted."""
        return sorted(replica.name for replica in self.replicas)

    def numbers(self) -> list[int]:
        return [replica.number for replica in self.replicas]

    def by_number(self) -> dict[int, str]:
        """Each replica's number, with the name of its site."""
        return {replica.number: replica.name for replica in self.replicas}

    def number_of(self, name: str) -> int | None:
        return next((replica.number for replica in self.replicas if replica.name == name), None)

    def name_of(self, number: int) -> str | None:
        return next((replica.name for replica in self.replicas if replica.number == number), None)

    def quorum_holds(self, names: Collection[str]) -> bool:
        """Whether these sites, or some of them, are a quorum, whatever happened before. A site that is no replica
        does not count."""
        return self._made().holds(names)

    def voters(self) -> Voters | None:
        """Where the replicas vote dynamically: what that takes. None: `quorum_holds` decides."""
        quorum = self._made()
        return Voters(frozenset(self.numbers()), quorum.minimum) if isinstance(quorum, Dynamic) else None

    def weights(self) -> dict[int, int]:
        """By number: what each replica weighs in a session of dynamic voting."""
        quorum = self._made()
        return {
            replica.number: quorum.weight(replica.name) if isinstance(quorum, Dynamic) else 1
            for replica in self.replicas
        }

    def _made(self) -> Quorum:
        return _quorum(msgpack.encode(self.quorum), tuple(self.names()))

    def quorum_holds_numbers(self, numbers: Collection[int]) -> bool:
        """The same by number: a site that is another replica by now does not count for the one it was."""
        return self.quorum_holds([replica.name for replica in self.replicas if replica.number in numbers])

    # -- changes: each returns a new set, one version later, or raises Rejected

    def added(self, name: str, quorum: Spec | None = None) -> "ReplicaSet":
        """A quorum that names sites has to be given with the change, to say which part the new one has in it."""
        self._expect_no_member(name)
        return self._changed([*self.replicas, Member(self.next_number, name)], quorum, self.quorum)

    def removed(self, name: str, quorum: Spec | None = None) -> "ReplicaSet":
        """It is removed from the quorum too, unless another one is given."""
        self._expect_member(name)
        kept = [replica for replica in self.replicas if replica.name != name]
        if not kept:
            raise Rejected(f"replicas: {name} is the last one")
        return self._changed(kept, quorum, _without(self.quorum, {name}))

    def replaced(self, old: str, new: str, quorum: Spec | None = None) -> "ReplicaSet":
        """`new` takes the place of `old`, in the quorum too unless another one is given. It may be the same site,
        which lost its disk: it gets a number of its own."""
        self._expect_member(old)
        if new != old:
            self._expect_no_member(new)
        kept = [replica for replica in self.replicas if replica.name != old]
        return self._changed([*kept, Member(self.next_number, new)], quorum, _renamed(self.quorum, old, new))

    def with_quorum(self, quorum: Spec) -> "ReplicaSet":
        return self._changed(self.replicas, quorum, quorum)

    def forced_without(self, lost: Collection[str], quorum: Spec | None = None) -> "ReplicaSet":
        """The next epoch, without a quorum's consent: what only the lost ones had is lost with them.

        The caller decides whether that is necessary: also a change under way may wait for a replica that is lost.
        """
        if not lost:
            raise Rejected("replicas: expected the names of those that are lost")
        for name in sorted(lost):
            self._expect_member(name)
        kept = [replica for replica in self.replicas if replica.name not in lost]
        if not kept:
            raise Rejected("replicas: expected at least one that is not lost")
        return replace(self._changed(kept, quorum, _without(self.quorum, lost)), epoch=self.epoch + 1)

    def _expect_member(self, name: str) -> None:
        if self.number_of(name) is None:
            raise Rejected(f"replicas: {_shown(name)} is none of them: {', '.join(self.names())}")

    def _expect_no_member(self, name: str) -> None:
        if self.number_of(name) is not None:
            raise Rejected(f"replicas: {name} is one already")

    def _changed(self, replicas: list[Member], quorum: Spec | None, usual: Spec) -> "ReplicaSet":
        changed = ReplicaSet(
            self.epoch,
            self.version + 1,
            replicas,
            max(self.next_number, replicas[-1].number + 1),
            dict(usual if quorum is None else quorum),
        )
        _check_replicas(changed)
        try:
            _check_quorum(changed)
        except Rejected as error:
            if quorum is not None:
                raise
            raise Rejected(f"{error}: expected a quorum for the new set with the change") from None
        return changed


class Change(Struct, array_like=True, frozen=True):
    """The content of a change's message in the log."""

    base: tuple[int, int]
    """The age of the set that it was made for."""
    result: ReplicaSet


def applies(change: Change, current: ReplicaSet) -> bool:
    """Whether it was made for this set, and follows from it: a replica that stays keeps its number, and one that is
    added gets a new one."""
    result = change.result
    if change.base != current.age or result.version != current.version + 1:
        return False
    if result.epoch not in (current.epoch, current.epoch + 1) or result.next_number < current.next_number:
        return False
    return all(
        replica.number >= current.next_number or current.name_of(replica.number) == replica.name
        for replica in result.replicas
    )


def encode_replicas(replicas: ReplicaSet) -> bytes:
    return msgpack.encode(replicas)


def decode_replicas(data: bytes) -> ReplicaSet:
    """Raises Malformed, also where the set breaks what the top of this file promises."""
    try:
        return _sound(_REPLICAS.decode(data))
    except (*_UNREADABLE, Rejected) as error:
        raise Malformed(f"a replica set: {error}") from None


def check_replicas(found: ReplicaSet) -> None:
    """Of a set that came in something else. Raises Malformed."""
    try:
        _sound(found)
    except Rejected as error:
        raise Malformed(f"a replica set: {error}") from None


def encode_change(change: Change) -> bytes:
    return msgpack.encode(change)


def decode_change(data: bytes) -> Change:
    """Raises Malformed, also where its result breaks what the top of this file promises."""
    try:
        change = _CHANGE.decode(data)
        _sound(change.result)
    except (*_UNREADABLE, Rejected) as error:
        raise Malformed(f"a change of the replicas: {error}") from None
    return change


_REPLICAS = msgpack.Decoder(ReplicaSet)
_CHANGE = msgpack.Decoder(Change)
_UNREADABLE = (DecodeError, RecursionError, TypeError, ValueError, OverflowError)
"""Raised by the decoder for bytes that are no msgpack, or hold what Python can't."""


def _sound(found: ReplicaSet) -> ReplicaSet:
    _check_replicas(found)
    _check_quorum(found)
    return found


def _check_replicas(found: ReplicaSet) -> None:
    """Raises Rejected."""
    names = found.names()
    if not 1 <= len(names) <= MAX_SITES:
        raise Rejected(f"replicas: expected 1 to {MAX_SITES}, not {len(names)}")
    for name in names:
        if not name.isprintable() or not 1 <= len(name.encode()) <= MAX_NAME_BYTES:
            raise Rejected(f"replicas: expected a printable name of 1 to {MAX_NAME_BYTES} bytes, not {_shown(name)}")
    for name, following in pairwise(names):
        if name == following:
            raise Rejected(f"replicas: {name} is named twice")
    if any(number >= following for number, following in pairwise([-1, *found.numbers(), found.next_number])):
        raise Rejected("replicas: expected numbers that rise, all below the next one")
    if found.next_number > MAX_NUMBER + 1:
        raise Rejected(f"replicas: the log has given all numbers up to {MAX_NUMBER}")
    if not 0 <= found.epoch <= found.version <= MAX_VERSION:
        raise Rejected(f"replicas: expected an epoch up to the version, not {found.epoch} and {found.version}")


def _check_quorum(found: ReplicaSet) -> None:
    """Raises Rejected."""
    try:
        spec = msgpack.encode(found.quorum)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Rejected(f"quorum: expected what msgpack can carry: {error}") from None
    if len(spec) > MAX_QUORUM_BYTES:
        raise Rejected(f"quorum: expected at most {MAX_QUORUM_BYTES} bytes, not {len(spec)}")
    try:
        _quorum(spec, tuple(found.names()))
    except Malformed as error:
        raise Rejected(str(error)) from None


@lru_cache(maxsize=64)
def _quorum(spec: bytes, names: tuple[str, ...]) -> Quorum:
    """Made and checked once: it is needed at every change of the configuration."""
    quorum = make_quorum(msgpack.decode(spec), names)
    check_intersects(quorum, names)
    return quorum


def _without(spec: Spec, lost: Collection[str]) -> Spec:
    """The same quorum, of the others. A kind that an application registered stays as it is, and has to fit."""
    quorum = dict(spec)
    weights, rows = spec.get("weights"), spec.get("rows")
    if spec.get("kind") in ("weighted", "dynamic") and isinstance(weights, Mapping):
        quorum["weights"] = {name: weight for name, weight in weights.items() if name not in lost}
    elif spec.get("kind") == "grid" and isinstance(rows, list | tuple):
        shorter = [[name for name in row if name not in lost] for row in rows]
        quorum["rows"] = [row for row in shorter if row]
    return quorum


def _renamed(spec: Spec, old: str, new: str) -> Spec:
    quorum = dict(spec)
    weights, rows = spec.get("weights"), spec.get("rows")
    if spec.get("kind") in ("weighted", "dynamic") and isinstance(weights, Mapping):
        quorum["weights"] = {new if name == old else name: weight for name, weight in weights.items()}
    elif spec.get("kind") == "grid" and isinstance(rows, list | tuple):
        quorum["rows"] = [[new if name == old else name for name in row] for row in rows]
    return quorum


def _shown(name: str) -> str:
    text = repr(name)
    return text if len(text) <= 60 else f"{text[:57]}..."
