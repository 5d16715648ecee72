"""What the runs of a soak add up to, for people."""

from collections import Counter
from collections.abc import Iterator, Sequence

from reconvene.lab.soak.run import Soak, SoakRun, T
from reconvene.lab.soak.vitals import WARM_S, Life

__all__ = ["complaints", "report_lines", "run_line"]

_GROWTH, _GROWTH_BYTES = 0.10, 4 << 20
"""Memory is flat if no site grew by more than this share and this much after it was warm."""
_MIB = 1 << 20


def run_line(soak: Soak[T], run: SoakRun[T]) -> str:
    """One line, when it has ended."""
    written = soak.written(run)
    verdict = "no violation" if run.ok else f"{run.violations} VIOLATIONS, {len(run.findings)} findings"
    return (
        f"run {run.number} (seed {run.seed}): {run.load_s:.0f} s, {written:,} {soak.unit}"
        f" ({written / run.load_s:,.0f}/s), {soak.detail(run)}, {sum(run.faults.values())} faults,"
        f" {run.counts.configurations} configurations, at rest {run.rest_s:.1f} s after they were mended,"
        f" {run.counts.rows:,} events verified in {run.judged_s:.0f} s: {verdict}"
    )


def complaints(soak: Soak[T], runs: Sequence[SoakRun[T]], least_rate: float) -> list[str]:
    """What does not hold, one line each."""
    found = [f"run {run.number}: {finding}" for run in runs for finding in run.findings]
    rate = sum(map(soak.written, runs)) / sum(run.load_s for run in runs)
    if rate < least_rate:
        found.append(f"{rate:,.0f} {soak.unit} a second, at least {least_rate:,.0f} expected")
    found += [
        f"run {run.number}: {run.peaks[name]:,} in the queue {name}, at most {most:,} expected"
        for run in runs
        for name, most in soak.bounds(run).items()
        if run.peaks.get(name, 0) > most
    ]
    return found + [
        f"run {run.number}: site {life.site} grew from {_mib(life.warm_bytes)} to {_mib(life.last_bytes)}"
        for run in runs
        for life in run.lives
        if _grown(life, soak.spare_bytes)
    ]


def report_lines(soak: Soak[T], runs: Sequence[SoakRun[T]]) -> Iterator[str]:
    seconds = sum(run.load_s for run in runs)
    yield f"{runs[0].sites} sites, {len(runs)} runs, {seconds / 60:.1f} minutes under load"
    yield from soak.lines(runs, seconds)
    faults, dropped = _add_up(run.faults for run in runs), _add_up(run.dropped for run in runs)
    breaks = sum(run.breaks for run in runs)
    longest = max(run.longest_gap_s for run in runs)
    yield f"faults          {faults.total()}: " + ", ".join(f"{kind} {faults[kind]}" for kind in soak.kinds)
    yield f"                something broken every {seconds / max(1, breaks):.1f} s, {longest:.1f} s apart at most"
    yield f"configurations  {sum(run.counts.configurations for run in runs):,}"
    events = sum(run.counts.rows for run in runs)
    cases = sum(sum(run.cases.values()) for run in runs)
    yield f"verified        {events:,} events, {cases:,} cases, {sum(run.violations for run in runs)} violations"
    yield "not taken in    " + (
        ", ".join(f"{name} {count:,}" for name, count in sorted(dropped.items())) or "nothing"
    )
    yield f"memory          in one life of a site: at the start, after {WARM_S:.0f} s, at the end"
    for run in runs:
        for life in run.lives:
            mark = " (spared)" if life.site == run.spared else ""
            flag = " GREW" if _grown(life, soak.spare_bytes) else ""
            yield (
                f"  run {run.number:>2} {life.site}  {life.age_s:>5.0f} s  {_mib(life.born_bytes):>10}"
                f"  {_mib(life.warm_bytes):>10}  {_mib(life.last_bytes):>10}{mark}{flag}"
            )


def _add_up(counts: Iterator[dict[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return total


def _grown(life: Life, spare_bytes: int) -> bool:
    limit = (1 + _GROWTH) * (life.warm_bytes or 0) + _GROWTH_BYTES + spare_bytes
    return life.warm_bytes is not None and life.last_bytes > limit


def _mib(size: int | None) -> str:
    return "-" if size is None else f"{size / _MIB:.1f} MiB"
