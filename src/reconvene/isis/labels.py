"""Labels of CBCASTs: which causal orders matter (3.3 of the ISIS paper).

A label maps components to numbers. B ≤ B' if B has components, all of them are among those of B', and each of its
numbers is at most that of B'. That is transitive, so a chain of causes does not break when its middle is forgotten.
"""

from collections.abc import Mapping

from msgspec import json

from reconvene.errors import Rejected

__all__ = ["DEFAULT", "Asked", "Label", "at_most", "check", "effective", "text"]

Label = tuple[tuple[str, int], ...]
"""(component, number), sorted by component."""
Asked = str | Mapping[str, int] | None
"""As a program names it: a topic, numbers of its own, or nothing, which orders all that the process has seen."""

DEFAULT = ""
"""The component of casts without a label. Its number is always the clock: with one of its own a program could put a
cast before causal ABCASTs that it has seen, and their rows do not show the clock."""

_COMPONENTS = 16
_COMPONENT_BYTES = 64
_LABEL_BYTES = 255
_NUMBER = 1 << 62


def check(label: Asked) -> None:
    """Raises Rejected where no cast can have this label."""
    if label is None:
        return
    if isinstance(label, str):
        _check_text(label)
        return
    if len(label) > _COMPONENTS:
        raise Rejected(f"a label of {len(label)} components: expected at most {_COMPONENTS}")
    for component, number in label.items():
        if not isinstance(component, str) or not component or len(component.encode()) > _COMPONENT_BYTES:
            raise Rejected(f"label component {component!r}: expected a text of 1 to {_COMPONENT_BYTES} bytes")
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < _NUMBER:
            raise Rejected(f"label component {component!r} is {number!r}: expected a number from 0 to 2**62 - 1")


def _check_text(label: str) -> None:
    if len(label.encode()) > _LABEL_BYTES:
        raise Rejected(f"a label of {len(label.encode())} bytes: expected at most {_LABEL_BYTES}")


def effective(label: Asked, clock: int) -> Label:
    """The label that the cast carries. `clock`: Lamport's, above that of all that its site has received."""
    if label is None:
        return ((DEFAULT, clock),)
    if isinstance(label, str):
        return ((label, clock),)
    return tuple(sorted(label.items()))


def at_most(one: Label, other: Label) -> bool:
    """one ≤ other. An empty label is at most nothing, and nothing is at most an empty label."""
    if len(one) == 1 == len(other):
        return one[0][0] == other[0][0] and one[0][1] <= other[0][1]
    if not one or len(one) > len(other):
        return False
    numbers = dict(other)
    return all(component in numbers and number <= numbers[component] for component, number in one)


def text(label: Label) -> str:
    """As traces have it: JSON, with sorted keys."""
    return json.encode(dict(label)).decode()
