import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconvene.sim.durations import parse_bandwidth, parse_duration, show_duration


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0s", 0),
        ("1ns", 1),
        ("1.5us", 1_500),
        ("500ms", 500_000_000),
        ("0.1s", 100_000_000),
        ("2min", 120_000_000_000),
        ("10 s", 10_000_000_000),
        ("0.0000000001s", 0),
    ],
)
def test_durations(text: str, ns: int) -> None:
    assert parse_duration(text) == ns


@pytest.mark.parametrize(
    "text",
    ["", "s", "5", "-1s", "1h", "1d", "1w", "1,5s", "1e3s", ".5s", "5.s", "١s", "1s ", "9" * 50 + "s", "999999min"],
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@given(st.integers(0, 10**15))
def test_a_duration_is_shown_as_it_is_read(ns: int) -> None:
    assert abs(parse_duration(show_duration(ns)) - ns) <= ns * 1e-3


@pytest.mark.parametrize(
    ("text", "bits"),
    [("1bit", 1), ("64kbit", 64_000), ("1.5Mbit", 1_500_000), ("10Gbit", 10**10), ("unlimited", 0)],
)
def test_bandwidths(text: str, bits: int) -> None:
    assert parse_bandwidth(text) == bits


@pytest.mark.parametrize("text", ["", "0bit", "1mbit", "1Mb", "-1Mbit", "Mbit", "9999999Gbit"])
def test_what_is_no_bandwidth(text: str) -> None:
    with pytest.raises(ValueError, match="bandwidth"):
        parse_bandwidth(text)
