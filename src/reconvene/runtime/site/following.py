"""The connection of a follower to its sources: what its core wants done, done; what comes of it, reported."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable

from reconvene.corel.following.messages import Answer
from reconvene.corel.following.pulling import Connect, HangUp
from reconvene.errors import ReconveneError, Rejected
from reconvene.runtime.diagnostics.structured_logging import event
from reconvene.runtime.outside import Dial, SourceLink
from reconvene.stack.follower import FollowerLayer
from reconvene.world import world

__all__ = ["Sources", "place_of"]

_LOOK_S = 0.02


def place_of(address: str) -> str:
    """An address as sites on any machine would name it: one of this machine alone has the machine's name."""
    plain = address.removeprefix("tcp://").removeprefix("unix:")
    here = socket.gethostname()
    if address.startswith("unix:") or "/" in plain or plain.endswith(".sock"):
        return f"{here}!{os.path.realpath(plain)}"
    return f"{here}!{plain}" if plain.startswith(("127.", "localhost:", "[::1]")) else plain


class Sources:
    """One connection at a time. `wake` asks for a turn of the site."""

    def __init__(self, layer: FollowerLayer, dial: Dial, wake: Callable[[], None], log: logging.Logger) -> None:
        self._layer = layer
        self._dial = dial
        self._wake = wake
        self._now = world().monotonic_ns
        self._link: SourceLink | None = None
        self._dialling: asyncio.Task[None] | None = None
        self._log = log
        self._told: tuple[str | None, dict[str, str]] = (None, {})
        self._number = 0
        """Of the connection: what is reported of an earlier one is ignored."""

    async def first_answer(self, timeout_s: float) -> None:
        """Waits, for a while, until a source has answered, or all have been tried. Raises Rejected where one of them
        holds another log, or follows this site."""
        loop, pulling = asyncio.get_running_loop(), self._layer.pulling
        deadline = loop.time() + timeout_s
        while not pulling.answered_once and len(pulling.trouble) < len(pulling.sources) and loop.time() < deadline:
            if pulling.refused:
                break
            await asyncio.sleep(_LOOK_S)
        for source, why in pulling.refused.items():
            raise Rejected(f"log.follow: {source}: {why}")

    def perform(self) -> None:
        """After a turn."""
        self._report()
        for action in self._layer.take_actions():
            match action:
                case Connect(source=source):
                    self._number += 1
                    address = self._layer.pulling.sources[source]
                    self._dialling = asyncio.get_running_loop().create_task(self._open(address, self._number))
                case HangUp():
                    self.close()
                case ask:
                    if self._link is not None:
                        self._link.ask(ask)

    def _report(self) -> None:
        """Logs which source it pulls from, and which are refused."""
        pulling = self._layer.pulling
        told = pulling.source, dict(pulling.refused)
        if told == self._told:
            return
        before, self._told = self._told, told
        if told[0] is not None and told[0] != before[0]:
            event(self._log, logging.INFO, "follows the log", source=told[0], of=pulling.follower.origin)
        for source, why in told[1].items():
            if before[1].get(source) != why:
                event(self._log, logging.WARNING, "source refused", source=source, why=why)

    def close(self) -> None:
        self._number += 1
        if self._dialling is not None:
            self._dialling.cancel()
            self._dialling = None
        if self._link is not None:
            self._link.close()
            self._link = None

    async def _open(self, address: str, number: int) -> None:
        try:
            link = await self._dial(
                address, lambda answer: self._answered(answer, number), lambda why: self._broken(why, number)
            )
        except ReconveneError as error:
            self._broken(str(error), number)
            return
        if number != self._number:
            link.close()
            return
        self._link = link
        self._layer.pulling.opened(self._now())
        self._wake()

    def _answered(self, answer: Answer, number: int) -> None:
        if number == self._number:
            self._layer.pulling.answered(answer, self._now())
            self._wake()

    def _broken(self, why: str, number: int) -> None:
        if number == self._number:
            self._number += 1
            self._link = self._dialling = None
            self._layer.pulling.broken(why, self._now())
            self._wake()
