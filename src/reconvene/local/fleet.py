"""The processes of a local cluster's sites: starts them on free ports, finds them again, ends them."""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from reconvene.errors import Rejected, Unavailable
from reconvene.local import ports
from reconvene.local.control import Lines
from reconvene.local.layout import Choices, Layout, Ports
from reconvene.local.processes import Proc, kill_all, spawn, state_of
from reconvene.local.site_file import write_site_file
from reconvene.runtime.net.partition import Partition

__all__ = ["POLL_S", "Died", "Fleet"]

POLL_S = 0.02
"""Time between two polls."""
_TRIES = 3
"""How often other ports are tried if another program took one."""
_FREE_S = 1.0
"""How long a port may still be held after its site has ended."""
_LOG_LINES = 5
_STATE_S = 5.0


class Died(Unavailable):
    """A site's process ended by itself."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class Fleet:
    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.choices: Choices = layout.load()

    @property
    def names(self) -> tuple[str, ...]:
        return self.choices.names

    @property
    def everyone(self) -> tuple[str, ...]:
        """The sites, then those who follow their log, or accept messages for it."""
        return self.choices.everyone

    # -- who runs

    def processes(self) -> dict[str, Proc]:
        """The processes of the running sites, paused or not."""
        found = {name: Proc.load(self.layout.process(name)) for name in self.everyone}
        return {name: process for name, process in found.items() if process and state_of(process) != "down"}

    def remembered(self) -> bool:
        """Sites were started, and their end, if it came, has not been noted yet."""
        return any(self.layout.process(name).exists() for name in self.everyone)

    def state(self, name: str) -> str:
        """up | paused | down"""
        process = Proc.load(self.layout.process(name))
        return "down" if process is None else state_of(process)

    def states(self) -> dict[str, str]:
        return {name: self.state(name) for name in self.everyone}

    def wait_state(self, names: Iterable[str], state: str) -> None:
        """A signal takes effect a moment after it was sent."""
        deadline = time.monotonic() + _STATE_S
        for name in names:
            while (found := self.state(name)) != state:
                if found == "down":
                    raise self.died(name)
                if time.monotonic() >= deadline:
                    raise Unavailable(f"site {name} is {found}, and not {state} after {_STATE_S:g} s")
                time.sleep(0.0005)

    def expect(self, names: Sequence[str], states: tuple[str, ...], complaint: str) -> None:
        """Raises Rejected unless each is a site of this cluster, named once, and in one of these states."""
        if not names:
            raise Rejected(f"expected at least one site of {', '.join(self.everyone)}")
        self.expect_known(names)
        if len(set(names)) != len(names):
            raise Rejected(f"{', '.join(names)}: a site is named twice")
        for name in names:
            if self.state(name) not in states:
                raise Rejected(f"site {name} {complaint}")

    def expect_known(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.everyone:
                raise Rejected(f"there is no site {name!r}; expected some of {', '.join(self.everyone)}")

    def sockets(self) -> dict[str, Path]:
        return {name: self.layout.socket(self.choices, name) for name in self.everyone}

    def lines(self, timeout_s: float = 2.0) -> Lines:
        return Lines(self.sockets(), timeout_s)

    # -- start

    def start_all(self, deadline: float) -> None:
        """Starts all sites on free ports; tries other ports if another program took one between choosing and
        binding."""
        for left in reversed(range(_TRIES)):
            self._choose_ports()
            try:
                self._start(self.everyone, Partition(), deadline)
                return
            except Died as died:
                if not left or all(ports.is_free(port) for port in self._ports_of(died.name)):
                    raise

    def start(self, names: Sequence[str], faults: Partition, deadline: float) -> None:
        """Starts sites on their old ports, since the other sites know them."""
        for name in names:
            for port in self._ports_of(name):
                if not ports.wait_free(port, _FREE_S):
                    raise Unavailable(
                        f"site {name}: port {port} on {ports.LOOPBACK} is in use by another program;"
                        " `reconvene down` and `up` choose others"
                    )
        self._start(names, faults, deadline)

    def _start(self, names: Sequence[str], faults: Partition, deadline: float) -> None:
        """Returns when all of them answer. If one fails, all of them are ended."""
        logged: dict[str, int] = {}
        started: dict[str, Proc] = {}
        try:
            for name in names:
                write_site_file(
                    self.layout,
                    self.choices,
                    name,
                    faults.blocked(name, self.names) if name in self.names else (),
                )
                log = self.layout.log(name)
                logged[name] = log.stat().st_size if log.exists() else 0
                started[name] = spawn(["node", "--config", str(self.layout.config(name))], log)
                started[name].save(self.layout.process(name))
            self._wait_answers(names, deadline, logged)
        except BaseException:
            kill_all(started.values())
            self.forget(started)
            raise

    def _wait_answers(self, names: Sequence[str], deadline: float, logged: Mapping[str, int]) -> None:
        waiting = list(names)
        with self.lines() as lines:
            while True:
                answered = lines.statuses(waiting)
                waiting = [name for name in waiting if name not in answered]
                if not waiting:
                    return
                for name in waiting:
                    if self.state(name) == "down":
                        raise self.died(name, logged[name])
                if time.monotonic() >= deadline:
                    raise Unavailable(f"site {waiting[0]} does not answer; {self._end_of_log(waiting[0])}")
                time.sleep(POLL_S)

    def _choose_ports(self) -> None:
        """Its ports so far, if they are free; otherwise others."""
        if not all(port and ports.is_free(port) for name in self.everyone for port in self._ports_of(name)):
            free = iter(ports.choose(2 * len(self.everyone)))
            chosen = {name: Ports(next(free), next(free)) for name in self.everyone}
            self.choices = msgspec.structs.replace(
                self.choices,
                sites={name: chosen[name] for name in self.names},
                followers={name: chosen[name] for name in self.choices.followers},
                outposts={name: chosen[name] for name in self.choices.outposts},
            )
        self.choices = self.layout.place_sockets(self.choices)
        self.layout.save(self.choices)

    def _ports_of(self, name: str) -> tuple[int, int]:
        return self.choices.ports(name).datagrams, self.choices.ports(name).http

    # -- end

    def forget(self, names: Iterable[str]) -> None:
        """Notes that they have ended."""
        for name in names:
            self.layout.process(name).unlink(missing_ok=True)

    def died(self, name: str, since: int = 0) -> Died:
        return Died(name, f"site {name} has ended; {self._end_of_log(name, since)}")

    def log_tail(self, name: str, since: int = 0) -> str:
        """The last lines of a site's log, without its first `since` bytes."""
        try:
            with self.layout.log(name).open("rb") as log:
                log.seek(max(since, log.seek(0, 2) - 4096))
                lines = log.read().decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return "\n".join(lines[-_LOG_LINES:])

    def _end_of_log(self, name: str, since: int = 0) -> str:
        return f"the end of {self.layout.log(name)}:\n{self.log_tail(name, since) or '(nothing)'}"
