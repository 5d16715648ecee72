"""Spark beside the election, in a process of its own: one session for the stream, the judge and the report.

It starts while the polls are open, with a lower priority than the sites: the start of Java must not make a site look
dead. Both sides send JSON objects, one a line; when one side dies, the other one gets an end of file.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import msgspec
from msgspec import Struct, field

from reconvene.errors import Unavailable
from reconvene.lab.demo.patience import processor_s, while_it_moves
from reconvene.lab.demo.threads import in_thread
from reconvene.verify.report import Report

__all__ = [
    "Close", "Doing", "Failed", "Follow", "Judge", "Judged", "Progress", "SparkBeside", "SparkPatience", "Started",
    "Table", "ToSpark", "decode_order", "encode_line",
]  # fmt: skip

_LINE_BYTES = 1 << 24
"""The longest line: a report with all its witnesses is much shorter."""
_END_S = 10.0

T = TypeVar("T")


class Follow(Struct, tag="follow", frozen=True):
    """Keep a table in step with the log."""

    addresses: list[str]
    """The first one is read as long as it answers."""
    table: str


class Close(Struct, tag="close", frozen=True):
    """Continue until everything below this position is in the table, then report what is in it."""

    position: int


class Judge(Struct, tag="judge", frozen=True):
    """Verify the trace, measure it, write the two pages."""

    trace: str
    checks: str
    report: str
    shown: tuple[int, int]
    """The time that the space-time diagram shows, in ns since 1970."""


ToSpark = Follow | Close | Judge


class Started(Struct, tag="started", frozen=True):
    """The session has started."""


class Progress(Struct, tag="progress", frozen=True):
    """Everything below the position is in the table."""

    position: int
    rows: int


class Table(Struct, tag="table", frozen=True):
    """What is in the stream's table."""

    rows: int
    positions: int
    """How many different positions."""
    counts: dict[str, int] = field(default_factory=dict)
    """By candidate."""


class Doing(Struct, tag="doing", frozen=True):
    """What it is doing, in a word."""

    what: str


class Judged(Struct, tag="judged", frozen=True):
    report: Report


class Failed(Struct, tag="failed", frozen=True):
    why: str


FromSpark = Started | Doing | Progress | Table | Judged | Failed

_orders: Callable[[bytes], ToSpark] = msgspec.json.Decoder(ToSpark).decode
_answers: Callable[[bytes], FromSpark] = msgspec.json.Decoder(FromSpark).decode


def encode_line(said: Struct) -> bytes:
    return msgspec.json.encode(said) + b"\n"


def decode_order(line: bytes) -> ToSpark:
    return _orders(line)


@dataclass(frozen=True, slots=True)
class SparkPatience:
    """Limits after which the demo continues without Spark: time without progress, and processor time without a
    result.

    It has taken 20 to 30 s of processor time to start and read its first rows, on old and new machines.
    """

    idle_s: float = 60.0
    processor_s: float = 180.0


class SparkBeside:
    """`async with SparkBeside(log) as spark:` starts it; leaving the block ends it.

    Methods raise Unavailable, in one line, if it has ended or reported why it can't do something.
    """

    def __init__(self, log: Path) -> None:
        self.rows = 0
        self.position = 0
        self.following = asyncio.Event()
        """The first rows are in the table."""
        self._log = log
        self._has_started = False
        self._doing = ""
        self._waiting: asyncio.Future[Table | Judged] | None = None
        self._why: str | None = None
        self._process: subprocess.Popen[bytes]
        self._writer: asyncio.StreamWriter
        self._task: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        ours, theirs = socket.socketpair()
        with self._log.open("wb") as log, theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "reconvene.lab.demo.spark_worker", str(theirs.fileno())],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[theirs.fileno()], start_new_session=True,
            )  # fmt: skip
        reader, self._writer = await asyncio.open_connection(sock=ours, limit=_LINE_BYTES)
        self._task = asyncio.ensure_future(self._listen(reader))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._writer.close()  # it ends when its socket is closed
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        if kind is None and self._why is None:
            with suppress(subprocess.TimeoutExpired):
                await in_thread(self._process.wait, _END_S)
        # Java and its workers are in the same group; asked to end, Java removes its directories.
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                await in_thread(self._process.wait, _END_S)
                return

    @property
    def trouble(self) -> str | None:
        """Why it can't be used any more."""
        return self._why

    def says(self) -> str:
        """Its state, in a few words."""
        if self._why is not None:
            return self._why
        if not self._has_started:
            return "starting"
        if self._doing:
            return self._doing
        return f"{self.rows} rows so far" if self.following.is_set() else "started, looking for the log"

    @property
    def has_started(self) -> bool:
        """Whether there was a session: Spark and Java are installed."""
        return self._has_started

    def follow(self, addresses: list[str], table: Path) -> None:
        self._writer.write(encode_line(Follow(addresses, str(table))))

    async def first_rows(self, patience: SparkPatience) -> None:
        """Waits until the stream reads. If that takes too long, ends Spark and raises Unavailable."""
        await self._while_it_works(self.following.wait(), patience, "no row was read")
        if self._why is not None:
            raise Unavailable(f"the stream: {self._why}")

    async def close(self, position: int, patience: SparkPatience) -> Table:
        """Waits until everything below the position is in the table; returns what is in it."""
        what = f"the table has not come to position {position}"
        return await self._while_it_works(self._ask(Close(position), Table), patience, what)

    async def _while_it_works(self, work: Awaitable[T], patience: SparkPatience, what: str) -> T:
        """Waits without a limit on time, but with one on the processor time of Spark."""
        before = processor_s(self._process.pid)

        def moved() -> tuple[int, float]:
            return self.position, min(processor_s(self._process.pid) - before, patience.processor_s)

        try:
            return await while_it_moves(work, moved, patience.idle_s)
        except TimeoutError:
            used = processor_s(self._process.pid) - before
            self._fail(f"{what} in {used:.0f} s of processor time; see {self._log}")
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)
            raise Unavailable(f"Spark: {self._why}") from None

    async def judge(self, order: Judge) -> Report:
        return (await self._ask(order, Judged)).report

    async def _ask(self, order: ToSpark, answer: type[T]) -> T:
        if self._why is not None:
            raise Unavailable(f"Spark: {self._why}")
        self._waiting = asyncio.get_running_loop().create_future()
        self._writer.write(encode_line(order))
        found = await self._waiting
        assert isinstance(found, answer), "one question at a time"
        return found

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                self._hear(_answers(line))
            self._fail(f"its process has ended; see {self._log}")
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            self._fail(f"its process can't be understood: {error}")

    def _hear(self, said: FromSpark) -> None:
        match said:
            case Started():
                self._has_started = True
            case Doing():
                self._doing = said.what
            case Progress():
                self.rows, self.position = said.rows, said.position
                if said.rows:
                    self.following.set()
            case Failed():
                self._fail(said.why)
            case _:
                if self._waiting is not None and not self._waiting.done():
                    self._waiting.set_result(said)

    def _fail(self, why: str) -> None:
        self._why = self._why or why
        self.following.set()  # the task that waits for it reports it
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(Unavailable(f"Spark: {self._why}"))
