"""Our log as a system under test: three sites on loopback, each inside the program that appends.

An append counts when it is green at its author: then it is on stable storage at every member of the primary
component, and has its place in the order.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from time import monotonic, monotonic_ns

from reconvene.lab.bench.durable_system import REPLICAS, Minority, Way
from reconvene.lab.load.process import LoadProcess, end, start
from reconvene.local.ports import LOOPBACK, choose
from reconvene.runtime.access.key_files import write_cluster_key

__all__ = ["Reconvene", "Sites", "again", "running"]

WARM_UP_S = 0.7
WARM_UP_COUNT = 100
START_TIMEOUT_S = 60.0
TURN_TIMEOUT_S = 60.0


class Reconvene:
    """`durable_system.Durable`."""

    name = "reconvene"
    synced = "synced at every member, and ordered"
    ways: Sequence[Way] = (
        Way(300, 100),
        Way(90, 100),
        Way(900, 100),
        Way(1000, 1, "one append a call"),
    )

    def running(self, folder: Path, quick: bool) -> AbstractContextManager["Sites"]:
        return running(folder)


class Sites:
    """`durable_system.Replicas`."""

    def __init__(self, loads: list[LoadProcess], names: Sequence[str]) -> None:
        self.loads = loads
        self.names = names
        self._writers = loads
        """The loads that append."""

    def pids(self) -> Sequence[int]:
        return [load.process.pid for load in self.loads]

    def ask(self, load: LoadProcess, line: str, key: str, timeout_s: float = TURN_TIMEOUT_S) -> dict[str, object]:
        load.say(line)
        return load.hear(key, monotonic() + timeout_s)

    def throughput(self, size: int, seconds: float, way: Way) -> float:
        begin = monotonic_ns() + int(WARM_UP_S * 1e9)
        over = begin + int(seconds * 1e9)
        each = max(1, way.outstanding // len(self._writers))
        for load in self._writers:
            load.say(f"throughput {begin} {over} {size} {each} {way.batch}")
        deadline = monotonic() + WARM_UP_S + seconds + TURN_TIMEOUT_S
        ordered = sum(int(load.hear("ordered", deadline)["ordered"]) for load in self._writers)
        return ordered / seconds

    def latency(self, size: int, count: int) -> list[float]:
        self.ask(self.loads[0], f"latency {WARM_UP_COUNT} {size}", "took")
        took = self.ask(self.loads[0], f"latency {count} {size}", "took")["took"]
        assert isinstance(took, list)
        return took

    def lose_one(self) -> None:
        """Cuts off the last site; the others order again once they have established a primary component."""
        self.cut(REPLICAS - 1)
        self._writers = self.loads[:-1]
        self.ask(self.loads[0], f"latency 1 {WARM_UP_COUNT}", "took")

    def cut(self, index: int) -> None:
        others = ",".join(name for at, name in enumerate(self.names) if at != index)
        self.ask(self.loads[index], f"block {others}", "blocked")
        for at, load in enumerate(self.loads):
            if at != index:
                self.ask(load, f"block {self.names[index]}", "blocked")

    def heal(self) -> None:
        for load in self.loads:
            self.ask(load, "block", "blocked")

    def minority(self, size: int, seconds: float) -> Minority:
        """The site that was cut off still accepts appends: they are durable there, and ordered when it is back."""
        accepted = self.ask(self.loads[-1], f"accept {seconds} {size}", "accepted", seconds + TURN_TIMEOUT_S)
        count = accepted["accepted"]
        assert isinstance(count, int)
        return Minority(count / seconds, "accepted, to be ordered when it is back")


@contextmanager
def running(folder: Path, *options: str) -> Iterator[Sites]:
    """Three new sites in the folder; `options` are for each load."""
    names = [f"site-{index}" for index in range(REPLICAS)]
    key = folder / "cluster.key"
    write_cluster_key(key)
    configure(folder, names, key)
    with again(folder, *options) as sites:
        yield sites


@contextmanager
def again(folder: Path, *options: str, timeout_s: float = START_TIMEOUT_S) -> Iterator[Sites]:
    """Starts the sites of the folder again."""
    names = [f"site-{index}" for index in range(REPLICAS)]
    loads: list[LoadProcess] = []
    try:
        for index, name in enumerate(names):
            arguments = [str(folder / f"{name}.toml"), *options]
            errors = folder / f"load-{index}"
            loads.append(start(Reconvene.name, "reconvene.lab.load.log_site", arguments, errors, None, index))
        deadline = monotonic() + timeout_s
        for load in loads:
            load.hear("ready", deadline)
        yield Sites(loads, names)
    finally:
        end(loads)


def configure(folder: Path, names: Sequence[str], key: Path) -> list[Path]:
    """A configuration file for each site."""
    ports = choose(len(names))
    sites = "".join(f'{name} = "{LOOPBACK}:{port}"\n' for name, port in zip(names, ports, strict=True))
    files = []
    for name in names:
        file = folder / f"{name}.toml"
        file.write_text(
            f'cluster = "bench"\nname = "{name}"\ndir = "{folder / name}"\n[sites]\n{sites}'
            f'[seal]\nkeys = ["{key}"]\n[faults]\nallowed = true\n[logging]\nlevel = "error"\n'
            "[log]\nbegin = true\nred_messages = 5000000\nred_bytes = 4294967296\n"
        )
        files.append(file)
    return files
