"""What must hold when the polls have closed. Each check returns a finding that says what was found."""

from collections.abc import Mapping, Sequence
from itertools import chain

from reconvene.entries import Entry
from reconvene.lab.demo.chronicle import Chronicle
from reconvene.lab.demo.result import Finding, Lost
from reconvene.lab.demo.spark import Table
from reconvene.lab.demo.voters import CANDIDATES, Vote
from reconvene.lab.ledger.compare import differences
from reconvene.objects.tally import TallyState
from reconvene.verify.report import Report

__all__ = ["caused", "counted_once", "lost_answer", "same_table", "same_tallies", "shown_counts", "verified"]

_MOST_NAMED = 3


def shown_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{choice} {counts.get(choice, 0)}" for choice in CANDIDATES)


def same_tallies(tallies: Mapping[str, Mapping[str, int]], cast: Mapping[str, int]) -> Finding:
    """`tallies`: by site, each read after a barrier; `cast`: what the voters cast."""
    what = "the tally is the same at every site, and is what was cast"
    for site, tally in tallies.items():
        if dict(tally) != {choice: count for choice, count in cast.items() if count}:
            return Finding(what, False, f"{site} has {shown_counts(tally)}; the votes cast are {shown_counts(cast)}")
    return Finding(what, True, f"{len(tallies)} sites: {shown_counts(cast)}")


def counted_once(
    votes: Sequence[Vote], places: Sequence[int], logs: Mapping[str, Sequence[Entry]], tally: str
) -> Finding:
    """`places`: the position of each vote, from its receipt; `logs`: by site, all entries that count.

    It holds if no vote is lost, none is there twice, and there is no other entry.
    """
    what = "every vote is counted once"
    by_position = dict(zip(places, votes, strict=True))
    if len(by_position) != len(votes):
        return Finding(what, False, f"{len(votes)} votes have {len(by_position)} places")
    choices = {position: vote.choice for position, vote in by_position.items()}
    for site, entries in logs.items():
        differing = differences(choices, {entry.position: _choice(entry, tally) for entry in entries})
        wrong = [f"position {position}" for position in sorted(chain(*differing))]
        if wrong:
            more = f" and {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else ""
            return Finding(what, False, f"{site} differs at {', '.join(wrong[:_MOST_NAMED])}{more}")
    return Finding(what, True, f"{len(votes)} voters, {len(by_position)} places in one order, the same at every site")


def _choice(entry: Entry, tally: str) -> str | None:
    state = TallyState(tally)
    state.apply(entry)
    return next((choice for choice, count in state.totals.items() if count == 1), None)


def lost_answer(lost: Lost | None) -> Finding:
    what = "the voter whose answer was lost is counted once"
    if lost is None:
        return Finding(what, False, "the voter never got a receipt")
    had = "which had it already" if lost.again else "which accepted it; the other copy does not count"
    return Finding(what, lost.position >= 0, f"{lost.first} had it on disk, the voter asked {lost.then}, {had}")


def caused(chronicle: Chronicle) -> Finding:
    what = "every configuration change was caused by the script"
    wrong = chronicle.unexpected()
    if wrong is not None:
        return Finding(what, False, wrong)
    due, between = chronicle.steps()
    more = f", and {between} on the way to them" if between else ""
    return Finding(what, True, f"{due} changes at {len(chronicle.seen)} sites, all of them expected{more}")


def same_table(table: Table, tally: Mapping[str, int]) -> Finding:
    what = "the stream's table equals the tally"
    same = dict(table.counts) == dict(tally) and table.positions == table.rows
    detail = f"{table.rows} rows at {table.positions} positions: {shown_counts(table.counts)}"
    return Finding(what, same, detail if same else f"{detail}; the tally is {shown_counts(tally)}")


def verified(report: Report) -> Finding:
    what = "the whole history satisfies the papers' specifications"
    where = "by Spark" if report.engine == "spark" else "in this process"
    if not report.ok:
        return Finding(what, False, f"violated: {', '.join(report.violated())}")
    looked = sum(check.cases > 0 for check in report.checks)
    cases = sum(check.cases for check in report.checks)
    return Finding(what, True, f"{looked} checks, {cases:,} cases over {report.events:,} events, verified {where}")
