"""Numbers as people read them: three digits that count, and a unit."""

__all__ = ["show_count", "show_ns", "show_number", "show_percent", "show_power", "show_time"]

_UNITS = ((60 * 10**9, "min"), (10**9, "s"), (10**6, "ms"), (10**3, "µs"))


def show_ns(ns: float | None) -> str:
    """A duration. Clocks of different machines differ, so that it may be negative."""
    if ns is None:
        return "–"
    sign, size = ("−" if ns < 0 else ""), abs(ns)
    for scale, unit in _UNITS:
        if size >= scale * (2 if unit == "min" else 1):
            return f"{sign}{_three(size / scale)} {unit}"
    return f"{sign}{size:.0f} ns"


def show_power(ns: float) -> str:
    """A tick of a logarithmic axis. No minutes: 200 s are a round number, 3.33 minutes are not."""
    scale, unit = next((entry for entry in _UNITS[1:] if ns >= entry[0]), (1, "ns"))
    return f"{ns / scale:,.0f} {unit}"


def show_time(ns: int, step_ns: int) -> str:
    """A moment since the run's start, as exact as the step between neighbours needs."""
    scale, unit = next((entry for entry in _UNITS[1:] if abs(ns) >= entry[0] or step_ns >= entry[0]), (1, "ns"))
    places = next((place for place in range(10) if step_ns * 10**place >= scale), 9)
    return f"{ns / scale:.{places}f} {unit}"


def show_count(count: float) -> str:
    """Grouped by thousands: 12,345."""
    return f"{count:,.0f}"


def show_number(value: float | None) -> str:
    if value is None:
        return "–"
    size = abs(value)
    for scale, unit in ((10**9, "G"), (10**6, "M"), (10**4, "k")):
        if size >= scale:
            return f"{_three(value / (1000 if unit == 'k' else scale))}{unit}"
    return show_count(value) if size >= 1000 else _three(value)


def show_percent(share: float | None) -> str:
    return "–" if share is None else f"{share * 100:.1f} %"


def _three(value: float) -> str:
    size = abs(value)
    if size >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}"
