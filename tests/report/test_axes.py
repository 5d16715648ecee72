"""Axes of plots: labels are round numbers, and no letter is outside its picture."""

import math
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from msgspec.structs import replace
from tests.report.samples import sample, spread

from reconvene.report.analysis_page import analysis_page
from reconvene.report.measures import Analysis
from reconvene.report.plots import NARROW, WHOLE, WIDE, Area, Bar, Dots, Line, areas, bars, curves, dots, time_axis
from reconvene.report.scales import linear
from reconvene.report.timeline import draw_timeline

_SECOND = 10**9
_LENGTHS = (
    *(1, 999, 1_234_567, _SECOND, 7 * _SECOND, 119 * _SECOND, 120 * _SECOND, 605 * _SECOND, 3_599 * _SECOND),
    *(7_200 * _SECOND, 100_000 * _SECOND, 10**7 * _SECOND),
)
_LONG = "a-site-with-a-very-long-name-in-new-zealand"
_LETTER = 6.2
"""The widest letters of such a font at 11 pixels, on average."""


def is_round(step: float) -> bool:
    power = 10.0 ** math.floor(math.log10(step) + 1e-9)
    return any(math.isclose(step, power * factor, rel_tol=1e-6) for factor in (1, 2, 5))


def outside(drawing: str) -> list[str]:
    """Texts that go over an edge."""
    picture = ET.fromstring(drawing)
    wide, high = (float(size) for size in picture.attrib["viewBox"].split()[2:])
    found = []
    for text in picture.iter("text"):
        said = "".join(text.itertext())
        x, y, length = float(text.attrib["x"]), float(text.attrib["y"]), _LETTER * len(said)
        left = x - {"start": 0, "middle": length / 2, "end": length}[text.attrib.get("text-anchor", "start")]
        if not (left >= -0.5 and left + length <= wide + 0.5 and 0 < y <= high):
            found.append(said)
    return found


@pytest.mark.parametrize("length", _LENGTHS)
@pytest.mark.parametrize("about", [4, 8, 10])
def test_labels_of_time_are_round_in_their_unit(length: int, about: int) -> None:
    x, show = time_axis(length, 52.0, 526.0, about)
    labels = [show(tick) for tick in x.ticks]
    assert 2 <= len(labels) <= about + 1
    assert len({label.split()[1] for label in labels}) == 1
    steps = [float(after.split()[0]) - float(before.split()[0]) for before, after in pairwise(labels)]
    assert all(math.isclose(step, steps[0], rel_tol=1e-4) and is_round(step) for step in steps), labels


def test_what_is_counted_has_whole_labels() -> None:
    for most in (0.4, 1, 2, 3, 7, 12, 1_000):
        assert all(tick == int(tick) for tick in linear(0, most, 226.0, 20.0, 4, whole=True).ticks)
    assert [tick for tick in linear(0, 1, 226.0, 20.0, 4).ticks if tick != int(tick)], "of shares there are others"


@pytest.mark.parametrize("width", [NARROW, WIDE, WHOLE])
@pytest.mark.parametrize("scale", [1.0, 1e3, 1.7e6, 9.9e6, 1e9, 2.1e10, 6e11, 4e12])
def test_no_letter_of_a_plot_is_outside(width: float, scale: float) -> None:
    names = ("a", _LONG)
    rows = [Dots(f"{name} · agreed", spread(scale), "agreed") for name in names]
    assert outside(dots(rows, width)) == []
    assert outside(curves([Line("agreed", spread(scale).curve, "agreed")], width)) == []
    assert outside(bars([Bar(name, 0.5, "50.0 %", name) for name in names], 0.5, width)) == []


@pytest.mark.parametrize("width", [NARROW, WIDE, WHOLE])
@pytest.mark.parametrize("length", _LENGTHS)
def test_no_letter_over_time_is_outside(width: float, length: int) -> None:
    layers = [Area("agreed", [1.0, 123_456.0], "agreed")]
    bucket = max(length // 2, 1)
    drawing = areas([0, bucket], layers, width, length=length, bucket=bucket, unit="deliveries a second")
    assert outside(drawing) == []
    story = sample().story
    assert story is not None
    assert outside(draw_timeline(replace(story, nodes=["a", _LONG], length=length, bands=[], faults=[]), width)) == []


def jumped() -> Analysis:
    """Where site b's clock was set back."""
    analysis = sample()
    return replace(
        analysis,
        latency=[replace(entry, negative=3 if entry.site in (None, "b") else 0) for entry in analysis.latency],
        green_at_sites=[replace(entry, negative=int(entry.site == "b")) for entry in analysis.green_at_sites],
    )


def steady() -> Analysis:
    analysis = sample()
    return replace(analysis, latency=[replace(entry, negative=0) for entry in analysis.latency])


def test_what_clocks_that_were_set_do_is_said_where_it_shows() -> None:
    page = analysis_page(jumped())
    assert "12 deliveries seem to come before their sending: a clock was set, or clocks differ." in page
    assert "1 seem to be green before they were accepted: a clock was set" in page
    assert "also after that was set" in page
    assert "some mean is negative, by its clocks" in page
    assert page.count("negative</th>") == 2, "one in each table of latencies"


def test_nothing_is_said_of_clocks_that_agree() -> None:
    page = analysis_page(steady())
    assert "a clock was set" not in page
    assert "negative</th>" not in page
