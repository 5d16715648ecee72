"""The machines of a simulated cluster, the network between them, and all that can befall both.

The methods have the names of those of `reconvene.local.LocalCluster`, where it has the same.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from reconvene.errors import Rejected
from reconvene.local.together import apart, together
from reconvene.runtime.config.settings import Config
from reconvene.runtime.net.partition import check_components
from reconvene.sim.conditions import Changes, Conditions
from reconvene.sim.durations import parse_duration
from reconvene.sim.network import Network
from reconvene.testing.errors import TimedOut
from reconvene.testing.loop import SimLoop
from reconvene.testing.machine import Machine, Program
from reconvene.testing.streams import Streams

__all__ = ["POLL_S", "Duration", "Machines", "as_ns"]

Duration = str | int | float
"""`"500ms"`, or a number of seconds."""

POLL_S = 0.02


class Machines:
    def __init__(
        self, loop: SimLoop, configs: Mapping[str, Config], conditions: Conditions, stream: Callable[[str], Random]
    ) -> None:
        """`stream`: random numbers of its own for each name, so that one's draws do not move another's."""
        self.names: tuple[str, ...] = tuple(configs)
        self._loop = loop
        deaf_to: list[frozenset[int]] = [frozenset()] * len(self.names)
        self._machines = {
            name: Machine(loop, config, lambda: self._network, deaf_to, stream(f"disk {name}"))
            for name, config in configs.items()
        }
        receivers = [machine.postbox.receive for machine in self._machines.values()]
        self._network = Network(loop.timeline, receivers, stream("network"), conditions)
        self._streams = loop.streams = Streams(loop, self.names, self._network, stream("streams"))
        self._components: tuple[tuple[str, ...], ...] = (self.names,)

    def state(self, name: str) -> str:
        """up | paused | down"""
        return self._machine(name).state

    def statuses(self) -> dict[str, dict[str, Any]]:
        """What the sites that are up say of themselves."""
        return {
            name: machine.engine.status()
            for name, machine in self._machines.items()
            if machine.engine is not None and machine.state == "up"
        }

    # -- waiting

    async def wait_for(
        self, components: Sequence[Sequence[str]] | None = None, timeout_s: float = 30.0
    ) -> dict[str, dict[str, Any]]:
        """Until the sites of each component are in one configuration of exactly these. Returns their statuses.

        By default those components that can talk and run now.
        """
        until = self._loop.time() + timeout_s
        while True:
            statuses = self.statuses()
            wanted = self._connected() if components is None else components
            if all(together(component, statuses) for component in wanted):
                return statuses
            if self._loop.time() >= until:
                shown = " | ".join(",".join(component) for component in wanted)
                raise TimedOut(f"not in the configurations {shown} after {timeout_s:g} s: {apart(wanted, statuses)}")
            await asyncio.sleep(POLL_S)

    def _connected(self) -> list[list[str]]:
        up = [[name for name in part if self._machines[name].state == "up"] for part in self._components]
        return [part for part in up if part]

    async def repair(self) -> None:
        """Mends everything, starts what is down, and waits until all sites are together."""
        self.network(loss=0.0, duplicate=0.0, reorder=0.0)
        self.heal()
        for name in self.names:
            self.mend_disk(name)
            if self.state(name) == "paused":
                self.resume(name)
            elif self.state(name) == "down":
                await self.restart(name)
        await self.wait_for()

    # -- programs

    def spawn(self, name: str, main: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Program:
        """Starts `main(*arguments)` at the machine of this site.

        It is cut off with its machine, is paused and dies with it, and starts anew when that restarts. What it raises
        ends the scenario.
        """
        machine = self._up(name)
        label = f"{getattr(main, '__name__', 'program')} at {name}"
        program = Program(self._loop, label, machine, partial(main, *arguments))
        machine.programs.append(program)
        program.start()
        return program

    # -- faults

    def partition(self, components: Sequence[Sequence[str]]) -> None:
        """Replaces all connectivity: only machines in the same list can talk. One in no list is alone."""
        self._connect(check_components(components, self.names))

    def heal(self) -> None:
        """Everyone can talk with everyone."""
        self._connect((self.names,))

    def _connect(self, components: tuple[tuple[str, ...], ...]) -> None:
        self._components = components
        self._network.partition([[self.names.index(name) for name in part] for part in components])
        self._streams.rewired()

    def cut(self, source: str, destination: str) -> None:
        """One way: what `source` sends to `destination` is lost."""
        self._network.cut(self._ordinal(source), self._ordinal(destination))

    def mend(self, source: str, destination: str) -> None:
        self._network.mend(self._ordinal(source), self._ordinal(destination))
        self._streams.rewired()

    def network(
        self,
        *,
        latency: Duration | None = None,
        jitter: Duration | None = None,
        loss: float | None = None,
        duplicate: float | None = None,
        reorder: float | None = None,
    ) -> None:
        """Changes these conditions from now on. What is lost, doubled and reordered is datagrams between sites."""
        self._network.change(
            Changes(
                latency_ns=None if latency is None else as_ns(latency),
                jitter_ns=None if jitter is None else as_ns(jitter),
                loss=loss,
                duplicate=duplicate,
                reorder=reorder,
            )
        )

    def crash(self, *names: str) -> None:
        """kill -9 of everything on these machines, at one moment. What was synced stays."""
        for machine in [self._up(name, "up", "paused") for name in names]:
            machine.crash()

    async def restart(self, *names: str) -> None:
        """Starts sites that are down, and the programs beside them. Returns when they answer."""
        for machine in [self._up(name, "down") for name in names]:
            await machine.start()

    async def stop(self, *names: str) -> None:
        """A clean leave: what was accepted is sent, and the other sites learn of it."""
        for machine in [self._up(name) for name in names]:
            await machine.stop()

    def pause(self, *names: str) -> None:
        """SIGSTOP of everything on these machines: it stands still, and loses nothing but time."""
        for machine in [self._up(name) for name in names]:
            machine.pause()

    def resume(self, *names: str) -> None:
        """SIGCONT."""
        for machine in [self._up(name, "paused") for name in names]:
            machine.resume()

    def fill_disk(self, name: str) -> None:
        """Every write fails with "No space left on device", until `mend_disk`."""
        self._machine(name).disk.fill()

    def fail_disk(self, name: str) -> None:
        """Every write fails with "Input/output error", until `mend_disk`."""
        self._machine(name).disk.fail()

    def slow_disk(self, name: str, by: Duration) -> None:
        """Every sync takes so much longer, until `mend_disk`."""
        self._machine(name).disk.slower_ns = as_ns(by)

    def mend_disk(self, name: str) -> None:
        self._machine(name).disk.mend()

    def _machine(self, name: str) -> Machine:
        if name not in self._machines:
            raise Rejected(f"there is no site {name!r}; expected one of {', '.join(self.names)}")
        return self._machines[name]

    def _ordinal(self, name: str) -> int:
        return self._machine(name).config.ordinal

    def _up(self, name: str, *states: str) -> Machine:
        expected = states or ("up",)
        machine = self._machine(name)
        if machine.state not in expected:
            raise Rejected(f"site {name} is {machine.state}; expected one that is {' or '.join(expected)}")
        return machine


def as_ns(duration: Duration) -> int:
    return parse_duration(duration) if isinstance(duration, str) else int(duration * 1_000_000_000)
