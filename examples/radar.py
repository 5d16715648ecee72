"""Radar: sensors in several places report what they see, and every display shows the best view that it can get.

Service: a group, with fifo messages. A reading is worth something now and nothing later, so it need not be durable;
the readings of different sensors need no order among each other, only each sensor's own: fifo waits for the least.

In a minority: nothing stops. The group's view says which sensors are there, and the display shows the best of
those: a poorer picture is better than none. When the network mends, the view says that the better sensor is back.

Run it: python examples/radar.py
"""

import asyncio
import tempfile
from contextlib import AsyncExitStack

import msgspec

import reconvene
from reconvene.local import LocalCluster

QUALITY = {"a": 90, "b": 60, "c": 30}
"""How well each site's sensor sees, in percent."""


class Reading(msgspec.Struct, frozen=True):
    quality: int
    bearing: int
    sweep: int


class Station:
    """A sensor and a display at one site."""

    def __init__(self, name: str, group: reconvene.Group) -> None:
        self.name = name
        self.group = group
        self.members: tuple[reconvene.Process, ...] = ()
        self.readings: dict[reconvene.Process, Reading] = {}
        self.changed = asyncio.Event()

    async def report(self, bearing: int, sweep: int) -> None:
        reading = Reading(QUALITY[self.name], bearing, sweep)
        await self.group.send(msgspec.json.encode(reading), service="fifo")

    async def watch(self) -> None:
        async for event in self.group:
            match event:
                case reconvene.View(kind="regular", members=members):
                    self.members = members
                    self.readings = {who: self.readings[who] for who in members if who in self.readings}
                case reconvene.Message(sender=sender, data=data):
                    self.readings[sender] = msgspec.json.decode(data, type=Reading)
            self.changed.set()

    async def has_all(self, sensors: int, sweep: int) -> None:
        """Waits until so many sensors are in the view, and each has been heard in this sweep."""
        while not (
            len(self.members) == len(self.readings) == sensors
            and all(reading.sweep == sweep for reading in self.readings.values())
        ):
            self.changed.clear()
            await self.changed.wait()

    def show(self) -> str:
        sensor, best = max(self.readings.items(), key=lambda item: item[1].quality)
        return (
            f"target at {best.bearing}°, by sensor {sensor.site} ({best.quality} %), of {len(self.members)} connected"
        )


async def sweep(stations: dict[str, Station], number: int, components: list[str]) -> None:
    """One turn of every antenna, and what the displays show after it."""
    for station in stations.values():
        # A sensor that sees less sees the target a little off.
        await station.report(bearing=40 + 10 * number + (90 - QUALITY[station.name]) // 30, sweep=number)
    for component in components:
        for name in component:
            await stations[name].has_all(len(component), number)
            print(f"  display {name}: {stations[name].show()}")


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory, LocalCluster.create(directory) as cluster:
        cluster.start()
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
            stations = {}
            for name, address in cluster.addresses.items():
                site = await stack.enter_async_context(reconvene.connect(address))
                stations[name] = Station(name, await site.join("radar"))
            watching = [tasks.create_task(station.watch()) for station in stations.values()]

            print("all sensors are connected")
            await sweep(stations, 1, ["abc"])

            print("the network is cut: a | b c")
            cluster.partition([["a"], ["b", "c"]])
            cluster.wait_for()
            await sweep(stations, 2, ["a", "bc"])

            print("it mends")
            cluster.heal()
            cluster.wait_for()
            await sweep(stations, 3, ["abc"])
            for task in watching:
                task.cancel()


if __name__ == "__main__":
    asyncio.run(main())
