"""An airline's reservations: every office sells seats of one flight, also while the network is cut.

Service: the durable log, with a state machine on top. A sale must survive crashes, and all offices have to agree
who sits on the plane. Both follow from one order that every office applies in the same way.

In a minority: an office can't know what the others sell, and still sells: up to QUOTA seats that are its own to
sell blindly. The majority keeps as many back for each office that it can't reach. If the network breaks into pieces
of which none is a majority, quotas may add up to more than there is: then the order decides who flies, at every
office alike, and the others are booked on the next plane. That is the price of selling at all, and QUOTA is how
much of it to pay.

Run it: python examples/airline.py
"""

import asyncio
import tempfile
from contextlib import AsyncExitStack
from typing import cast

import msgspec

import reconvene
from reconvene.local import LocalCluster

SEATS = 7
QUOTA = 2
PATIENCE_S = 10.0
"""How long a customer waits for a firm answer. An office that was cut off a moment ago does not know it yet."""


class Sale(msgspec.Struct, frozen=True):
    """What goes into the log."""

    passenger: str
    keep: int
    """So many seats have to stay free: those that offices which can't be reached may be selling."""


class Flight(reconvene.StateMachine):
    """Who flies: a function of the sales in their order, so the same everywhere."""

    def __init__(self) -> None:
        self.seated: list[str] = []
        self.refused: list[str] = []

    def apply(self, entry: reconvene.Entry) -> None:
        sale = msgspec.json.decode(entry.data, type=Sale)
        free = SEATS - len(self.seated)
        (self.seated if free > sale.keep else self.refused).append(sale.passenger)

    def snapshot(self) -> bytes:
        return msgspec.json.encode((self.seated, self.refused))

    def restore(self, data: bytes) -> None:
        self.seated, self.refused = msgspec.json.decode(data, type=tuple[list[str], list[str]])


class Office:
    """One office: a client of its own site."""

    def __init__(self, site: reconvene.Site, flight: Flight, runner: reconvene.Runner) -> None:
        self.site = site
        self.flight = flight
        self.runner = runner
        self.unconfirmed: list[reconvene.Receipt] = []

    async def sell(self, passenger: str) -> str:
        """What the customer is told."""
        status = await self.site.status()
        if status.health == "primary":
            absent = len(status.sites) - len(status.members)
            receipt = await self.site.log.append(msgspec.json.encode(Sale(passenger, absent * QUOTA)))
            try:
                await self.runner.applied(await receipt.ordered(timeout=PATIENCE_S))
            except reconvene.OutcomeUnknown:
                return self._to_be_confirmed(receipt)
            return "a seat" if passenger in self.flight.seated else "no seat: the rest is kept for others"
        hoped = cast(Flight, await self.runner.optimistic())
        sold_blindly = len(hoped.seated) - len(self.flight.seated)
        if sold_blindly >= QUOTA or len(hoped.seated) >= SEATS:
            return "no seat: nothing is left that this office may sell"
        return self._to_be_confirmed(await self.site.log.append(msgspec.json.encode(Sale(passenger, 0))))

    def _to_be_confirmed(self, receipt: reconvene.Receipt) -> str:
        """The sale is durable here, and ordered when it can be."""
        self.unconfirmed.append(receipt)
        return "a ticket, to be confirmed"


async def tell(offices: dict[str, Office], sales: list[tuple[str, str]]) -> None:
    for name, passenger in sales:
        print(f"  office {name}: {passenger} gets {await offices[name].sell(passenger)}")


async def reconciled(offices: dict[str, Office]) -> None:
    """What every office says when all tickets have their place."""
    for office in offices.values():
        await asyncio.gather(*(receipt.ordered() for receipt in office.unconfirmed))
        office.unconfirmed.clear()
    for name, office in offices.items():
        await office.runner.caught_up()
        refused = ", ".join(office.flight.refused) or "nobody"
        print(f"  office {name}: on board {', '.join(office.flight.seated)}; on the next plane: {refused}")


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory, LocalCluster.create(directory) as cluster:
        cluster.start()
        async with AsyncExitStack() as stack:
            offices = {}
            for name, address in cluster.addresses.items():
                site = await stack.enter_async_context(reconvene.connect(address))
                flight = Flight()
                runner = await stack.enter_async_context(site.log.run(flight))
                offices[name] = Office(site, flight, runner)

            print(f"{SEATS} seats; everyone is connected")
            await tell(offices, [("a", "Ada"), ("b", "Ben")])

            print("the network is cut: a | b c")
            cluster.partition([["a"], ["b", "c"]])
            cluster.wait_for()
            await tell(offices, [("a", "Cem"), ("b", "Dora"), ("c", "Eva"), ("b", "Fay"), ("c", "Gus")])

            print("it mends")
            cluster.heal()
            cluster.wait_for()
            await reconciled(offices)

            print("it is cut again, with one seat left: a | b | c")
            cluster.partition([["a"], ["b"], ["c"]])
            cluster.wait_for()
            await tell(offices, [("a", "Hal"), ("a", "Ida"), ("b", "Jon")])

            print("it mends")
            cluster.heal()
            cluster.wait_for()
            await reconciled(offices)


if __name__ == "__main__":
    asyncio.run(main())
