"""Load generators from the inside: orders come on stdin, answers go to stdout as JSON lines. See `process`."""

import asyncio
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from reconvene.errors import ReconveneError
from reconvene.runtime.node.main import new_event_loop

__all__ = ["TICK_S", "Clients", "answer", "open_orders", "run_clients", "run_program"]

TICK_S = 0.02
_ORDER_BYTES = 1 << 24

J = TypeVar("J", bound=Struct)


def answer(line: object) -> None:
    """Writes one line."""
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.buffer.flush()


async def open_orders() -> asyncio.StreamReader:
    """The orders on stdin."""
    orders = asyncio.StreamReader(limit=_ORDER_BYTES)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    return orders


def run_program(main: Coroutine[Any, Any, None]) -> None:
    """On the event loop that a site uses. An error of ours is printed, and exits with 1."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        try:
            runner.run(main)
        except ReconveneError as error:
            print(error, file=sys.stderr)
            sys.exit(1)


class Clients(ABC):
    """The clients in one process: what `run_clients` runs."""

    drain_s: float
    """How long `drained` is waited for."""

    @abstractmethod
    def lives(self) -> Sequence[Coroutine[Any, Any, None]]:
        """What each of them does, until it is cancelled."""

    @abstractmethod
    def quiet(self) -> None:
        """They write nothing more."""

    @property
    @abstractmethod
    def drained(self) -> bool:
        """Whether they know the result of everything that they wrote."""

    @abstractmethod
    def report(self) -> Struct:
        """What they saw, once they have ended."""


def run_clients(job: type[J], make: Callable[[J], Clients]) -> None:
    """A program of clients, for `ClientFleet`: the first order is its job, in JSON; the second one ends the writing.

    It answers {"drained": …} once the result of everything that was written is known, or `drain_s` have passed; and
    {"report": …} at the end of its orders.
    """
    run_program(_run_clients(job, make))


async def _run_clients(job: type[J], make: Callable[[J], Clients]) -> None:
    orders = await open_orders()
    clients = make(msgspec.json.decode(await orders.readline(), type=job))
    async with asyncio.TaskGroup() as tasks:
        lives = [tasks.create_task(life) for life in clients.lives()]
        if await orders.readline():
            clients.quiet()
            give_up_at = time.monotonic() + clients.drain_s
            while not clients.drained and time.monotonic() < give_up_at:
                await asyncio.sleep(TICK_S)
            answer({"drained": clients.drained})
            await orders.read()
        for life in lives:
            life.cancel()
    answer({"report": clients.report()})
