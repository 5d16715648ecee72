"""What the parts of a soak add up to, for people."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Protocol

from reconvene.lab.soak.faults import BREAKS, MENDS
from reconvene.lab.soak.part import Part
from reconvene.lab.soak.vitals import WARM_S, Life

__all__ = [
    "GROWTH", "GROWTH_BYTES", "AnyPart", "complaints", "dropped_line", "fault_lines", "grown", "growth",
    "lines", "memory_lines", "part_line",
]  # fmt: skip

GROWTH, GROWTH_BYTES = 0.10, 4 << 20
"""Memory is flat where a site that was warm has not grown by more than this share and this much."""
_MIB = 1 << 20


class AnyPart(Protocol):
    """Of whichever soak."""

    number: int
    load_s: float
    faults: dict[str, int]
    longest_gap_s: float
    dropped: dict[str, int]
    spared: str
    lives: list[Life]

    @property
    def breaks(self) -> int: ...


def grown(life: Life, spare: int = 0) -> bool:
    """`spare`: bytes that it may fill besides."""
    return life.warm_bytes is not None and life.last_bytes > (1 + GROWTH) * life.warm_bytes + GROWTH_BYTES + spare


def complaints(parts: Sequence[Part], least_rate: float) -> list[str]:
    """What does not hold, one line each."""
    found = [f"part {part.number}: {finding}" for part in parts for finding in part.findings]
    seconds = sum(part.load_s for part in parts)
    rate = sum(part.counts.messages for part in parts) / seconds
    if rate < least_rate:
        found.append(f"{rate:,.0f} messages a second, at least {least_rate:,.0f} expected")
    return found + growth(parts)


def growth(parts: Sequence[AnyPart], spare: int = 0) -> list[str]:
    """Sites whose memory grew."""
    return [
        f"part {part.number}: site {life.site} grew from {_mib(life.warm_bytes)} to {_mib(life.last_bytes)}"
        for part in parts
        for life in part.lives
        if grown(life, spare)
    ]


def part_line(part: Part) -> str:
    """One line, when it has ended."""
    counts = part.counts
    verdict = "no violation" if part.ok else f"{part.violations} VIOLATIONS, {len(part.findings)} findings"
    return (
        f"part {part.number} (seed {part.seed}): {part.load_s:.0f} s, {counts.messages:,} messages"
        f" ({counts.messages / part.load_s:,.0f}/s), {counts.deliveries:,} deliveries,"
        f" {sum(part.faults.values())} faults, {counts.configurations} configurations, {counts.rows:,} events:"
        f" {verdict}"
    )


def lines(parts: Sequence[Part]) -> Iterator[str]:
    seconds = sum(part.load_s for part in parts)
    messages = sum(part.counts.messages for part in parts)
    deliveries = sum(part.counts.deliveries for part in parts)
    yield f"{parts[0].sites} sites, {len(parts)} parts, {seconds / 60:.1f} minutes under load"
    yield f"messages        {messages:,}, {messages / seconds:,.0f} a second"
    yield f"deliveries      {deliveries:,} at sites, {deliveries / seconds:,.0f} a second"
    yield from _clients(parts)
    yield from fault_lines(parts, (*BREAKS, *MENDS))
    yield f"configurations  {sum(part.counts.configurations for part in parts):,}"
    events = sum(part.counts.rows for part in parts)
    cases = sum(sum(part.cases.values()) for part in parts)
    yield f"verified        {events:,} events, {cases:,} cases, {sum(part.violations for part in parts)} violations"
    yield dropped_line(parts)
    yield from memory_lines(parts)


def _clients(parts: Sequence[Part]) -> Iterator[str]:
    sums = {
        name: sum(getattr(part, name) for part in parts)
        for name in ("accepted", "delivered", "refused", "unknown", "shared")
    }
    yield (
        "clients         {accepted:,} messages accepted, {delivered:,} read; {refused:,} refused, {unknown:,} of"
        " unknown outcome; {shared:,} stretches between views compared".format(**sums)
    )


def fault_lines(parts: Sequence[AnyPart], kinds: Sequence[str]) -> Iterator[str]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part.faults)
    each = ", ".join(f"{kind} {total[kind]}" for kind in kinds)
    seconds = sum(part.load_s for part in parts)
    breaks = sum(part.breaks for part in parts)
    longest = max(part.longest_gap_s for part in parts)
    yield f"faults          {total.total()}: {each}"
    yield f"                something broken every {seconds / max(1, breaks):.1f} s, {longest:.1f} s apart at most"


def dropped_line(parts: Sequence[AnyPart]) -> str:
    dropped: Counter[str] = Counter()
    for part in parts:
        dropped.update(part.dropped)
    each = ", ".join(f"{name} {count:,}" for name, count in sorted(dropped.items()))
    return f"not taken in    {each or 'nothing'}"


def memory_lines(parts: Sequence[AnyPart], spare: int = 0) -> Iterator[str]:
    yield f"memory          in one life of a site: at the start, after {WARM_S:.0f} s, at the end"
    for part in parts:
        for life in part.lives:
            mark = " (spared)" if life.site == part.spared else ""
            flag = " GREW" if grown(life, spare) else ""
            yield (
                f"  part {part.number:>2} {life.site}  {life.age_s:>5.0f} s  {_mib(life.born_bytes):>10}"
                f"  {_mib(life.warm_bytes):>10}  {_mib(life.last_bytes):>10}{mark}{flag}"
            )


def _mib(size: int | None) -> str:
    return "-" if size is None else f"{size / _MIB:.1f} MiB"
