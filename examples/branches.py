"""Shops in three cities: prices are the same everywhere, and a sale concerns its own city alone.

Service: a wide group, across clusters that are joined by their gateways. A price is an agreed message: all tills of
all cities set the prices in one order, so they end with the same ones. A sale has scope="cluster": the tills of the
city share it, and nothing of it goes over the line to other cities.

In a minority: a city that is cut off goes on selling at the prices that it has, and knows which cities are out of
reach. They may well be open. A merge brings nothing that was missed, so the tills send their prices again, with the
time at which each was set: the latest counts.

Run it: python examples/branches.py
"""

import asyncio
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from itertools import count

import msgspec

import reconvene
from reconvene.local import LocalDomains


class Price(msgspec.Struct, frozen=True, tag=True):
    what: str
    cents: int
    time: int


class Sale(msgspec.Struct, frozen=True, tag=True):
    what: str


class Till:
    """One till of a shop: what things cost, and what its city has sold."""

    def __init__(self, city: str, group: reconvene.Group, clock: Callable[[], int]) -> None:
        self.city = city
        self.group = group
        self.prices: dict[str, Price] = {}
        self.sold: list[str] = []
        self.cities: tuple[str, ...] = ()
        self._clock = clock
        self._changed = asyncio.Event()

    async def set_price(self, what: str, cents: int) -> None:
        await self.group.send(msgspec.json.encode(Price(what, cents, self._clock())))

    async def sell(self, what: str) -> None:
        await self.group.send(msgspec.json.encode(Sale(what)), scope="cluster")

    async def listen(self) -> None:
        async for event in self.group:
            match event:
                case reconvene.Message(data=data):
                    self._take(msgspec.json.decode(data, type=Price | Sale))
                case reconvene.WideView(kind="regular", domains=cities):
                    returned = set(cities) - set(self.cities)
                    self.cities = cities
                    if returned:
                        for price in self.prices.values():
                            await self.group.send(msgspec.json.encode(price))
            self._changed.set()

    def _take(self, message: Price | Sale) -> None:
        if isinstance(message, Sale):
            self.sold.append(message.what)
        elif message.what not in self.prices or self.prices[message.what].time < message.time:
            self.prices[message.what] = message

    def costs(self, what: str) -> int | None:
        return self.prices[what].cents if what in self.prices else None

    async def until(self, condition: Callable[["Till"], bool]) -> None:
        while not condition(self):
            self._changed.clear()
            await self._changed.wait()


async def a_day(tills: dict[str, Till], domains: LocalDomains) -> None:
    berlin, oslo, paris = tills["berlin"], tills["oslo"], tills["paris"]
    for till in tills.values():
        await till.until(lambda till: len(till.cities) == 3)
    await paris.set_price("tea", 250)
    for till in tills.values():
        await till.until(lambda till: till.costs("tea") == 250)
    await berlin.sell("tea")
    await berlin.until(lambda till: till.sold == ["tea"])
    await oslo.set_price("cake", 400)
    await paris.until(lambda till: till.costs("cake") == 400)
    for till in tills.values():
        await till.until(lambda till: till.costs("cake") == 400)
        print(f"  {till.city}: tea {till.costs('tea')}, cake {till.costs('cake')}; sold here: {till.sold}")

    print("the line to berlin is cut")
    domains.partition([["berlin"], ["oslo", "paris"]])
    await berlin.until(lambda till: till.cities == ("berlin",))
    await paris.until(lambda till: till.cities == ("oslo", "paris"))
    await paris.set_price("tea", 270)
    await berlin.sell("cake")
    await berlin.until(lambda till: till.sold == ["tea", "cake"])
    await oslo.until(lambda till: till.costs("tea") == 270)
    print(f"  berlin goes on: tea {berlin.costs('tea')}; sold here: {berlin.sold}")
    print(f"  oslo and paris: tea {oslo.costs('tea')}")

    print("it mends")
    domains.heal()
    for till in tills.values():
        await till.until(lambda till: len(till.cities) == 3)
        await till.until(lambda till: till.costs("tea") == 270)
        print(f"  {till.city}: tea {till.costs('tea')}")


async def main() -> None:
    ticks = count(1)
    with (
        tempfile.TemporaryDirectory() as directory,
        LocalDomains.create(directory, ["berlin", "oslo", "paris"], nodes=2, gateways=1) as domains,
    ):
        domains.start()
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
            tills = {}
            for city in domains.names:
                site = await stack.enter_async_context(reconvene.connect(domains.addresses[f"{city}/b"]))
                tills[city] = Till(city, await site.join("shop", wide=True), lambda: next(ticks))
            listening = [tasks.create_task(till.listen()) for till in tills.values()]
            print("berlin, oslo and paris are open")
            await a_day(tills, domains)
            for task in listening:
                task.cancel()


if __name__ == "__main__":
    asyncio.run(main())
