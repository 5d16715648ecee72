"""A ledger of every message to a wide group, kept by programs at real sites of several joined clusters.

Each program sends numbered messages at its site, and notes every one that it receives. At the end the ledger judges:
none lost, none twice, each sender's in its order, and one order of all agreed messages at all programs that saw the
same wide configurations.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

import reconvene
from reconvene.errors import OutcomeUnknown, Unavailable
from reconvene.local import LocalDomains

__all__ = ["GROUP", "Ledger", "Program"]

GROUP = "orders"


@dataclass
class Program:
    node: str
    """CLUSTER/SITE that it is a client of."""
    sent: list[str] = field(default_factory=list)
    unsure: set[str] = field(default_factory=set)
    """The connection broke before the site answered."""
    got: list[str] = field(default_factory=list)
    at: dict[str, float] = field(default_factory=dict)
    """When each was received, on the loop's clock."""
    conf: dict[str, int] = field(default_factory=dict)
    """The number of the wide configuration that each was received in; 0: one of the cluster alone."""
    views: list[tuple[str, ...]] = field(default_factory=list)
    ended: bool = False
    """Its site was killed."""


class Ledger:
    """Runs a program at each of these sites."""

    def __init__(
        self,
        domains: LocalDomains,
        nodes: list[str],
        every_s: float = 0.02,
        services: tuple[str, ...] = ("agreed",),
    ) -> None:
        """`services`: each program's messages take turns."""
        self.programs = {node: Program(node) for node in nodes}
        self._addresses = domains.addresses
        self._every_s = every_s
        self._services = services
        self._sending = True
        self._ready = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._joined = 0

    async def start(self) -> None:
        self._tasks = [asyncio.create_task(self._run(program)) for program in self.programs.values()]
        await asyncio.wait_for(self._ready.wait(), 30)

    async def stop_sending(self) -> None:
        self._sending = False

    async def finish(self, timeout_s: float = 30.0) -> None:
        """Waits until every program that is up has all that was sent; then ends them."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while self.missing() and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.05)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def missing(self) -> dict[str, list[str]]:
        """By node that is up: what it lacks of what programs that are up have sent."""
        up = [program for program in self.programs.values() if not program.ended]
        sent = [message for program in up for message in program.sent if message not in program.unsure]
        lacks = {program.node: sorted(set(sent) - set(program.got)) for program in up}
        return {node: found for node, found in lacks.items() if found}

    def _service(self, message: str) -> str:
        return self._services[int(message.rpartition("#")[2]) % len(self._services)]

    def _is_ordered(self, message: str) -> bool:
        return self._service(message) in ("agreed", "safe")

    # -- the verdict

    def judge(self, *, one_order: bool = True) -> None:
        assert not self.missing(), {node: found[:5] for node, found in self.missing().items()}
        for program in self.programs.values():
            self._judge_one(program)
        # What a killed program sent reached everybody or nobody, if it has a place in the order.
        up = [program for program in self.programs.values() if not program.ended]
        for program in self.programs.values():
            if program.ended:
                for message in filter(self._is_ordered, program.sent):
                    having = [other.node for other in up if message in other.at]
                    assert len(having) in (0, len(up)), f"{message} reached {having} only"
        if one_order and up:
            first = up[0]
            for program in up[1:]:
                common = set(filter(self._is_ordered, set(first.got) & set(program.got)))
                mine = [message for message in first.got if message in common]
                theirs = [message for message in program.got if message in common]
                assert mine == theirs, f"{first.node} and {program.node} differ in their order"

    def judge_parted(self) -> None:
        """Where the network was cut, clusters go on apart: a program need not have what was sent elsewhere meanwhile.
        But each has its own messages, none twice, each sender's in its order; and what two have got in the same wide
        configuration, they have got in one order."""
        for program in self.programs.values():
            assert not program.ended, f"{program.node} has ended"
            lost = set(program.sent) - set(program.got)
            assert not lost, f"{program.node} lost its own {sorted(lost)[:5]}"
            self._judge_one(program)
        programs = list(self.programs.values())
        for at, one in enumerate(programs):
            for two in programs[at + 1 :]:
                common = {
                    message
                    for message, conf in one.conf.items()
                    if conf and two.conf.get(message) == conf and self._is_ordered(message)
                }
                assert len(common) > 100, f"{one.node} and {two.node} have little in common"
                mine = [message for message in one.got if message in common]
                theirs = [message for message in two.got if message in common]
                assert mine == theirs, f"{one.node} and {two.node} differ in their order"

    def _judge_one(self, program: Program) -> None:
        twice = [message for message, times in Counter(program.got).items() if times > 1]
        assert not twice, f"{program.node} got twice: {twice[:5]}"
        last: dict[tuple[str, bool], int] = {}
        for message in program.got:
            sender, _, number = message.rpartition("#")
            lane = sender, self._service(message) == "fifo"  # a fifo message may overtake the others
            assert int(number) > last.get(lane, -1), f"{program.node}: {message} after {last[lane]}"
            last[lane] = int(number)

    # -- one program

    async def _run(self, program: Program) -> None:
        try:
            async with (
                reconvene.connect(self._addresses[program.node]) as site,
                await site.join(GROUP, wide=True, timeout=20) as group,
            ):
                self._joined += 1
                if self._joined == len(self.programs):
                    self._ready.set()
                await self._ready.wait()
                reader = asyncio.create_task(self._read(program, group))
                writer = asyncio.create_task(self._write(program, group))
                try:
                    await asyncio.gather(reader, writer)
                finally:
                    for task in (reader, writer):
                        task.cancel()
        except Unavailable:
            program.ended = True

    async def _read(self, program: Program, group: reconvene.Group) -> None:
        async for event in group:
            if isinstance(event, reconvene.Message):
                text = event.data.decode()
                program.got.append(text)
                program.conf[text] = event.view.configuration
                program.at[text] = asyncio.get_running_loop().time()
            elif isinstance(event, reconvene.WideView):
                program.views.append(event.domains)
            elif isinstance(event, reconvene.Rejoined):
                program.ended = True  # its site was killed: what it is now is another program
                return

    async def _write(self, program: Program, group: reconvene.Group) -> None:
        number = 0
        while self._sending and not program.ended:
            message = f"{program.node}#{number}"
            program.sent.append(message)
            try:
                await group.send(message.encode(), self._service(message))
            except (OutcomeUnknown, Unavailable):
                program.unsure.add(message)
                program.ended = True
                return
            number += 1
            await asyncio.sleep(self._every_s)
        await asyncio.Event().wait()
