"""A program in a process of its own: a member of an ISIS group whose state is what it has received.

Arguments: a site's socket, and a name. It casts, answers, and writes a line when it has joined. It ends by a signal.
"""

import asyncio
import sys
from contextlib import suppress

import msgspec

import reconvene

_TOGETHER = 5_000


class Program:
    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.group: reconvene.IsisGroup | None = None

    def give(self) -> list[bytes]:
        """In a few chunks: each takes a round trip, and on a busy machine thousands of them take minutes."""
        received = self.received
        return [msgspec.msgpack.encode(received[at : at + _TOGETHER]) for at in range(0, len(received), _TOGETHER)]

    def take(self, chunks: list[bytes]) -> None:
        self.received = [data for chunk in chunks for data in msgspec.msgpack.decode(chunk, type=list[bytes])]

    async def run(self, address: str, name: str) -> None:
        async with reconvene.connect(address, wait=30) as site:
            await site.isis.open(name)
            joining = asyncio.create_task(self.join(site.isis))
            casting = asyncio.create_task(self.cast(site.isis))
            async for event in site.isis:
                if isinstance(event, reconvene.Cast):
                    self.received.append(event.data)
                    if event.wants_reply:
                        with suppress(reconvene.ReconveneError):
                            await event.reply(b"%d" % len(self.received))
                elif isinstance(event, reconvene.Killed):
                    self.group, self.received = None, []
                    joining = asyncio.create_task(self.join(site.isis))
            await asyncio.gather(joining, casting)

    async def join(self, isis: reconvene.Isis) -> None:
        while self.group is None:
            with suppress(reconvene.ReconveneError):
                self.group = await isis.join("words", state=self)
        print("joined", isis.me, flush=True)

    async def cast(self, isis: reconvene.Isis) -> None:
        count = 0
        while True:
            await asyncio.sleep(0.05)
            count += 1
            with suppress(reconvene.ReconveneError):
                if self.group is not None:
                    await self.group.cbcast(f"{isis.me} {count}".encode(), label="x" if count % 2 else None)
                    await self.group.cbcast_many([b"together"] * 10)


if __name__ == "__main__":
    asyncio.run(Program().run(sys.argv[1], sys.argv[2]))
