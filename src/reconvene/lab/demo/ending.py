"""After the story: compares what the sites and the voters have, then verifies the whole history."""

import asyncio
from pathlib import Path

from msgspec.structs import replace

from reconvene.lab.demo import checks
from reconvene.lab.demo.figures import counted, spread
from reconvene.lab.demo.paths import Paths
from reconvene.lab.demo.patience import while_it_moves
from reconvene.lab.demo.result import Took
from reconvene.lab.demo.script import Story
from reconvene.lab.demo.spark import Judge
from reconvene.lab.demo.threads import in_thread
from reconvene.lab.demo.voters import ELECTION
from reconvene.report.verify_page import write_verify_report
from reconvene.report.witness_diagrams import diagrams_of_traces
from reconvene.trace.reader import read_trace
from reconvene.verify.engine import verify
from reconvene.verify.history import History
from reconvene.verify.report import Report

__all__ = ["count", "judge"]

_FRAME_S = 0.5
_MARGIN_NS = 30_000_000
"""Shown before and after the heal in the space-time diagram."""


async def count(story: Story) -> None:
    """The polls are closed. Adds the findings to the story's result."""
    stage, polls, board, outcome = story.stage, story.polls, story.board, story.outcome
    stage.begin("The polls close, and all results are compared")
    stage.say("Each site reports its tally and its whole log; each voter the place that the vote was given.")
    await while_it_moves(polls.hold(), polls.receipts, story.pace.patience_s)
    async with asyncio.timeout(story.pace.patience_s):
        tallies = {name: await tally.totals(ordered=True) for name, tally in board.tallies.items()}
        logs = {name: await board.site(name).log.read() for name in tallies}
        everything = await board.site("a").log.read(control=True)
        receipts = [vote.receipt for vote in polls.box.votes if vote.receipt is not None]
        positions = await asyncio.gather(*(receipt.ordered() for receipt in receipts))
    rows = await while_it_moves(board.settled(), story.moved, story.pace.patience_s)
    if outcome.lost is not None:
        outcome.lost = replace(outcome.lost, position=positions[outcome.lost.voter - 1])
    outcome.findings += [
        checks.same_tallies(tallies, polls.box.counts()),
        checks.counted_once(polls.box.votes, positions, logs, ELECTION),
        checks.lost_answer(outcome.lost),
    ]
    figures = outcome.figures
    figures.votes, figures.counts = len(polls.box.votes), polls.box.counts()
    figures.colours = {
        "green": max(row.green for row in rows),
        "yellow": max(row.yellow for row in rows),
        "red": max(row.red for row in rows),
    }
    figures.retried = sum(entry.kind == "void" for entry in everything)
    figures.answered = spread(vote.waited_ns for vote in polls.box.votes)
    figures.changes = [Took(change.what, change.took_ns) for change in story.chronicle.changes]
    if story.spark is not None:
        stage.say("Spark reports the table that its stream has made of the log.")
        table = await story.spark.close(max(positions) + 1, story.pace.spark)
        figures.rows = table.rows
        outcome.findings.append(checks.same_table(table, tallies["a"]))


async def judge(story: Story, paths: Paths, keep: bool) -> None:
    """Verifies the trace of the cluster once it is at rest. It has no clients any more."""
    stage, outcome, cluster = story.stage, story.outcome, story.cluster
    by = "on Spark, which takes half a minute" if story.spark is not None else "in this process"
    stage.say(f"All that happened is in the sites' traces. It is judged against the papers, {by}.")
    if keep:
        await in_thread(cluster.settle)
        trace = await in_thread(cluster.copy_trace, paths.trace)
    else:
        trace = await in_thread(cluster.finish_trace)
    await in_thread(story.chronicle.read)
    outcome.findings.append(checks.caused(story.chronicle))
    rows = await in_thread(read_trace, trace)
    figures = outcome.figures
    figures.counted_at_once, figures.counted_later = counted(rows)
    if story.spark is None:
        report = await in_thread(_judge_here, trace, paths.checks)
    else:
        shown = (story.mended_ns - _MARGIN_NS, story.mended_ns + story.chronicle.changes[-1].took_ns + _MARGIN_NS)
        order = Judge(str(trace), str(paths.checks), str(paths.report), shown)
        judging = asyncio.ensure_future(story.spark.judge(order))
        while not (await asyncio.wait([judging], timeout=_FRAME_S))[0]:
            stage.show([], f"Spark: {story.spark.says()}, {stage.seconds:.0f} s")
        report = judging.result()
        outcome.report = str(paths.report)
    outcome.checks, outcome.verdict = str(paths.checks), report
    outcome.findings.append(checks.verified(report))
    figures.engine, figures.events = report.engine, report.events
    figures.cases = sum(check.cases for check in report.checks)


def _judge_here(trace: Path, page: Path) -> Report:
    report = verify([History.load(trace)])
    write_verify_report(page, report, diagrams_of_traces(report, [trace]))
    return report
