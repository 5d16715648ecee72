"""A chat: an answer never comes before what it answers.

Service: a group, with causal messages. People need no single order of everything that is said, only that they have
read the question when the answer comes; causal delivers a message after all that its sender had read, and waits for
nothing else. A chat is for the people who are there now, so nothing of it goes to the durable log.

In a minority: people go on talking among those that they can reach. The group has no memory of its own, so the
program decides what newcomers are told: when a view brings members together, one of each side repeats what was said
there.

Run it: python examples/chat.py
"""

import asyncio
import tempfile
from collections import deque
from collections.abc import Callable
from contextlib import AsyncExitStack

import msgspec

import reconvene
from reconvene.local import LocalCluster

REPEATED = 100
"""So many lines are kept, to be sent to members who were not there."""


class Line(msgspec.Struct, frozen=True):
    who: str
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.who}: {self.text}"


class Chat:
    """What one person has on the screen."""

    def __init__(self, who: str, group: reconvene.Group) -> None:
        self.who = who
        self.group = group
        self.lines: deque[Line] = deque(maxlen=REPEATED)
        self.present: tuple[reconvene.Process, ...] = ()
        self._said = 0
        self._changed = asyncio.Event()

    async def say(self, text: str) -> None:
        self._said += 1
        await self._send([Line(self.who, self._said, text)])

    async def _send(self, lines: list[Line]) -> None:
        await self.group.send(msgspec.json.encode(lines), service="causal")

    async def listen(self) -> None:
        async for event in self.group:
            match event:
                case reconvene.Message(data=data):
                    known = set(self.lines)
                    self.lines += [line for line in msgspec.json.decode(data, type=list[Line]) if line not in known]
                case reconvene.View(kind="regular", members=members, joined=joined):
                    self.present = members
                    stayed = set(members) - set(joined)
                    if joined and self.lines and self.group.me == min(stayed, default=None):
                        await self._send(list(self.lines))
            self._changed.set()

    async def until_read(self, *texts: str) -> None:
        await self._until(lambda: {line.text for line in self.lines} >= set(texts))

    async def until_with(self, people: int) -> None:
        await self._until(lambda: len(self.present) == people)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()


async def conversation(chats: dict[str, Chat], cluster: LocalCluster) -> None:
    ann, bob, cat = chats["ann"], chats["bob"], chats["cat"]
    for chat in chats.values():
        await chat.until_with(3)
    await ann.say("who has the key?")
    await bob.until_read("who has the key?")
    await bob.say("I have it")
    for chat in chats.values():
        await chat.until_read("I have it")
        print(f"  {chat.who} reads: {' / '.join(map(str, chat.lines))}")

    print("the network is cut: ann | bob cat")
    cluster.partition([["ann"], ["bob", "cat"]])
    cluster.wait_for()
    await ann.until_with(1)
    await bob.until_with(2)
    await ann.say("hello?")
    await cat.say("where is ann?")
    await bob.until_read("where is ann?")
    await bob.say("cut off, I think")
    await ann.until_read("hello?")
    await cat.until_read("cut off, I think")
    for chat in chats.values():
        print(f"  {chat.who} reads: {' / '.join(map(str, list(chat.lines)[2:]))}")

    print("it mends: each side tells the other what it missed")
    cluster.heal()
    cluster.wait_for()
    for chat in chats.values():
        await chat.until_with(3)
        await chat.until_read("hello?", "where is ann?", "cut off, I think")
        print(f"  {chat.who} has {len(chat.lines)} lines, the last: {chat.lines[-1]}")


async def main() -> None:
    people = ["ann", "bob", "cat"]
    with tempfile.TemporaryDirectory() as directory, LocalCluster.create(directory, nodes=people) as cluster:
        cluster.start()
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
            chats = {}
            for who, address in cluster.addresses.items():
                site = await stack.enter_async_context(reconvene.connect(address))
                chats[who] = Chat(who, await site.join("chat"))
            listening = [tasks.create_task(chat.listen()) for chat in chats.values()]
            print("ann, bob and cat are connected")
            await conversation(chats, cluster)
            for task in listening:
                task.cancel()


if __name__ == "__main__":
    asyncio.run(main())
