"""How much an object holds, by the attribute that holds it: to see what grows with time.

A structure whose entries nobody forgets looks like any other one in a short test. After many rounds of the same work,
at rest, it is the one that holds more than before.
"""

import enum
import random
import types
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

__all__ = ["grown", "held"]

_ATOMS = (
    type(None), bool, int, float, str, complex, type, types.ModuleType, types.BuiltinFunctionType, types.CodeType,
    enum.Enum, random.Random,
)  # fmt: skip
_CONTAINERS = (list, tuple, set, frozenset, deque)


def held(root: object, *, but: Callable[[object], bool] = lambda value: False) -> Counter[str]:
    """By attribute, as `Pool.entries`: the number of elements of all containers there, also of containers in them, in
    all objects that can be reached from this one; and under `… bytes` the size of the data. An object that can be
    reached in several ways counts once. `but`: what is left out."""
    count: Counter[str] = Counter()
    seen: set[int] = set()
    waiting: deque[tuple[str, object]] = deque([("", root)])
    kept: list[object] = []
    while waiting:
        where, value = waiting.popleft()
        if isinstance(value, bytes | bytearray | memoryview):
            count[f"{where} bytes"] += len(value)
            continue
        if isinstance(value, _ATOMS) or id(value) in seen or but(value):
            continue
        seen.add(id(value))
        kept.append(value)  # so that nothing made on the way, as a slot's list, has the address of another
        if isinstance(value, Mapping):
            count[where] += len(value)
            waiting.extend((f"{where}[]", element) for pair in list(value.items()) for element in pair)
        elif isinstance(value, _CONTAINERS) and not hasattr(value, "_fields"):
            count[where] += len(value)
            waiting.extend((f"{where}[]", element) for element in list(value))
        waiting.extend(_parts(value))
    return count


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """The attributes of an object, by name."""
    name = type(value).__name__
    if isinstance(value, types.FunctionType):
        for variable, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            try:
                yield f"{value.__qualname__}.{variable}", cell.cell_contents
            except ValueError:
                continue  # not assigned yet
    elif isinstance(value, types.MethodType):
        yield f"{value.__qualname__}.self", value.__self__
    for attribute in _names(value):
        try:
            yield f"{name}.{attribute}", getattr(value, attribute)
        except AttributeError:
            continue  # not assigned yet


def _names(value: Any) -> Iterable[str]:
    if isinstance(value, Struct):
        return value.__struct_fields__
    if isinstance(value, tuple):
        return getattr(value, "_fields", ())
    names = dict.fromkeys(getattr(value, "__dict__", ()))
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names |= dict.fromkeys(_mangled(kind, slot) for slot in ([slots] if isinstance(slots, str) else slots))
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def _mangled(kind: type, slot: str) -> str:
    return f"_{kind.__name__.lstrip('_')}{slot}" if slot.startswith("__") and not slot.endswith("__") else slot


def grown(before: Mapping[str, int], after: Mapping[str, int], spare: int = 0) -> dict[str, tuple[int, int]]:
    """What holds more than before, by more than `spare`."""
    return {
        where: (before.get(where, 0), after[where])
        for where in sorted(after)
        if after[where] > before.get(where, 0) + spare
    }
