"""Labels: what is one, which effective label a cast has, and ≤ (3.3)."""

from itertools import product

import pytest

from reconvene.errors import Rejected
from reconvene.isis.labels import Asked, Label, at_most, check, effective, text


@pytest.mark.parametrize(
    "label", [None, "", "x", "é" * 127, {}, {"x": 0}, {"x": 2**62 - 1}, {str(n): n for n in range(16)}]
)
def test_what_can_be_a_label(label: Asked) -> None:
    check(label)


@pytest.mark.parametrize(
    ("label", "why"),
    [
        ("x" * 256, "256 bytes"),
        ("é" * 128, "256 bytes"),
        ({str(n): n for n in range(17)}, "17 components"),
        ({"x" * 65: 1}, "64 bytes"),
        ({"": 3}, "component '': expected a text of 1 to 64"),
        ({"x": -1}, "is -1"),
        ({"x": 2**62}, "expected a number"),
        ({"x": True}, "is True"),
        ({"x": "1"}, "is '1'"),
        ({1: 1}, "component 1"),
    ],
)
def test_what_can_not(label: Asked, why: str) -> None:
    with pytest.raises(Rejected, match=why):
        check(label)


def test_effective_labels() -> None:
    assert effective(None, 7) == (("", 7),)
    assert effective("x", 7) == (("x", 7),)
    assert effective({"y": 2, "x": 1}, 7) == (("x", 1), ("y", 2))
    assert effective({}, 7) == ()
    assert text(effective({"y": 2, "x": 1}, 7)) == '{"x":1,"y":2}'


def test_at_most() -> None:
    assert at_most((("x", 1),), (("x", 1),))
    assert at_most((("x", 1),), (("x", 2), ("y", 0)))
    assert not at_most((("x", 1), ("y", 0)), (("x", 2),))
    assert not at_most((("x", 2),), (("x", 1),))
    assert not at_most((("x", 1),), (("y", 1),))
    assert not at_most((), (("x", 1),)), "an empty label precedes nothing"
    assert not at_most((("x", 1),), ())
    assert not at_most((), ())


def test_it_is_transitive() -> None:
    """So a chain does not break when its middle is forgotten; with overlapping sets it would."""
    values = (None, 0, 1, 2)
    labels: list[Label] = [
        tuple((name, value) for name, value in zip("xyz", chosen, strict=True) if value is not None)
        for chosen in product(values, repeat=3)
    ]
    below = {one: [other for other in labels if at_most(one, other)] for one in labels}
    for one, others in below.items():
        for other in others:
            assert set(below[other]) <= set(others), (one, other)
