"""Load on process groups in the manner of ISIS, and on groups beside them: a program with one site inside it.

    python -m reconvene.lab.load.isis_site CONFIG MEMBERS

As `group_site`: JSON lines on stdout. When all MEMBERS are there it says {"ready": its process} and takes orders on
stdin, one after the other, and answers each. SERVICE is `cbcast`, or one of groups:

    throughput FROM TO BYTES SERVICE                    sends until TO, answers {"from": n, "to": n}
    latency COUNT BYTES PAUSE_US SERVICE send|listen    a message each PAUSE_US; answers {"took": [ns, …]}.
                                                        A CBCAST goes to one other site, whose name is the next
    file COUNT PAUSE_US                                 its own requests to a replicated file, see `isis_file`, of
                                                        which it has a copy: each when the last one is done
                                                        everywhere, and after a pause; answers {"file": figures}
    load SERVE_US PACKET_US UPDATE_US RATE COUNT SEED   requests at random, see `isis_processor`; answers
            alone|shared                                {"delays": [ms, …]}. Shared: the others are told

It ends when stdin does. It uses only the public interface.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from time import monotonic_ns

import reconvene
from reconvene.lab.load import group_site
from reconvene.lab.load.group_site import END, OVER_NS, SLICE, STAMP, Load
from reconvene.lab.load.isis_file import CALL, FILE, Copy, in_turns
from reconvene.lab.load.isis_processor import UPDATE, Costs, Processor
from reconvene.lab.load.program import answer, open_orders, run_program

__all__ = ["main"]

GROUP, TIMED = "bench", "timed"
"""The group whose messages are counted, and the one whose messages are timed."""


class IsisLoad:
    """The ISIS process of the site: counts casts, or times them."""

    def __init__(self, site: reconvene.Site, members: int) -> None:
        self.isis = site.isis
        self.members = members
        self.complete = asyncio.Event()
        self.view: reconvene.GroupView | None = None
        self.took: list[int] = []
        self.copy = Copy(site.isis)
        self.processor = Processor(site.isis)
        self.marks: list[int] = []
        self.noted: list[int] = []
        self._received = 0
        self._ends = 0
        self.ended = asyncio.Event()

    async def read(self) -> None:
        while events := await self.isis.wait_and_drain():
            if self.marks:
                self._count(events)
            else:
                self._sort(events)

    def _count(self, events: list[reconvene.IsisEvent]) -> None:
        """As fast as a program can read them."""
        now = monotonic_ns()
        while self.marks and now >= self.marks[0]:
            self.noted.append(self._received)
            self.marks.pop(0)
        self._received += len(events)
        if not self.marks:
            self._sort(events)

    def _sort(self, events: list[reconvene.IsisEvent]) -> None:
        updates = 0
        for event in events:
            if type(event) is not reconvene.Cast:
                self._change(event)
            elif event.group == GROUP:
                if len(event.data) == len(END):
                    self._ends += 1
                    if self._ends == self.members:
                        self.ended.set()
            elif event.group == FILE or event.data.startswith(CALL):
                self.copy.receive(event)
            elif event.data.startswith(UPDATE):
                updates += 1
            else:
                self.took.append(monotonic_ns() - STAMP.unpack_from(event.data)[1])
        if updates:
            self.processor.received(updates)

    def _change(self, event: object) -> None:
        if isinstance(event, reconvene.GroupView) and event.group == GROUP:
            self.view = event
            if len(event.members) == self.members:
                self.complete.set()
        elif isinstance(event, reconvene.Killed | reconvene.Blocked):
            print("the group changed meanwhile: a site was suspected, or has ended", file=sys.stderr)
            sys.stdout.close()

    def begin(self, *marks: int) -> None:
        self.marks, self.noted = list(marks), []
        self._ends = 0
        self.ended.clear()

    def others(self) -> list[reconvene.Process]:
        assert self.view is not None, "all have joined"
        return [member for member in self.view.members if member != self.isis.me]

    def next_member(self) -> reconvene.Process:
        """Of the site after this one."""
        assert self.view is not None, "all have joined"
        by_site = {member.site: member for member in self.view.members}
        names = sorted(by_site)
        return by_site[names[(names.index(self.isis.me.site) + 1) % len(names)]]


class Program:
    def __init__(self, isis: IsisLoad, counted: Load, timed: Load) -> None:
        self.isis = isis
        self.counted = counted
        self.timed = timed


async def throughput(program: Program, arguments: list[str]) -> None:
    start, end, size = map(int, arguments[:3])
    if arguments[3] != "cbcast":
        await group_site.throughput(program.counted, arguments[:3], arguments[3])
        return
    load = program.isis
    load.begin(start, end)
    payloads = [bytes(size)] * SLICE
    while monotonic_ns() < end + OVER_NS:
        await load.isis.cbcast_many(payloads, GROUP)
    await load.isis.cbcast(END, GROUP)
    await load.ended.wait()
    if len(load.noted) < 2:
        raise reconvene.Unavailable("nothing was received after the measured time")
    answer({"from": load.noted[0], "to": load.noted[1]})


async def latency(program: Program, arguments: list[str]) -> None:
    """Not one after the other, but one each PAUSE_US: a CBCAST does not come back to its sender."""
    count, size, pause_us = map(int, arguments[:3])
    service, role = arguments[3:]
    load, group = program.isis, program.timed
    took = load.took if service == "cbcast" else group.took
    expected = 0 if service == "cbcast" and role == "send" else count
    if role == "send":
        padding = bytes(max(0, size - STAMP.size))
        to = [load.next_member()]
        for number in range(count):
            message = STAMP.pack(number, monotonic_ns()) + padding
            if service == "cbcast":
                await load.isis.cbcast(message, to)
            else:
                await group.group.send(message, service)
            await asyncio.sleep(pause_us / 1e6)
    while len(took) < expected:
        await asyncio.sleep(0.05)
    answer({"took": took[:expected]})
    took.clear()


async def file(program: Program, arguments: list[str]) -> None:
    copy, flush = program.isis.copy, program.isis.isis.flush
    count, pause_us = map(int, arguments)

    async def rest() -> None:
        """Also what a request left to be done without it is done."""
        await flush()
        await asyncio.sleep(pause_us / 1e6)

    figures = await in_turns(count, lambda updates, wait: copy.update(updates, synchronous=wait), rest)
    answer({"file": figures})


async def load(program: Program, arguments: list[str]) -> None:
    *numbers, seed, how = arguments
    serve_us, packet_us, update_us, rate, count = map(float, numbers)
    isis = program.isis
    costs = Costs(serve_us / 1e6, packet_us / 1e6, update_us / 1e6)
    others = isis.others() if how == "shared" else []
    answer({"delays": await isis.processor.serve(costs, rate, int(count), f"{seed}/{isis.isis.me.site}", others)})


MODES: dict[str, Callable[[Program, list[str]], Awaitable[None]]] = {
    "throughput": throughput,
    "latency": latency,
    "file": file,
    "load": load,
}


async def _main(config: str, members: int) -> None:
    async with reconvene.open(config) as site:
        counted, timed = [Load(site, await site.join(name), members) for name in (GROUP, TIMED)]
        load = IsisLoad(site, members)
        readers = [asyncio.create_task(reading) for reading in (load.read(), counted.count(), timed.time())]
        await site.isis.join(FILE)
        await site.isis.join(GROUP)
        for each in (load, counted, timed):
            await each.complete.wait()
        answer({"ready": str(site.isis.me)})
        orders = await open_orders()
        working = None
        program = Program(load, counted, timed)
        while words := (await orders.readline()).decode().split():
            working = asyncio.create_task(_work(MODES[words[0]], program, words[1:]))
        for task in filter(None, (working, *readers)):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _work(
    mode: Callable[[Program, list[str]], Awaitable[None]], program: Program, arguments: list[str]
) -> None:
    try:
        await mode(program, arguments)
    except reconvene.ReconveneError as error:
        print(error, file=sys.stderr)
        sys.stdout.close()


def main() -> None:
    config, members = sys.argv[1:]
    run_program(_main(config, int(members)))


if __name__ == "__main__":
    main()
