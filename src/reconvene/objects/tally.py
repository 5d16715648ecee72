"""Counts that every site adds to, also while it is cut off.

How it is made: an addition is a command in the log, as in `replicated_map`. Additions commute, so the order does not
change the sum. The log is for counting each addition once, however often it was retried, and for losing none, on
whichever side of a partition it was made. An optimistic total is often what people want to see: it holds what this
site has accepted, and lacks only what others did meanwhile.

    async with Tally(site.log, "visitors") as visitors:
        await visitors.add("front door")
        print(await visitors.total("front door", optimistic=True))
"""

from types import TracebackType
from typing import Self, cast

import msgspec

from reconvene.client.arguments import check_count, check_text
from reconvene.client.log import Log, check_log
from reconvene.client.receipts import Receipt
from reconvene.client.state_machine import StateMachine
from reconvene.entries import Entry

__all__ = ["Tally", "TallyState"]

_LETTERS = 1 << 20
"""Of a tally's name, or of a key."""


class Addition(msgspec.Struct, array_like=True, tag="tally", frozen=True):
    """The command."""

    tally: str
    key: str
    amount: int


_command = msgspec.msgpack.Decoder(Addition)


class TallyState(StateMachine):
    """What is replicated."""

    def __init__(self, name: str) -> None:
        self.tally = name
        self.totals: dict[str, int] = {}

    @property
    def kind(self) -> str:
        return f"tally {self.tally}"

    def apply(self, entry: Entry) -> None:
        try:
            addition = _command.decode(entry.data)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return  # someone else's
        if addition.tally == self.tally:
            self.totals[addition.key] = self.totals.get(addition.key, 0) + addition.amount

    def snapshot(self) -> bytes:
        # As text: sums outgrow the 64 bits of msgpack.
        return msgspec.msgpack.encode({key: str(total) for key, total in self.totals.items()})

    def restore(self, data: bytes) -> None:
        totals = msgspec.msgpack.decode(data, type=dict[str, str])
        self.totals = {key: int(total) for key, total in totals.items()}


class Tally:
    """Totals by key."""

    def __init__(self, log: Log, name: str = "tally", *, snapshot_every: int = 0) -> None:
        self.state = TallyState(check_text(name, "name", _LETTERS))
        self._runner = check_log(log).run(self.state, snapshot_every=snapshot_every)

    async def __aenter__(self) -> Self:
        await self._runner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._runner.__aexit__(kind, error, traceback)

    async def add(
        self,
        key: str,
        amount: int = 1,
        *,
        ordered: bool = False,
        session: bytes | None = None,
        number: int | None = None,
    ) -> Receipt:
        """Returns when it is durable at the site; with `ordered`, when it is in the totals here.

        session, number: as of `Log.append`: the same ones are added once, also by a program that was restarted.
        """
        check_text(key, "key", _LETTERS, least=0)
        check_count(amount, "amount", -(1 << 63), 1 << 64)
        command = msgspec.msgpack.encode(Addition(self.state.tally, key, amount))
        return await self._runner.append(command, ordered=ordered, session=session, number=number)

    async def total(self, key: str, *, ordered: bool = False, optimistic: bool = False) -> int:
        check_text(key, "key", _LETTERS, least=0)
        return (await self._read(ordered, optimistic)).totals.get(key, 0)

    async def totals(self, *, ordered: bool = False, optimistic: bool = False) -> dict[str, int]:
        return dict((await self._read(ordered, optimistic)).totals)

    async def _read(self, ordered: bool, optimistic: bool) -> TallyState:
        if ordered:
            await self._runner.caught_up()
        return cast(TallyState, await self._runner.optimistic()) if optimistic else self.state
