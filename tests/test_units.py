"""Durations and sizes as people write them are parsed, and printed the same way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconvene.units import (
    exact_size,
    parse_address,
    parse_duration,
    parse_size,
    show_address,
    show_duration,
    show_size,
)


@pytest.mark.parametrize(
    ("text", "ns"), [("600ms", 600_000_000), ("1.5 s", 1_500_000_000), ("2min", 120_000_000_000), ("0.1us", 100)]
)
def test_durations(text: str, ns: int) -> None:
    assert parse_duration(text) == ns


@pytest.mark.parametrize("text", ["", "5", "5 minutes", "-1s", "1e3s", "1ss", "999999min", "٣s", "1" * 50 + "s"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("1d", 86_400), ("1.5 d", 129_600), ("2w", 1_209_600), ("366d", 31_622_400)]
)
def test_days_and_weeks_only_where_they_are_allowed(text: str, seconds: int) -> None:
    assert parse_duration(text, days=True) == seconds * 10**9
    with pytest.raises(ValueError, match=r"ns, us, ms, s or min$"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["d", "1D", "1 days", "53w", "-1d"])
def test_no_days(text: str) -> None:
    with pytest.raises(ValueError, match="a duration"):
        parse_duration(text, days=True)


def test_whole_days_are_shown_as_such() -> None:
    day = 86_400 * 10**9
    assert [show_duration(ns, days=True) for ns in (0, day, 366 * day, day // 2)] == ["0ns", "1d", "366d", "720min"]
    assert show_duration(day) == "1440min"


@pytest.mark.parametrize(
    ("text", "size"), [("4MiB", 4 << 20), ("1.5KiB", 1536), ("2 GB", 2 * 10**9), ("7B", 7), ("1kB", 1000)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "4", "4M", "-4MiB", "4mib", "MiB"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="a size such as 4MiB"):
        parse_size(text)


def test_sizes_shown() -> None:
    assert [show_size(size) for size in (0, 1023, 1024, 4 << 20, 212_992, 3 << 29)] == [
        *("0B", "1023B", "1KiB", "4MiB", "208KiB", "1.5GiB")
    ]


def test_sizes_to_the_byte() -> None:
    assert [exact_size(size) for size in (0, 1, 1536, 1024, 60_000, 3 << 20, 1 << 30)] == [
        *("0", "1", "1536", "1KiB", "60000", "3MiB", "1GiB")
    ]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1:7000", ("10.0.0.1", 7000)),
        ("a.example.com:1", ("a.example.com", 1)),
        ("[::1]:65535", ("::1", 65535)),
        ("[fe80::1%eth0]:7", ("fe80::1%eth0", 7)),
        ("localhost:0", ("localhost", 0)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address
    assert show_address(address) == text


@pytest.mark.parametrize(
    "text",
    ["", ":", "a", "a:", ":7", "a:65536", "a:x", "::1:7000", "[a]:7", "[::1]", "a b:7", "a:7:8", "a/b:7"],
)
def test_no_addresses(text: str) -> None:
    with pytest.raises(ValueError, match="an address such as"):
        parse_address(text)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (parse_duration, parse_size, parse_address):
        try:
            parse(text)
        except ValueError as error:
            assert str(error).startswith("a")  # noqa: PT017


@given(st.integers(0, 3_600_000))
def test_milliseconds_come_back(ms: int) -> None:
    assert abs(parse_duration(show_duration(ms * 10**6)) - ms * 10**6) <= 5 * 10**5
