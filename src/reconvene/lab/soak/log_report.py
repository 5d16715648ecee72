"""What the parts of a soak of the log add up to, for people."""

from collections.abc import Iterator, Sequence

from reconvene.lab.soak.faults import BLACKOUT, BREAKS, DISK, DISK_MEND, ISOLATE, MENDS
from reconvene.lab.soak.log_part import LogPart
from reconvene.lab.soak.report import dropped_line, fault_lines, growth, memory_lines

__all__ = ["complaints", "lines", "part_line"]

_KEPT_BYTES = 64 << 20
"""Of the log a site has up to 32 MiB in memory to read from, and what a partition left to be sent and ordered."""


def complaints(parts: Sequence[LogPart], least_rate: float) -> list[str]:
    """What does not hold, one line each."""
    found = [f"part {part.number}: {finding}" for part in parts for finding in part.findings]
    rate = _sum(parts, "receipts") / sum(part.load_s for part in parts)
    if rate < least_rate:
        found.append(f"{rate:,.0f} receipts a second, at least {least_rate:,.0f} expected")
    return found + growth(parts, _KEPT_BYTES)


def part_line(part: LogPart) -> str:
    """One line, when it has ended."""
    judgement = part.judgement
    verdict = "no violation" if part.ok else f"{part.violations} VIOLATIONS, {len(part.findings)} findings"
    return (
        f"part {part.number} (seed {part.seed}): {part.load_s:.0f} s, {judgement.receipts:,} receipts"
        f" ({judgement.receipts / part.load_s:,.0f}/s), {part.entries:,} entries, {sum(part.faults.values())} faults,"
        f" {part.counts.configurations} configurations, at rest {part.rest_s:.1f} s after they were mended,"
        f" {part.counts.rows:,} events judged in {part.judged_s:.0f} s: {verdict}"
    )


def lines(parts: Sequence[LogPart]) -> Iterator[str]:
    seconds = sum(part.load_s for part in parts)
    receipts = _sum(parts, "receipts")
    entries = sum(part.entries for part in parts)
    yield f"{parts[0].sites} sites, {len(parts)} parts, {seconds / 60:.1f} minutes under load"
    yield (
        f"receipts        {receipts:,}, {receipts / seconds:,.0f} a second; {_sum(parts, 'placed'):,} with a"
        f" position, {_sum(parts, 'inexact'):,} of them of retries whose own was not known any more"
    )
    yield f"ordered         {entries:,} entries, {entries / seconds:,.0f} a second"
    yield f"map             {sum(part.calls for part in parts):,} calls, judged for linearizability a key at a time"
    yield f"read            by every site and every client; {sum(len(part.findings) for part in parts)} findings"
    yield (
        f"retried         {_sum(parts, 'again'):,} messages that the log had; {_sum(parts, 'voids'):,} void entries"
    )
    yield (
        f"failed          {_sum(parts, 'unknown'):,} messages of unknown outcome, {_sum(parts, 'arrived'):,} of them"
        f" in the log; {_sum(parts, 'refused'):,} refused"
    )
    yield f"rest            {max(part.rest_s for part in parts):.1f} s at most from mended to all ordered everywhere"
    yield from fault_lines(parts, (*BREAKS, DISK, ISOLATE, BLACKOUT, *MENDS, DISK_MEND))
    hard = sum(part.hard for part in parts)
    longest = max(part.longest_hard_gap_s for part in parts)
    yield f"                a kill or a partition every {seconds / max(1, hard):.1f} s, {longest:.1f} s apart at most"
    yield f"configurations  {sum(part.counts.configurations for part in parts):,}"
    events = sum(part.counts.rows for part in parts)
    cases = sum(sum(part.cases.values()) for part in parts)
    yield f"verified        {events:,} events, {cases:,} cases, {sum(part.violations for part in parts)} violations"
    yield dropped_line(parts)
    yield from memory_lines(parts, _KEPT_BYTES)


def _sum(parts: Sequence[LogPart], name: str) -> int:
    return sum(getattr(part.judgement, name) for part in parts)
