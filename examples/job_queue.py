"""A job queue: jobs are put in anywhere, and each is finished once, whatever becomes of the worker that took it.

Service: the durable log for the queue, since a job that was accepted must not be lost and two workers must not get
the same one: `put`, `take`, `finish` and `gone` are entries, and the order decides. And a group with the
primary-component filter for the workers, since it reports, at the same place for all, which workers are gone: no
clock has to guess that.

In a minority: jobs are accepted, and get their place later. No worker takes one: a worker that is Blocked could only
take what others may be taking too. What it was at when it was cut off it may finish; but the majority has given
that job to somebody else by then, so its `finish` comes with a token that is too old, and counts for nothing. A
worker that changes something outside hands its token over there too, for the same reason.

Run it: python examples/job_queue.py
"""

import asyncio
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import NamedTuple

import msgspec

import reconvene
from reconvene.local import LocalCluster


class Put(msgspec.Struct, tag=True, frozen=True):
    what: str


class Take(msgspec.Struct, tag=True, frozen=True):
    worker: str


class Finish(msgspec.Struct, tag=True, frozen=True):
    what: str
    token: int


class Gone(msgspec.Struct, tag=True, frozen=True):
    worker: str


class Job(msgspec.Struct):
    what: str
    worker: str = ""
    token: int = -1
    """The position of the `take` that it was given for: higher each time that it is given to someone."""


class Queue(reconvene.StateMachine):
    def __init__(self) -> None:
        self.open: list[Job] = []
        self.finished: list[Job] = []

    def apply(self, entry: reconvene.Entry) -> None:
        match msgspec.json.decode(entry.data, type=Put | Take | Finish | Gone):
            case Put(what):
                self.open.append(Job(what))
            case Take(worker):
                job = next((job for job in self.open if not job.worker), None)
                if job is not None:
                    job.worker, job.token = worker, entry.position
            case Finish(what, token):
                job = self.taken(token)
                if job is not None and job.what == what:
                    self.open.remove(job)
                    self.finished.append(job)
            case Gone(worker):
                for job in self.open:
                    if job.worker == worker:
                        job.worker, job.token = "", -1

    def taken(self, token: int) -> Job | None:
        return next((job for job in self.open if job.token == token), None)

    def waiting(self) -> list[str]:
        return [job.what for job in self.open if not job.worker]

    def snapshot(self) -> bytes:
        return msgspec.json.encode((self.open, self.finished))

    def restore(self, data: bytes) -> None:
        self.open, self.finished = msgspec.json.decode(data, type=tuple[list[Job], list[Job]])


class Task(NamedTuple):
    """A job in the hands of a worker."""

    what: str
    token: int


class Worker:
    def __init__(self, site: reconvene.Site, group: reconvene.Group, queue: Queue, runner: reconvene.Runner) -> None:
        self.site = site
        self.group = group
        self.queue = queue
        self.runner = runner

    async def watch(self) -> None:
        """Returns the jobs of workers that are gone to the queue. If two workers do so, no harm is done."""
        async for event in self.group:
            if isinstance(event, reconvene.View) and self.group.me == min(event.members):
                for process in event.left:
                    await self._append(Gone(str(process)))

    async def put(self, what: str) -> None:
        await self._append(Put(what))

    async def take(self) -> Task | None:
        """None: there is none, or this is not the place to take one."""
        if self.group.blocked:
            return None
        for worker in self._absent():
            await self._append(Gone(worker))
        receipt = await self._append(Take(str(self.group.me)))
        token = await receipt.ordered()
        await self.runner.applied(token)
        job = self.queue.taken(token)
        return None if job is None else Task(job.what, job.token)

    def _absent(self) -> list[str]:
        """Workers that hold a job and are not here. A `take` that was sent before its worker was gone may get its
        place after its `gone`: then the view has no news of it, and the job would stay where it is."""
        here = {str(process) for process in self.group.view.members}
        return sorted({job.worker for job in self.queue.open if job.worker} - here)

    async def finish(self, task: Task) -> reconvene.Receipt:
        return await self._append(Finish(task.what, task.token))

    async def counted(self, task: Task, receipt: reconvene.Receipt) -> bool:
        """Did the finish come in time? Known once it has its place."""
        await self.runner.applied(await receipt.ordered())
        return any((job.what, job.token) == task for job in self.queue.finished)

    async def _append(self, command: Put | Take | Finish | Gone) -> reconvene.Receipt:
        return await self.site.log.append(msgspec.json.encode(command))


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.02)


async def work(workers: dict[str, Worker], cluster: LocalCluster) -> None:
    a, b, c = workers["a"], workers["b"], workers["c"]
    await until(lambda: all(len(worker.group.view.members) == 3 for worker in workers.values()))
    await a.put("print the labels")
    await a.put("send the invoice")
    at_a, at_b = await a.take(), await b.take()
    assert at_a is not None
    assert at_b is not None
    print(f"  a takes: {at_a.what}\n  b takes: {at_b.what}")
    print(f"  b finishes in time: {await b.counted(at_b, await b.finish(at_b))}")

    print("the network is cut: a | b c")
    cluster.partition([["a"], ["b", "c"]])
    cluster.wait_for()
    await until(lambda: a.group.blocked)
    await a.put("call the customer")
    late = await a.finish(at_a)
    print(f"  a, a minority, accepts a job, and may take one: {await a.take() is not None}")
    await until(lambda: b.queue.waiting() == [at_a.what])
    at_c = await c.take()
    assert at_c is not None
    print(f"  c takes what a had: {at_c.what}, with a higher token: {at_c.token > at_a.token}")
    print(f"  c finishes in time: {await c.counted(at_c, await c.finish(at_c))}")

    print("it mends")
    cluster.heal()
    cluster.wait_for()
    print(f"  a finished in time: {await a.counted(at_a, late)}")
    await until(lambda: not a.group.blocked)
    last = await a.take()
    assert last is not None
    print(f"  a takes: {last.what}\n  a finishes in time: {await a.counted(last, await a.finish(last))}")
    for name, worker in workers.items():
        await worker.runner.caught_up()
        print(f"  {name} knows as finished: {', '.join(job.what for job in worker.queue.finished)}")


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory, LocalCluster.create(directory) as cluster:
        cluster.start()
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
            workers = {}
            for name, address in cluster.addresses.items():
                site = await stack.enter_async_context(reconvene.connect(address))
                queue = Queue()
                runner = await stack.enter_async_context(site.log.run(queue))
                workers[name] = Worker(site, await site.join("workers", primary=True), queue, runner)
            watching = [tasks.create_task(worker.watch()) for worker in workers.values()]
            print("three workers are connected")
            await work(workers, cluster)
            for task in watching:
                task.cancel()


if __name__ == "__main__":
    asyncio.run(main())
