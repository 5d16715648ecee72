"""Rehearsals: faults are made at real sites, their real /metrics are scraped, and promtool says which alarms ring.

A rehearsal takes seconds, an alarm minutes. So a scrape stands for several minutes: promtool gets series in which a
quiet cluster goes on for ten minutes as it was scraped before the fault, and then for almost ten as it was scraped
during the fault. Where the fault lasts, counters go on growing as they grew between two scrapes.
"""

import asyncio
import os
import resource
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.client.places import Authority, authority, certificate, short_dir
from tests.ports import free_port
from tests.promtool import STEP_S, ringing
from tests.storage.places import fill, mounted

import reconvene
from reconvene.errors import ReconveneError
from reconvene.local import LocalCluster
from reconvene.local.processes import kill_all, spawn
from reconvene.runtime.access.key_files import add_client_key

pytestmark = pytest.mark.long(
    "rehearses alarms at a cluster of real sites; tests/test_alarms.py tries each rule on made-up series"
)

PATIENCE_S = 30.0
QUIET_STEPS, FAULT_STEPS = 40, 39
"""So the last ten minutes begin with the quiet cluster: what the fault has counted is an increase."""
AT = f"{(QUIET_STEPS + FAULT_STEPS - 1) * STEP_S}s"
STRANGERS = 15
SLOW_MS = 400
AHEAD_S = 7
CLOCK = f"""
import time
_now, _now_ns = time.time, time.time_ns
time.time = lambda: _now() + {AHEAD_S}
time.time_ns = lambda: _now_ns() + {AHEAD_S} * 10**9
"""
"""As sitecustomize, it moves the clock of a process."""

T = TypeVar("T")
Sample = tuple[str, tuple[tuple[str, str], ...]]


class Scrape:
    """All samples of a cluster at one moment, by instance. A site that does not answer has none."""

    def __init__(self, addresses: dict[str, str]) -> None:
        self.at = time.time()
        self.began_at: dict[str, float] = {}
        self.counters: set[Sample] = set()
        self.found: dict[str, dict[Sample, float]] = {}
        for name, url in addresses.items():
            self.began_at[name] = time.time()
            with suppress(OSError):
                self.found[name] = self._samples(url)

    def _samples(self, url: str) -> dict[Sample, float]:
        with urllib.request.urlopen(f"{url}metrics", timeout=2) as answer:
            text = answer.read().decode()
        found: dict[Sample, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                found[key] = sample.value
                if family.type in ("counter", "histogram"):
                    self.counters.add(key)
        return found


def as_series(quiet: Scrape, began: Scrape, lasts: Scrape) -> dict[str, str]:
    """Promtool's series, in which time begins at 0."""
    series = {}
    for site, before in quiet.found.items():
        there = lasts.found.get(site)
        series[_named(site, "up", ())] = f"1x{QUIET_STEPS - 1} {0 if there is None else 1}x{FAULT_STEPS - 1}"
        for sample in sorted(before.keys() | (there or {}).keys()):
            first = _steps(sample, quiet, quiet, site, QUIET_STEPS)
            second = _steps(sample, began, lasts, site, FAULT_STEPS)
            series[_named(site, *sample)] = f"{first} {second}"
    return series


def _steps(sample: Sample, began: Scrape, lasts: Scrape, site: str, steps: int) -> str:
    name, value = sample[0], lasts.found.get(site, {}).get(sample)
    if value is None:
        return f"stale _x{steps - 1}"
    growth = 0.0
    if name == "reconvene_time_seconds":
        virtual = 0 if steps == QUIET_STEPS else QUIET_STEPS * STEP_S
        value, growth = value - lasts.began_at[site] + virtual, STEP_S
    elif name == "reconvene_certificate_end_seconds":
        value -= lasts.at
    elif sample in lasts.counters and lasts is not began:
        start = began.found.get(site, {}).get(sample, value)
        growth = (value - start) / (lasts.at - began.at) * STEP_S
    return f"{value:.6f}{growth:+.6f}x{steps - 1}"


def _named(site: str, name: str, labels: tuple[tuple[str, str], ...]) -> str:
    shown = ",".join(f'{key}="{value}"' for key, value in (("job", "reconvene"), ("instance", site), *labels))
    return f"{name}{{{shown}}}"


class Stage:
    def __init__(self, directory: Path, cluster: LocalCluster, ours: Authority) -> None:
        self.directory = directory
        self.cluster = cluster
        self.authority = ours
        self.quiet = self.scrape()

    def scrape(self) -> Scrape:
        return Scrape(self.cluster.dashboards)

    def rings(self, began: Scrape | None = None) -> dict[str, list[str]]:
        """What rings if it stays as it is now, or goes on as since `began`."""
        now = self.scrape()
        return ringing(self.directory, as_series(self.quiet, began or now, now), AT)

    def until(self, alarm: str, label: str, *, only: Collection[str] | None = None) -> dict[str, list[str]]:
        """Waits until the alarm rings, for an alert with this label, and, where `only` names alarms, no others do.
        Returns all that ring. While a configuration or a primary component is being formed, a scrape shows alarms
        that pass: in Prometheus they wait for a minute, here a scrape stands for ten."""
        give_up_at = time.monotonic() + PATIENCE_S
        while True:
            found = self.rings()
            rings = any(label in labels for labels in found.get(alarm, ()))
            if rings and (only is None or found.keys() == set(only)):
                return found
            assert time.monotonic() < give_up_at, f"expected {alarm} with {label} and only {only}, and found {found}"
            time.sleep(0.2)

    def silent(self) -> None:
        """Waits until the cluster is well, so that the next rehearsal begins with a quiet one. What it has counted so
        far is the past."""
        self.cluster.heal()
        self.cluster.wait_for(timeout_s=PATIENCE_S)
        give_up_at = time.monotonic() + PATIENCE_S
        while True:
            self.quiet = self.scrape()
            if not (found := self.rings()):
                return
            assert time.monotonic() < give_up_at, f"still rings: {found}"
            time.sleep(0.2)

    def append(self, site: str, messages: int, size: int = 10, at_once: int = 200) -> None:
        async def appending() -> None:
            async with asyncio.timeout(PATIENCE_S), reconvene.connect(self.cluster.addresses[site]) as here:
                for start in range(0, messages, at_once):
                    await here.log.append_many([bytes(size)] * min(at_once, messages - start))

        asyncio.run(appending())

    def tcp(self, site: str) -> str:
        lines = self.cluster.layout.log(site).read_text().splitlines()
        (ready,) = [line for line in lines if " ready " in line][-1:]
        return ready.partition(" tcp=")[2].split()[0]


@pytest.fixture(scope="module")
def sites() -> Iterator[Stage]:
    if shutil.which("promtool") is None:
        pytest.skip("no promtool here: it is part of Prometheus, Debian's package prometheus")
    with short_dir() as directory:
        ours = authority(directory, "ours")
        cert, key = certificate(directory, ours, "site", hours=24 * 90)
        add_client_key(directory / "keys", "ops", "append")
        settings = {
            "clients": {
                "tcp": "127.0.0.1:0",
                "keys": str(directory / "keys"),
                "tls": {"certificate": str(cert), "key": str(key)},
            },
            "log": {"max_bytes": "16MiB", "red_bytes": "8MiB", "snapshot_bytes": "4MiB"},
            "limits": {"message_bytes": "1MiB"},
        }
        with LocalCluster.create(directory / "c", 3, trace=False, settings=settings) as cluster:
            cluster.start()
            yield Stage(directory, cluster, ours)


@pytest.fixture
def stage(sites: Stage) -> Stage:
    """A cluster that is well."""
    sites.silent()
    return sites


def test_a_lost_site_and_a_replica_that_lags(stage: Stage) -> None:
    stage.cluster.crash("c")
    found = stage.until("ReconveneSiteLost", 'site="c"', only=["ReconveneDown", "ReconveneSiteLost"])
    assert ['instance="c"' in labels for labels in found["ReconveneDown"]] == [True]
    stage.append("a", 1_500)
    found = stage.until("ReconveneReplicaLags", 'replica="c"')
    assert len(found["ReconveneReplicaLags"]) == 1
    stage.cluster.restart("c")


def test_a_minority(stage: Stage) -> None:
    stage.cluster.partition([["a"], ["b", "c"]])
    stage.cluster.wait_for(timeout_s=PATIENCE_S)
    found = stage.until("ReconveneMinority", 'instance="a"', only=["ReconveneSiteLost", "ReconveneMinority"])
    assert len(found["ReconveneMinority"]) == 1
    assert ['site="a"' in labels for labels in found["ReconveneSiteLost"]] == [True, True], "b and c lack it"


def test_no_majority_anywhere(stage: Stage) -> None:
    stage.cluster.partition([["a"], ["b"], ["c"]])
    stage.cluster.wait_for(timeout_s=PATIENCE_S)
    all_of_them = ["ReconveneMinority", "ReconveneNoMajority", "ReconveneNothingIsOrdered"]
    found = stage.until("ReconveneNoMajority", 'cluster="c-', only=all_of_them)
    assert len(found["ReconveneMinority"]) == 3


def test_strangers(stage: Stage) -> None:
    ports = stage.cluster.choices.sites["a"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for _ in range(STRANGERS):
            stranger.sendto(b"hello", ("127.0.0.1", ports.datagrams))
    stage.until("ReconveneStrangers", 'reason="malformed"', only=["ReconveneStrangers"])
    wrong = add_client_key(stage.directory / "others", "ops", "append")

    async def knock() -> None:
        for _ in range(STRANGERS):
            with suppress(ReconveneError):
                async with reconvene.connect(f"tcp://{stage.tcp('b')}", tls=stage.authority.file, key=wrong):
                    pass

    asyncio.run(knock())
    found = stage.until("ReconveneClientsRefused", 'reason="key"')
    assert ['instance="b"' in labels for labels in found["ReconveneClientsRefused"]] == [True]
    port = ports.http
    for _ in range(STRANGERS):
        request = urllib.request.Request(f"http://127.0.0.1:{port}/status", headers={"Host": "evil.example"})
        with suppress(urllib.error.HTTPError):
            urllib.request.urlopen(request, timeout=5).close()
    found = stage.until("ReconveneHttpRefused", 'reason="403"')
    assert ['instance="a"' in labels for labels in found["ReconveneHttpRefused"]] == [True]


def test_a_disk_that_refuses(stage: Stage) -> None:
    pid = stage.cluster.pids["b"]
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (4_096, before[1]))
    try:
        stage.append("a", 1)
        found = stage.until("ReconveneStorageRefuses", 'instance="b"')
        assert len(found["ReconveneStorageRefuses"]) == 1
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def test_a_slow_disk(stage: Stage) -> None:
    with _slow_syncs(stage.cluster.pids["c"]):
        began = stage.scrape()
        give_up_at = time.monotonic() + PATIENCE_S
        while "ReconveneDiskSlow" not in (found := stage.rings(began)):
            assert time.monotonic() < give_up_at, f"does not ring, but {found}"
            stage.append("a", 1)
        assert ['instance="c"' in labels for labels in found["ReconveneDiskSlow"]] == [True]


@contextmanager
def _slow_syncs(pid: int) -> Iterator[None]:
    """Each sync of the process takes longer by SLOW_MS."""
    if shutil.which("strace") is None:
        pytest.skip("no strace here")
    late = ["-e", "trace=fdatasync", "-e", f"inject=fdatasync:delay_exit={SLOW_MS * 1000}"]
    slows = subprocess.Popen(
        ["strace", "-f", *late, "-o", "/dev/null", "-p", str(pid)], stderr=subprocess.PIPE, text=True
    )
    try:
        assert slows.stderr is not None
        if "attached" not in slows.stderr.readline():
            pytest.skip("strace may not trace here")
        yield
    finally:
        slows.terminate()
        slows.communicate()


def test_clocks_apart(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(CLOCK)
    stage.cluster.crash("c")
    with monkeypatch.context() as patched:
        patched.setenv("PYTHONPATH", str(tmp_path))
        stage.cluster.restart("c")
    try:
        stage.until("ReconveneClocksApart", 'cluster="c-', only=["ReconveneClocksApart"])
    finally:
        stage.cluster.crash("c")
        stage.cluster.restart("c")


def test_a_certificate_that_ends_soon(stage: Stage) -> None:
    certificate(stage.directory, stage.authority, "site", hours=24 * 10)
    assert stage.rings() == {}, "it is not in use yet"
    os.kill(stage.cluster.pids["b"], signal.SIGHUP)
    found = stage.until("ReconveneCertificateEnds", 'instance="b"', only=["ReconveneCertificateEnds"])
    assert ['key="clients.tls.certificate"' in labels for labels in found["ReconveneCertificateEnds"]] == [True]
    certificate(stage.directory, stage.authority, "site", hours=24 * 90)
    os.kill(stage.cluster.pids["b"], signal.SIGHUP)


def test_a_store_that_is_nearly_full(stage: Stage) -> None:
    """The last one: what is stored stays."""
    stage.append("a", 56, size=250_000, at_once=4)
    stage.until("ReconveneStoreNearlyFull", 'instance="a"', only=["ReconveneStoreNearlyFull"])


def test_a_disk_that_is_nearly_full_and_then_full(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=8m", "none") as disk:
        http, file = free_port(), tmp_path / "a.toml"
        file.write_text(
            f'cluster = "shop"\nname = "a"\ndir = "{disk}/a"\n[sites]\na = "127.0.0.1:{free_port()}"\n'
            f'[seal]\ninsecure = true\n[http]\naddress = "127.0.0.1:{http}"\n[log]\nbegin = true\n'
        )
        site = spawn(["node", "--config", str(file)], tmp_path / "a.log")
        try:
            addresses = {"a": f"http://127.0.0.1:{http}/"}
            quiet = _until(lambda: Scrape(addresses), lambda scrape: _is_primary(scrape))
            filler = fill(disk, but=600_000)
            now = Scrape(addresses)
            assert list(ringing(tmp_path, as_series(quiet, now, now), AT)) == ["ReconveneDiskNearlyFull"]
            filler.unlink()
            fill(disk)
            asyncio.run(_append_in_vain(disk / "a" / "site.sock"))

            def rings() -> list[str]:
                now = Scrape(addresses)
                return list(ringing(tmp_path, as_series(quiet, now, now), AT))

            _until(rings, lambda found: {"ReconveneStorageRefuses", "ReconveneDiskNearlyFull"} <= set(found))
        finally:
            kill_all([site])


def _is_primary(scrape: Scrape) -> bool:
    return scrape.found.get("a", {}).get(("reconvene_health", (("health", "primary"),))) == 1


def _until(look: Callable[[], T], holds: Callable[[T], bool]) -> T:
    give_up_at = time.monotonic() + PATIENCE_S
    while not holds(found := look()):
        assert time.monotonic() < give_up_at, found
        time.sleep(0.1)
    return found


async def _append_in_vain(address: Path) -> None:
    async with reconvene.connect(str(address)) as here:
        with suppress(ReconveneError, TimeoutError):
            async with asyncio.timeout(2):
                await here.log.append(bytes(100_000))
