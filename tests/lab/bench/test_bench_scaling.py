"""bench scaling: its tables, and to which layer a sample belongs."""

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from time import process_time

import pytest

from reconvene.lab.bench import Settings, scaling, sites
from reconvene.lab.bench.sites import Setup, Throughput
from reconvene.lab.load.sampler import Sampler, layer_of


class Canned:
    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    def throughput(self, size: int, seconds: float, profile: bool = False) -> Throughput:
        cores = tuple(0.1 * (index + 1) for index in range(self.setup.sites))
        seen = Counter({("core/evs/delivery.py", "Delivery.take", 7): 30, ("runtime/net/udp.py", "Udp.send", 9): 10})
        return Throughput(100_000, cores, cores, ({},) * self.setup.sites, 0.0, seen if profile else Counter())


@contextmanager
def canned(setup: Setup, mode: str) -> Iterator[Canned]:
    yield Canned(setup)


def test_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sites, "running", canned)
    sheet = scaling.run(Settings(quick=True))
    first, *profiles = sheet.tables
    assert [line[0] for line in first.lines] == ["2", "3", "5", "8"]
    assert first.lines[1][4] == "0.20 0.40 0.60"
    rows = {(row.work, row.system): row.value for row in sheet.rows}
    # 0.4 cores at each of three sites for 100,000 messages.
    assert rows["agreed 100 B, 3 sites: a message at one site", "reconvene, loopback"] == 4.0
    assert rows["own time, 3 sites, frames from the path", "evs"] == 75.0
    assert len(profiles) == 4
    assert profiles[1].lines[0] == ("Delivery.take", "core/evs/delivery.py", "75.0 %")


@pytest.mark.parametrize(
    ("file", "layer"),
    [
        ("core/multicast/window.py", "multicast"),
        ("core/site.py", "site"),
        ("wire/seal.py", "seals"),
        ("wire/codec.py", "wire"),
        ("runtime/net/udp.py", "udp"),
        ("runtime/site/engine.py", "engine"),
        ("client/group.py", "client"),
        ("lab/load/group_site.py", "the application"),
        ("runners.py", "the event loop"),
    ],
)
def test_layers(file: str, layer: str) -> None:
    assert layer_of(file) == layer


def _burn() -> None:
    until = process_time() + 0.2
    while process_time() < until:
        pass


def test_looks() -> None:
    sampler = Sampler()
    before = signal.getsignal(signal.SIGPROF)
    try:
        sampler.start()
        _burn()
        sampler.stop()
        seen = sampler.seen.total()
        _burn()
    finally:
        signal.signal(signal.SIGPROF, before)
    assert sampler.seen.total() == seen > 0
    file, function, _ = sampler.seen.most_common(1)[0][0]
    assert (file, function) == ("test_bench_scaling.py", "_burn")
