"""The story: the sites start, the network is cut, a site is killed and comes back, the network heals.

Each scene begins with what the system promises. If a promise is broken the story ends, and `Broken`, or the error
itself, says why.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from reconvene.errors import Unavailable
from reconvene.lab.demo.board import Board, SiteRow, open_board
from reconvene.lab.demo.chronicle import Chronicle
from reconvene.lab.demo.patience import while_it_moves
from reconvene.lab.demo.polls import Polls
from reconvene.lab.demo.result import DemoResult
from reconvene.lab.demo.spark import SparkBeside, SparkPatience
from reconvene.lab.demo.stage import Stage
from reconvene.lab.demo.threads import in_thread
from reconvene.local import LocalCluster
from reconvene.report.figures import show_ns

__all__ = ["KILLED", "MAJORITY", "MINORITY", "SITES", "Broken", "Pace", "Story", "open_story"]

MAJORITY, MINORITY, KILLED = ("a", "b", "c"), ("d", "e"), "c"
SITES = (*MAJORITY, *MINORITY)
_LEFT = tuple(name for name in MAJORITY if name != KILLED)
_FRAME_S = 0.3
_IDLE = 4
"""The time between two voters is multiplied by this while the story waits for Spark to start."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast the story goes."""

    gap_s: float = 0.2
    """Between two voters of a booth."""
    votes: int = 12
    """At each booth, in each scene."""
    patience_s: float = 60.0
    """How long anything may take without progress."""
    spark: SparkPatience = field(default_factory=SparkPatience)


class Broken(Exception):
    """A promise of the script does not hold."""


@dataclass(slots=True)
class Story:
    """The story, on a cluster that has started."""

    cluster: LocalCluster
    stage: Stage
    outcome: DemoResult
    pace: Pace
    board: Board
    polls: Polls
    chronicle: Chronicle
    spark: SparkBeside | None
    """None if Spark is not used, or not any more: `outcome.no_spark` says why."""
    rows: list[SiteRow] = field(default_factory=list)
    """The rows that were shown last."""
    mended_ns: int = 0
    """When the network was mended."""

    async def tell(self) -> None:
        await self._polls_open()
        await self._cut()
        await self._kill()
        await self._come_back()
        await self._mend()

    # -- scenes

    async def _polls_open(self) -> None:
        async with self._scene("Five sites start, and the polls open"):
            name = (await self.board.look())[0].configuration
            self.stage.say(
                f"They have found each other. {name}[{','.join(SITES)}] is configuration number {name[:-1]}, proposed"
                f" by {name[-1]}, with these members. Three of five are a majority, so every vote is counted as soon"
                " as it is taken."
            )
            if self.spark is not None:
                self.stage.note(f"Spark starts in the background; it will follow the log, reading from {KILLED}.")
            if self.outcome.dashboards:
                site, address = next(iter(self.outcome.dashboards.items()))
                self.stage.note(f"Watch it in a browser: {address} (of site {site}; each has its own)")
            for name in SITES:
                side = MAJORITY if name in MAJORITY else MINORITY
                await self.polls.add(name, [other for other in side if other != name])
            self.polls.open()
            await self._votes()

    async def _cut(self) -> None:
        async with self._scene(f"The network is cut: {' '.join(MAJORITY)} ┃ {' '.join(MINORITY)}"):
            self.stage.say(
                "Nothing notifies the sites: each side notices that the other one is silent. Both still accept votes."
                f" Sites {_named(MAJORITY)} are three of five, and count. Sites {_named(MINORITY)} are no majority:"
                " what they take is on their disks, red, and shown as a tentative count. 12+5 is 12"
                " counted, 5 more here."
            )
            parts = [MAJORITY, MINORITY]
            await self._change("the cut", lambda: self.cluster.partition(parts), parts)
            await self._votes()
            await self._wait_for_spark()

    async def _kill(self) -> None:
        async with self._scene(f"Site {KILLED} is killed (kill -9), and an answer is lost with it"):
            self.stage.say(
                f"A voter has just voted at {KILLED}. Her vote is on its disk; {KILLED} dies before its answer"
                " reaches her. She can't know, so her program votes again, at another site, under the same identity."
                f" Sites {_named(_LEFT)} are two of five: now no side has a majority, so none counts; all sites still"
                " accept votes."
            )
            if self.spark is not None:
                self.stage.note(f"Spark was reading from {KILLED}. It goes on at another site, at the same position.")
            losing = self.polls.lose_an_answer(KILLED, _LEFT, self._crash)
            lost = self.outcome.lost = await while_it_moves(
                losing, lambda: (self.polls.answer_is_lost, self.chronicle.installed()), self.pace.patience_s
            )
            self.stage.say(
                f"Site {lost.then} answers her: "
                + (f"it has her vote already, from {KILLED}." if lost.again else "it takes her vote; one will count.")
            )
            await self._votes()

    async def _crash(self) -> None:
        await self._change("the kill", lambda: self.cluster.crash(KILLED), [_LEFT])

    async def _come_back(self) -> None:
        async with self._scene(f"Site {KILLED} comes back"):
            self.stage.say(
                f"It finds on its disk everything that it has accepted. Sites {_named(MAJORITY)} are three of five"
                " again, and count the votes that have waited."
            )
            self.chronicle.expect([KILLED])
            await self._change(
                "the restart", lambda: self.cluster.restart(KILLED, timeout_s=self.pace.patience_s), [MAJORITY]
            )
            async with asyncio.timeout(self.pace.patience_s):
                await self.board.back(KILLED)
            await self.polls.add(KILLED)
            self.polls.open()
            await self._votes()

    async def _mend(self) -> None:
        async with self._scene("The network mends: they reconvene"):
            self.stage.say(
                f"Sites {_named(MINORITY)} bring the votes that they have accepted. Each of them gets one place in"
                " the one order, after what was counted before. No vote is lost."
            )
            self.mended_ns = time.time_ns()
            without = _leader(self.rows)
            await self._change("the mending", self.cluster.heal, [SITES])
            await self._votes()
        ahead = _leader(self.rows)
        if without != ahead:
            self.stage.say(f"Without sites {_named(MINORITY)} it would have been {without}; now {ahead} is ahead.")

    # -- what scenes are made of

    @asynccontextmanager
    async def _scene(self, title: str) -> AsyncIterator[None]:
        """At its end the polls are held for a moment, so that the table shows one moment."""
        self.stage.begin(title)
        self.polls.open()
        moving = asyncio.ensure_future(self._move())
        try:
            yield
            self.rows = await while_it_moves(self.at_rest(), self.moved, self.pace.patience_s)
        except TimeoutError as error:
            raise Broken(f"{title}: {error}") from None
        finally:
            moving.cancel()
            await asyncio.wait([moving])
        self.stage.picture(self.rows, self._aside())
        await in_thread(self.chronicle.read)
        wrong = self.chronicle.unexpected()
        if wrong is not None:
            raise Broken(f"a configuration change that the script did not cause: {wrong}")

    async def _move(self) -> None:
        while self.stage.moves:
            self.stage.show(await self.board.look(), self._aside())
            await asyncio.sleep(_FRAME_S)

    def _aside(self) -> str:
        return "" if self.spark is None else f"Spark: {self.spark.says()}"

    async def at_rest(self) -> list[SiteRow]:
        """Returns once every voter has a receipt, and the sites have counted what they can."""
        await self.polls.hold()
        return await self.board.settled()

    def moved(self) -> object:
        """Changes with every receipt and with every change of the board."""
        return self.polls.receipts(), self.board.seen

    async def _votes(self) -> None:
        await while_it_moves(self.polls.votes(self.pace.votes), self.polls.receipts, self.pace.patience_s)

    async def _change(self, what: str, work: Callable[[], None], components: Sequence[Sequence[str]]) -> None:
        """Does `work`, waits for the configurations that follow, and records how long that took."""
        self.chronicle.expect(*components)
        since_ns = time.time_ns()
        await in_thread(work)
        await self._together(components)
        change = await in_thread(self.chronicle.took, what, since_ns)
        parts = " ┃ ".join(" ".join(component) for component in components)
        self.stage.say(f"After {show_ns(change.took_ns)} they are together as {parts}.")

    async def _together(self, components: Sequence[Sequence[str]]) -> None:
        """Waits for these components as long as the sites keep installing configurations."""
        while True:
            before = self.chronicle.installed()
            try:
                await in_thread(self.cluster.wait_for, components, self.pace.patience_s)
            except Unavailable:
                await in_thread(self.chronicle.read)
                if self.chronicle.installed() == before:
                    raise
            else:
                return

    async def _wait_for_spark(self) -> None:
        """Waits until the stream reads, since it has to read from the site that will be killed."""
        if self.spark is None:
            return
        if not self.spark.following.is_set():
            self.stage.note("The polls stay open until Spark has read its first votes; fewer voters come meanwhile.")
            self.polls.pace(_IDLE * self.pace.gap_s)
        try:
            await self.spark.first_rows(self.pace.spark)
        except Unavailable:
            if self.spark.has_started:
                raise
            self.outcome.no_spark = self.spark.trouble
            self.stage.note(f"Spark takes no part: {self.spark.trouble}.")
            self.spark = None
        finally:
            self.polls.pace(self.pace.gap_s)


@asynccontextmanager
async def open_story(
    cluster: LocalCluster, stage: Stage, outcome: DemoResult, pace: Pace, seed: int, spark: SparkBeside | None
) -> AsyncIterator[Story]:
    chronicle = Chronicle(cluster.trace_dir, cluster.names)
    async with open_board(cluster) as board, Polls(cluster, pace.gap_s, seed) as polls:
        yield Story(cluster, stage, outcome, pace, board, polls, chronicle, spark)


def _leader(rows: Sequence[SiteRow]) -> str:
    """The candidate with the most counted votes."""
    counted = max(rows, key=lambda row: row.green).counted
    return max(counted, key=lambda choice: counted[choice])


def _named(sites: Sequence[str]) -> str:
    *most, last = sites
    return f"{', '.join(most)} and {last}"
