"""bench durable: the calls to a system, its rows and notes, and where its data is."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reconvene.errors import Unavailable
from reconvene.lab.bench import Settings, Sheet, durable
from reconvene.lab.bench.durable_disk import Disk, disk_of, folder, syncs_a_second
from reconvene.lab.bench.durable_system import Durable, Minority, Way


@dataclass
class Canned:
    """A system with known figures: its rate times the outstanding requests."""

    name: str
    rate: float
    ways: Sequence[Way] = (Way(1), Way(3), Way(2, name="in pairs", synced="twice"))
    synced: str = "at once"
    breaks: bool = False
    asked: list[str] = field(default_factory=list)

    @contextmanager
    def running(self, folder: Path, quick: bool) -> Iterator["Canned"]:
        assert folder.is_dir()
        assert not list(folder.iterdir())
        (folder / "data").write_bytes(b"")
        yield self
        self.asked.append("end")

    def pids(self) -> Sequence[int]:
        return []

    def throughput(self, size: int, seconds: float, way: Way) -> float:
        self.asked.append(f"{size} x {way.outstanding}")
        return self.rate * way.outstanding

    def latency(self, size: int, count: int) -> list[float]:
        return [100 / self.rate] * (count - 1) + [1000 / self.rate]

    def lose_one(self) -> None:
        self.asked.append("lose one")
        if self.breaks:
            raise Unavailable("it fell over")

    def minority(self, size: int, seconds: float) -> Minority:
        return Minority(0.0, "refused at once")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONVENE_BENCH_DIR", str(tmp_path))
    monkeypatch.setattr(durable, "DISK_S", 0.01)


def measured(monkeypatch: pytest.MonkeyPatch, own: Sequence[Canned], *theirs: Canned, quick: bool = True) -> Sheet:
    def maker(system: Canned) -> Callable[[], Durable]:
        return lambda: system

    monkeypatch.setattr(durable, "OWN", tuple(map(maker, own)))
    monkeypatch.setattr(durable, "SYSTEMS", {system.name: maker(system) for system in theirs})
    return durable.run(Settings(quick=quick, peers=tuple(system.name for system in theirs)))


def values(sheet: Sheet, work: str) -> dict[str, tuple[float, float | None]]:
    return {row.system: (row.value, row.ratio) for row in sheet.rows if row.work == work}


def test_the_best_of_the_ways_that_share_a_name_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sheet = measured(monkeypatch, [], Canned("etcd", 10), Canned("other", 20), quick=False)
    assert values(sheet, "append 100 B") == {
        "etcd": (30.0, None),
        "etcd, in pairs": (20.0, 0.6667),
        "other": (60.0, 2.0),
        "other, in pairs": (40.0, 1.333),
    }
    assert values(sheet, "append 1 KiB alone, p99") == {"etcd": (10.0, None), "other": (5.0, 0.5)}
    assert values(sheet, "append 100 B, one of three lost") == {"etcd": (10.0, None), "other": (20.0, 2.0)}
    assert values(sheet, "append 100 B, accepted in a minority") == {"etcd": (0.0, None), "other": (0.0, None)}
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_a_quick_run_tries_one_way_of_each_name(monkeypatch: pytest.MonkeyPatch) -> None:
    system = Canned("etcd", 10)
    measured(monkeypatch, [], system)
    assert system.asked == ["100 x 1", "100 x 2", "1024 x 1", "1024 x 2", "lose one", "100 x 1", "end"]


def test_the_table_shows_what_is_synced_and_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    sheet = measured(monkeypatch, [], Canned("etcd", 10))
    (table,) = sheet.tables
    notes = {(line[0], line[1]): line[-1] for line in table.lines}
    assert notes["append 100 B", "etcd"] == "at once"
    assert notes["append 100 B", "etcd, in pairs"] == "twice"
    assert notes["append 100 B, accepted in a minority", "etcd"] == "refused at once"


def test_figures_from_before_a_failure_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    sheet = measured(monkeypatch, [], Canned("etcd", 10, breaks=True))
    assert values(sheet, "append 100 B")["etcd"] == (10.0, None)
    assert values(sheet, "append 100 B, one of three lost") == {}
    assert "etcd: not all figures of a round: it fell over" in sheet.notes


def test_where_nothing_came_through(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def refused(self: Canned, folder: Path, quick: bool) -> Iterator[Canned]:
        raise Unavailable("no port was free")
        yield

    monkeypatch.setattr(Canned, "running", refused)
    with pytest.raises(Unavailable, match="no port was free"):
        measured(monkeypatch, [], Canned("etcd", 10))


def test_without_systems() -> None:
    if not durable.OWN:
        with pytest.raises(Unavailable, match="--peer etcd,nats"):
            durable.run(Settings(quick=True))


def test_bars_are_ours_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [table.title for table in measured(monkeypatch, [], Canned("etcd", 10)).tables] == [
        "three replicas on one disk"
    ]
    ours = Canned("ours", 45)
    sheet = measured(monkeypatch, [ours], Canned("etcd", 10), Canned("swift", 50))
    lines = {(line[0], line[2]): line[3:] for line in sheet.tables[-1].lines}
    assert lines["append 100 B", "at least 4 times etcd"] == ("etcd", "4.50", "met")
    assert lines["append 100 B", "at least 1 times the best other's"] == ("swift, in pairs", "0.450", "missed")
    assert lines["append 100 B alone, p50", "within 1 times etcd"] == ("etcd", "0.222", "met")
    (row,) = [row for row in sheet.rows if row.work == "append 100 B: at least 4 times etcd"]
    assert (row.system, row.value, row.against, row.ratio) == ("ours", 4.5, "etcd", 1.125)


def test_data_goes_to_a_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with folder() as place:
        assert place.parent == tmp_path
        assert syncs_a_second(place, 0.01) > 0
        assert list(place.iterdir()) == []
    assert not place.exists()
    monkeypatch.setattr("reconvene.lab.bench.durable_disk.disk_of", lambda path: Disk("tmpfs", "tmpfs"))
    with pytest.raises(Unavailable, match="is in memory"), folder():
        pass
    monkeypatch.setenv("RECONVENE_BENCH_DIR", str(tmp_path / "nowhere"))
    with pytest.raises(Unavailable, match="nowhere: expected a directory"), folder():
        pass


@pytest.mark.skipif(not os.path.exists("/proc/self/mounts"), reason="no /proc")
def test_which_disk() -> None:
    assert disk_of(Path("/")) is not None
    assert disk_of(Path("/proc")) == Disk("proc", "proc")
