"""What our log has to reach, compared with the peers of the same run."""

from dataclasses import dataclass

from reconvene.lab.bench.sheet import Sheet, Table, number, verdict

__all__ = ["BARS", "Bar", "tell_bars"]


@dataclass(frozen=True, slots=True)
class Bar:
    work: str
    against: str | None
    """A system as rows name it; None: the best of all that are not ours."""
    times: float
    higher: bool = True
    """Whether more is better."""


BARS = (
    Bar("append 100 B", "etcd", 4.0),
    Bar("append 1 KiB", "etcd", 4.0),
    Bar("append 100 B", "etcd, 100 puts a transaction", 1.0),
    Bar("append 1 KiB", "etcd, 100 puts a transaction", 1.0),
    Bar("append 100 B", None, 1.0),
    Bar("append 1 KiB", None, 1.0),
    Bar("append 100 B alone, p50", "etcd", 1.0, higher=False),
    Bar("append 100 B alone, p99", "etcd", 1.0, higher=False),
)


def tell_bars(sheet: Sheet, own: list[str]) -> None:
    """Compares the rows of the sheet; adds nothing if ours or all peers are missing."""
    rows = list(sheet.rows)
    lines = []
    for bar in BARS:
        values = {row.system: row.value for row in rows if row.work == bar.work}
        ours = (*own, *(f"{name}, " for name in own))
        theirs = {name: value for name, value in values.items() if name not in own and not name.startswith(ours)}
        if bar.against is not None:
            theirs = {name: value for name, value in theirs.items() if name == bar.against}
        if not theirs:
            continue
        against = (max if bar.higher else min)(theirs, key=lambda name: theirs[name])
        for system in own:
            if system not in values or not theirs[against]:
                continue
            ratio = values[system] / theirs[against]
            met = ratio >= bar.times if bar.higher else ratio <= bar.times
            how = f"at least {bar.times:g} times" if bar.higher else f"within {bar.times:g} times"
            whose = bar.against or "the best other's"
            sheet.add(f"{bar.work}: {how} {whose}", system, ratio, "times", against, ratio / bar.times)
            lines.append([bar.work, system, f"{how} {whose}", against, number(ratio), verdict(met)])
    if lines:
        columns = ("work", "system", "bar", "against", "times", "")
        sheet.tables.append(Table.of("bars", columns, lines))
