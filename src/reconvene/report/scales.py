"""From values to pixels, and which values deserve a tick."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["Scale", "linear", "logarithmic", "nice_step", "nines", "unit_of"]

_UNITS = ((3600e9, "h"), (60e9, "min"), (1e9, "s"), (1e6, "ms"), (1e3, "µs"))


@dataclass(frozen=True, slots=True)
class Scale:
    """`place(value)` is where on the axis, in pixels. `ticks` are values inside it."""

    place: Callable[[float], float]
    ticks: Sequence[float]
    low: float
    high: float


def nice_step(span: float, about: int) -> float:
    """1, 2 or 5 times a power of ten, so that `span` has no more than about so many steps."""
    if span <= 0:
        return 1.0
    rough = span / max(about, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    return next((power * factor for factor in (1, 2, 5) if power * factor >= rough * 0.999), power * 10)


def unit_of(longest_ns: float) -> tuple[float, str]:
    """The unit of a time axis that is so long: how many ns it has, and its name."""
    return next((unit for unit in _UNITS if longest_ns >= 2 * unit[0]), (1.0, "ns"))


def linear(
    low: float,
    high: float,
    start: float,
    end: float,
    about: int = 5,
    *,
    whole: bool = False,
    unit: float = 1.0,
) -> Scale:
    """An axis that ends at the data. Ticks are round numbers of `unit`, with `whole` also whole ones."""
    if high <= low:
        high = low + unit
    step = nice_step((high - low) / unit, about)
    step = unit * (max(1.0, step) if whole else step)
    ticks = [index * step for index in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    ratio = (end - start) / (high - low)
    return Scale(lambda value: start + (value - low) * ratio, ticks, low, high)


def logarithmic(low: float, high: float, start: float, end: float, about: int = 6) -> Scale:
    """By powers of ten, a tick at each, and between them at 2 and 5 where there are few."""
    low = max(low, 1.0)
    high = max(high, low * 10)
    first, last = math.log10(low), math.log10(high)
    powers = range(math.floor(first), math.ceil(last) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        ticks = [factor * 10.0**power for power in powers for factor in factors]
        ticks = [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]
        if len(ticks) <= about:
            break
    else:
        skip = math.ceil(len(ticks) / about)
        ticks = ticks[::skip]
    ratio = (end - start) / (last - first)
    return Scale(lambda value: start + (math.log10(max(value, low)) - first) * ratio, ticks, low, high)


def nines(highest: float, start: float, end: float) -> Scale:
    """Shares of 1, stretched towards it: as far from 90 % to 99 % as from there to 99.9 %."""
    shares = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999)

    def depth(share: float) -> float:
        return -math.log10(max(1 - share, 10**-6))

    ratio = (end - start) / depth(highest)
    ticks = [share for share in shares if share <= highest]
    return Scale(lambda share: start + depth(min(share, highest)) * ratio, ticks, 0.0, highest)
