"""reconvene node: a real process, its signals, and every reason why it can't start."""

import asyncio
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.client.places import authority, certificate, short_dir
from tests.ports import free_port
from tests.storage.injected import injecting

import reconvene
import reconvene.blocking
from reconvene.cli import main
from reconvene.runtime.access.key_files import add_client_key, write_cluster_key
from reconvene.runtime.http.metrics import COUNTERS
from reconvene.storage import lmdb_store
from reconvene.storage.lmdb_store import LmdbStore

PATIENCE_S = 60.0
LIMIT_S = 5 * PATIENCE_S
"""The time limit of a whole test with sites, whatever it waits for."""


class Site:
    """One site's file, and the process that runs it."""

    def __init__(self, directory: Path, name: str, sites: dict[str, int], more: str = "") -> None:
        self.directory = directory
        self.file = directory / f"{name}.toml"
        self.log = directory / f"{name}.log"
        self.printed = directory / f"{name}.out"
        self.http = free_port()
        listed = "\n".join(f'{site} = "127.0.0.1:{port}"' for site, port in sites.items())
        text = f'cluster = "shop"\nname = "{name}"\ndir = "{name}"\n[sites]\n{listed}\n'
        text += f'[http]\naddress = "127.0.0.1:{self.http}"\n[trace]\ndir = "trace"\n'
        text += "" if "[log]" in more else "[log]\nbegin = true\n"
        self.file.write_text(text + (more if "[seal]" in more else f"[seal]\ninsecure = true\n{more}"))
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *under: str, **environment: str) -> None:
        """`under`: a command that runs the site."""
        self.run([*under, sys.executable, "-m", "reconvene", "node", "--config", str(self.file)], **environment)

    def run(self, program: list[str], **environment: str) -> None:
        """Runs in its own process group: `kill` also ends what `program` started."""
        with self.log.open("ab") as log, self.printed.open("ab") as out:
            self.process = subprocess.Popen(
                program, stdout=out, stderr=log, env={**os.environ, **environment}, start_new_session=True
            )

    def kill(self) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    @property
    def running(self) -> "subprocess.Popen[bytes]":
        assert self.process is not None
        return self.process

    def says(self, text: str) -> bool:
        return text in self.log.read_text()

    def until(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while not holds():
            assert self.running.poll() is None, f"it ended before: {what}: {self.log.read_text()}"
            assert time.monotonic() < end, f"in vain: {what}: {self.log.read_text()}"
            time.sleep(0.02)

    def until_says(self, text: str) -> None:
        self.until(lambda: self.says(text), text)

    def ready(self) -> None:
        self.until_says(" site ready ")

    def ends(self) -> int:
        return self.running.wait(PATIENCE_S)

    def stop(self) -> int:
        self.running.send_signal(signal.SIGTERM)
        return self.ends()

    def get(self, path: str) -> tuple[int, bytes]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http}{path}", timeout=PATIENCE_S) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self.get("/status")[1])
        return status

    def until_in(self, members: list[str], health: str) -> None:
        def holds() -> bool:
            status = self.status()
            return (status["members"], status["health"]) == (members, health)

        self.until(holds, f"{health} with {members}")

    def health(self) -> str:
        return str(json.loads(self.get("/health")[1])["health"])


@pytest.fixture(autouse=True)
def untouched() -> Iterator[None]:
    """A site in the foreground sets up logging for its process, which is the process of all tests here."""
    root = logging.getLogger("reconvene")
    handlers, level, propagate = list(root.handlers), root.level, root.propagate
    yield
    root.handlers[:], root.propagate = handlers, propagate
    root.setLevel(level)


Make = Callable[..., Site]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Site] = []

    def one(name: str = "a", sites: dict[str, int] | None = None, more: str = "") -> Site:
        made.append(Site(tmp_path, name, sites or {name: free_port()}, more))
        return made[-1]

    def too_long(*_: object) -> None:
        logs = [site.log.read_text() for site in made if site.log.exists()]
        pytest.fail(f"it did not end within {LIMIT_S:g} s: {''.join(logs)}")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        yield one
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        for site in made:
            site.kill()


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as exit_:
        main([str(argument) for argument in arguments])
    assert isinstance(exit_.value.code, int)
    return exit_.value.code


def refusal(capsys: pytest.CaptureFixture[str], site: Site) -> str:
    """The one line that it prints when it can't start."""
    assert call("node", "--config", site.file) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    *logged, line = captured.err.splitlines()
    assert not [text for text in logged if "Traceback" in text]
    assert line.startswith("reconvene: ")
    return line.removeprefix("reconvene: ")


# -- a site that runs


def test_a_life(make: Make, tmp_path: Path) -> None:
    site = make()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(str(tmp_path / "notify"))
        notified.settimeout(PATIENCE_S)
        site.start(NOTIFY_SOCKET=str(tmp_path / "notify"))
        assert notified.recv(100) == b"READY=1"
        site.ready()
        assert (tmp_path / "a" / "site.sock").is_socket()
        site.until(lambda: site.health() == "primary", "primary")
        assert site.get("/health?require=primary")[0] == 200
        assert b"reconvene_configuration_members 1.0" in site.get("/metrics")[1]
        status = site.status()
        assert (status["name"], status["incarnation"], status["pid"]) == ("a", 1, site.running.pid)
        assert site.stop() == 0
        assert notified.recv(100) == b"STOPPING=1"
    assert site.printed.read_text() == ""
    assert site.says("site leaves signal=SIGTERM")
    assert not (tmp_path / "a" / "site.sock").exists()
    rows = [json.loads(line) for line in (tmp_path / "trace" / "a.jsonl").read_text().splitlines()]
    assert rows[-1]["kind"] == "stop"

    site.start()  # again, after a clean stop
    site.until(lambda: site.log.read_text().count(" site ready ") == 2, "ready again")
    assert site.status()["incarnation"] == 2
    site.running.send_signal(signal.SIGINT)
    assert site.ends() == 0


@pytest.mark.long("starts three sites; tests/cli/test_operations.py has a cluster from up to down")
def test_three_sites_meet_and_one_leaves(make: Make) -> None:
    ports = {name: free_port() for name in "abc"}
    sites = [make(name, ports) for name in "abc"]
    for site in sites:
        site.start()
    for site in sites:
        site.ready()
        site.until_in(["a", "b", "c"], "primary")
    assert sites[2].stop() == 0
    for site in sites[:2]:
        site.until_in(["a", "b"], "primary")
    sites[1].running.kill()
    sites[0].until_in(["a"], "minority")
    assert sites[0].get("/health")[0] == 200
    assert sites[0].get("/health?require=primary")[0] == 503
    assert sites[0].stop() == 0


def test_every_counter_of_a_real_site_has_its_words(make: Make) -> None:
    site = make()
    site.start()
    site.ready()
    counters = site.status()["counters"]
    assert not [name for name in counters if name not in COUNTERS and not name.startswith("dropped_")]
    assert not [name for name in COUNTERS if f"reconvene_{name}_total " not in site.get("/metrics")[1].decode()]


def test_the_second_signal_ends_it_at_once(make: Make) -> None:
    site = make()
    site.start()
    site.ready()
    site.running.send_signal(signal.SIGSTOP)  # so that both exist before either is checked
    site.running.send_signal(signal.SIGINT)
    site.running.send_signal(signal.SIGTERM)
    site.running.send_signal(signal.SIGCONT)
    assert site.ends() in (128 + signal.SIGTERM, 128 + signal.SIGINT)
    assert site.says("ends at once")


def test_sighup_reads_key_files_again(make: Make, tmp_path: Path) -> None:
    old = write_cluster_key(tmp_path / "cluster.key")
    clients = tmp_path / "clients.toml"
    add_client_key(clients, "ops", "read")
    site = make(more='[seal]\nkeys = ["cluster.key"]\n[clients]\nkeys = "clients.toml"\ntcp = "127.0.0.1:0"\n')
    site.start()
    site.ready()
    new = write_cluster_key(tmp_path / "cluster.key", force=True)
    site.running.send_signal(signal.SIGHUP)
    site.until_says(f"seals={new.id.hex()}")
    assert old.id != new.id
    next_ = write_cluster_key(tmp_path / "next.key")
    text = site.file.read_text()
    site.file.write_text(text.replace('["cluster.key"]', '["next.key", "cluster.key"]'))
    site.running.send_signal(signal.SIGHUP)
    site.until_says(f"seals={next_.id.hex()} opens={next_.id.hex()},{new.id.hex()}")
    assert not site.says("needs a restart")
    site.file.write_text(text + "[faults]\nallowed = true\n")
    site.running.send_signal(signal.SIGHUP)
    site.until_says("needs a restart")
    site.file.write_text("nonsense")
    site.running.send_signal(signal.SIGHUP)
    site.until_says("a.toml: expected a configuration file in TOML")
    site.file.write_text(text)
    (tmp_path / "cluster.key").write_text("nonsense")
    site.running.send_signal(signal.SIGHUP)
    site.until_says("cluster.key:1: expected 32 bytes of base64")
    clients.write_text("nonsense")
    site.running.send_signal(signal.SIGHUP)
    site.until_says("clients.toml")
    assert site.health() == "primary"
    (told,) = [line for line in site.log.read_text().splitlines() if "reloaded" in line][-1:]
    assert told.split(" ", 1)[1] == "info audit reloaded by=SIGHUP read=nothing kept_as_before=seal.keys,clients.keys"
    assert site.stop() == 0


def test_sighup_reads_certificates_again(make: Make, tmp_path: Path) -> None:
    old, new = authority(tmp_path, "old"), authority(tmp_path, "new")
    certificate(tmp_path, old, "site")
    files = 'certificate = "site.pem"\nkey = "site.key"\n'
    more = '[seal]\ninsecure = true\n[clients]\ntcp = "127.0.0.1:0"\n[clients.tls]\n' + files
    site = make(more=more)
    site.start()
    site.ready()
    assert site.says("clients.tls.certificate: ends in 0.0 days: replace it, and send SIGHUP")
    tcp = re.findall(r"ready .* tcp=(\S+)", site.log.read_text())[0]

    async def story() -> None:
        async with reconvene.connect(f"tcp://{tcp}", tls=old.file) as before:
            certificate(tmp_path, new, "site", hours=24 * 90)
            site.running.send_signal(signal.SIGHUP)
            await asyncio.to_thread(site.until_says, "audit reloaded by=SIGHUP read=clients.tls")
            assert await before.health() == "primary", "its connection has stayed"
            async with reconvene.connect(f"tcp://{tcp}", tls=new.file):
                pass

    asyncio.run(story())
    (tmp_path / "site.pem").write_text("nonsense")
    site.running.send_signal(signal.SIGHUP)
    site.until_says("audit reloaded by=SIGHUP read=nothing kept_as_before=clients.tls")
    assert site.says('error site "not read again" what=clients.tls why="tls: ')
    assert site.stop() == 0


def test_check_warns_of_certificates_and_open_keys(
    make: Make, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ours = authority(tmp_path, "ours")
    certificate(tmp_path, ours, "site", hours=-48)
    (tmp_path / "site.key").chmod(0o640)
    files = 'certificate = "site.pem"\nkey = "site.key"\nclient_ca = "ours.pem"\n'
    site = make(more='[seal]\ninsecure = true\n[clients]\ntcp = "127.0.0.1:0"\n[clients.tls]\n' + files)
    assert call("node", "--config", site.file, "--check") == 0
    text = capsys.readouterr().out
    assert "warning: clients.tls.certificate: ended 2.0 days ago: nobody who checks it connects any more" in text
    assert "warning: clients.tls.client_ca: ends in 0.0 days" in text
    assert f"warning: clients.tls.key: other users may read this private key: chmod 600 {tmp_path}/site.key" in text
    certificate(tmp_path, ours, "site", hours=24 * 15)
    (tmp_path / "site.key").chmod(0o600)
    assert call("node", "--config", site.file, "--check") == 0
    text = capsys.readouterr().out
    assert "clients.tls.certificate" not in text
    assert "private key" not in text
    (tmp_path / "site.pem").write_text("nonsense")
    assert call("node", "--config", site.file, "--check") == 2


def test_what_kills_the_engine_ends_the_process(make: Make, tmp_path: Path) -> None:
    site = make()
    program = (
        "from reconvene.stack.stack import Stack\n"
        "from reconvene.cli import main\n"
        "def broken(*_): raise RuntimeError('planted')\n"
        "Stack.tick = broken\n"
        f"main(['node', '--config', {str(site.file)!r}])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 1
    assert "site fault " in done.stderr
    assert "planted" in done.stderr


WATCH_IMPORTS = """
import atexit, sys
from reconvene.cli import main
from reconvene.runtime.site.engine import SiteEngine

start = SiteEngine.start
def watched(engine):
    known = set(sys.modules)
    atexit.register(lambda: print(*sorted(set(sys.modules) - known), file=open(sys.argv[1], "w")))
    return start(engine)
SiteEngine.start = watched
main(["node", "--config", sys.argv[2]])
"""


def test_a_site_that_runs_imports_nothing_large(make: Make, tmp_path: Path) -> None:
    """The site would be blocked meanwhile."""
    with short_dir() as directory:
        site = make(more=f'[clients]\nunix = "{directory}/sock"\ntcp = "127.0.0.1:0"\n[log]\nbegin = true\n')
        site.run([sys.executable, "-c", WATCH_IMPORTS, str(tmp_path / "imported"), str(site.file)])
        site.ready()
        for path in ("/health", "/metrics", "/status", "/", "/nowhere"):
            site.get(path)
        with reconvene.blocking.connect(f"unix:{directory}/sock") as client:
            client.log.append(b"one").ordered(timeout=PATIENCE_S)
            assert client.log.read(0, 1)
        assert site.stop() == 0
        assert (tmp_path / "imported").read_text().split() == []


@pytest.mark.long("starts a site whose disk fails")
def test_a_meta_page_that_can_t_be_written_costs_a_moment(make: Make, tmp_path: Path) -> None:
    """All appends are acknowledged in the end, and the messages are there after a restart."""
    with short_dir() as directory:
        site = make(more=f'[clients]\nunix = "{directory}/sock"\n[log]\nbegin = true\n')
        data = tmp_path / "a" / "store" / "data.mdb"
        # One of these writes is a meta page, the others are ordinary pages: the site must survive all of them.
        site.start(*injecting("pwrite64", "EIO", "30..34", data))
        site.ready()
        with reconvene.blocking.connect(f"unix:{directory}/sock") as client:
            number, give_up_at = 0, time.monotonic() + PATIENCE_S
            while number < 20:
                assert time.monotonic() < give_up_at, site.log.read_text()
                try:
                    client.log.append(b"%d" % number, timeout=PATIENCE_S).ordered(timeout=PATIENCE_S)
                except reconvene.Unavailable:  # refused, and nothing has changed
                    time.sleep(0.02)
                else:
                    number += 1
        assert site.says("storage refuses")
        site.until(lambda: json.loads(site.get("/status")[1])["storage"] == "ok", "storage is ok again")
        os.kill(int(site.status()["pid"]), signal.SIGKILL)
        site.ends()
        site.start()
        site.until(lambda: site.log.read_text().count(" site ready ") == 2, "ready again")
        with reconvene.blocking.connect(f"unix:{directory}/sock") as client:
            # The green line is synced later than the messages: the last ones may have to be ordered again.
            site.until(lambda: len(list(client.log.read(0, 20))) == 20, "all are ordered again")
            found = [entry.data for entry in client.log.read(0, 20)]
        assert found == [b"%d" % number for number in range(20)]
        assert site.stop() == 0


def test_after_a_crash_all_of_storage_is_checked_once(make: Make, tmp_path: Path) -> None:
    site = make()
    site.start()
    site.ready()
    site.running.send_signal(signal.SIGABRT)  # as an assertion of a library does
    assert site.ends() == -signal.SIGABRT
    assert (tmp_path / "a" / "crash").stat().st_size > 0
    site.start()
    site.until_says("storage is checked as a whole")
    site.until(lambda: site.log.read_text().count(" site ready ") == 2, "ready again")
    assert (tmp_path / "a" / "crash").stat().st_size == 0
    assert site.stop() == 0


# -- one that can't start


def test_damaged_storage(make: Make, tmp_path: Path) -> None:
    site = make()
    site.start()
    site.ready()
    assert site.stop() == 0
    data = tmp_path / "a" / "store" / "data.mdb"
    data.write_bytes(data.read_bytes()[:8192] + bytes(data.stat().st_size - 8192))
    site.log.unlink()
    site.start()
    assert site.ends() == 2
    *logged, line = site.log.read_text().splitlines()
    assert all(re.match(r"\S+Z (info|warning) ", text) for text in logged)
    assert re.fullmatch(r"reconvene: .*data\.mdb: is damaged: page \d+ is not what it should be", line)


def test_a_datagram_port_in_use(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        line = refusal(capsys, make(sites={"a": port}))
    assert line.startswith(f"sites.a: 127.0.0.1:{port}: in use by another process")


def test_an_http_port_in_use(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    site = make()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", site.http))
        taken.listen()
        assert refusal(capsys, site) == f"http.address: 127.0.0.1:{site.http}: in use by another process"


def test_a_tcp_port_in_use(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = refusal(capsys, make(more=f'[clients]\ntcp = "127.0.0.1:{port}"\n'))
    assert line.startswith(f"clients.tcp: 127.0.0.1:{port}: ")
    assert "in use" in line


def test_an_address_of_another_machine(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    site = make()
    site.file.write_text(site.file.read_text().replace('a = "127.0.0.1', 'a = "192.0.2.1'))
    assert "not an address of this machine" in refusal(capsys, site)


def test_a_directory_in_use(make: Make, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    site = make()
    site.start()
    site.ready()
    assert refusal(capsys, site) == (
        f"dir: {tmp_path}/a: in use by site a of cluster shop, process {site.running.pid}"
    )


def test_a_directory_of_another_site(make: Make, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    site = make()
    site.start()
    site.ready()
    assert site.stop() == 0
    other = make("b")
    other.file.write_text(other.file.read_text().replace('dir = "b"', 'dir = "a"'))
    assert refusal(capsys, other) == (
        f"dir: {tmp_path}/a: holds site a of cluster shop; expected a directory of site b"
    )


@pytest.mark.parametrize("where", ["file", "file/below", "/proc/nowhere"])
def test_a_directory_that_can_t_be_written_to(
    make: Make, capsys: pytest.CaptureFixture[str], tmp_path: Path, where: str
) -> None:
    (tmp_path / "file").touch()
    site = make()
    site.file.write_text(site.file.read_text().replace('dir = "a"', f'dir = "{where}"'))
    assert f"dir: {tmp_path / where}: expected a directory to write to: " in refusal(capsys, site)


def test_storage_of_a_newer_program(
    make: Make, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make()
    with monkeypatch.context() as newer:
        newer.setattr(lmdb_store, "FORMAT", 99)
        LmdbStore(tmp_path / "a" / "store").close()
    assert "was written by a newer program" in refusal(capsys, site)


def test_a_bad_key_file(make: Make, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "cluster.key").write_text("nonsense")
    line = refusal(capsys, make(more='[seal]\nkeys = ["cluster.key"]\n'))
    assert line == f"{tmp_path}/cluster.key:1: expected 32 bytes of base64"


def no_directory(site: Site) -> str:
    (site.directory / "a").write_text("")
    return ""


def no_socket(site: Site) -> str:
    (site.directory / "sock").write_text("")
    return '[clients]\nunix = "sock"\n'


def two_keys(site: Site) -> str:
    for name in ("one", "two"):
        add_client_key(site.directory / "keys", name, "read")
    return '[dashboard]\nkey = "keys"\n'


def no_certificates(site: Site) -> str:
    (site.directory / "ca.pem").write_text("nonsense")
    return '[dashboard]\nca = "ca.pem"\n'


def no_client_keys(site: Site) -> str:
    (site.directory / "keys").write_text("nonsense")
    return '[clients]\nkeys = "keys"\n'


def test_the_real_time_class_is_refused_where_the_system_does_not_allow_it(
    make: Make, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pid: int, policy: int, param: os.sched_param) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    site = make(more="[scheduling]\nreal_time = 7\n")
    line = refusal(capsys, site)
    assert line == (
        "scheduling.real_time: 7: the system refuses the real-time class: Operation not permitted; expected "
        "CAP_SYS_NICE, or a limit of at least 7 (LimitRTPRIO= of systemd, ulimit -r)"
    )
    assert not (site.directory / "a" / "store").exists(), "nothing has been started"
    for command in (("node", "--check"), ("doctor",)):
        assert call(command[0], "--config", site.file, *command[1:]) in (1, 2)
        captured = capsys.readouterr()
        assert line in " ".join((captured.out + captured.err).split())


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (no_directory, r"^dir: .*/a: expected a directory"),
        (no_socket, r"^clients\.unix: .*/sock: exists and is not a socket"),
        (two_keys, r"^dashboard\.key: .*/keys: expected one client key, not 2$"),
        (no_certificates, r"^dashboard\.ca: .*/ca\.pem: expected certificates in PEM"),
        (no_client_keys, r"/keys: "),
    ],
)
def test_what_a_start_refuses_check_and_doctor_refuse_too(
    make: Make, capsys: pytest.CaptureFixture[str], damage: Callable[[Site], str], expected: str
) -> None:
    site = make()
    site.file.write_text(site.file.read_text() + damage(site))
    line = refusal(capsys, site)
    assert re.search(expected, line)
    assert not (site.directory / "a" / "store").exists(), "nothing has been started"
    assert call("node", "--config", site.file, "--check") == 2
    assert capsys.readouterr().err == f"reconvene: {line}\n"
    assert call("doctor", "--config", site.file) in (1, 2)
    captured = capsys.readouterr()
    assert line in " ".join((captured.out + captured.err).split())


def test_a_bad_file(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    site = make(more='[timing]\nsuspect_bass = "1s"\n')
    assert refusal(capsys, site) == f"{site.file}: timing.suspect_bass: unknown key; did you mean suspect_base?"


# -- --check


def test_check_for_people(make: Make, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    key = write_cluster_key(tmp_path / "cluster.key")
    add_client_key(tmp_path / "clients.toml", "ops", "read")
    ports = {name: free_port() for name in "abcd"}
    more = '[seal]\nkeys = ["cluster.key"]\n[clients]\ntcp = "127.0.0.1:0"\nkeys = "clients.toml"\n'
    site = make("b", ports, more + '[transport]\nreceive_buffer_bytes = "1GiB"\n')
    assert call("node", "--config", site.file, "--check") == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    text = captured.out
    assert text.startswith(f"{site.file}: good\n")
    for words in (
        "b of cluster shop, number 2 of 4",
        "3 of 4 sites are a primary component",
        f"key {key.id.hex()} seals",
        f"127.0.0.1:{ports['b']}",
        "site.sock (mode 600)",
        "127.0.0.1:0 (keys)",
        "1 read",
        "after 640ms of silence",
        "at most 670ms after a crash",
        "new configuration in about 640ms",
        "common configuration in about 100ms",
        "MTU 65536 to a c d" if "65536" in text else "MTU 65535 to a c d",
        "granted of 1GiB asked",
        "under way in the whole configuration",
        "up to 48MiB to be sent",
        "if new, at a b c d; 3 of them order it; up to 64GiB on disk",
        "/trace, up to 1GiB",
        "warning: transport.receive_buffer_bytes: the system grants",
        "warning: sites: 4 sites tolerate no more failures than 3 would",
    ):
        assert words in text, words
    assert not (tmp_path / "b").exists()  # it only checked


def test_check_for_programs(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    site = make(sites={"a": 7001, "b": 7002}, more='[timing]\nsuspect_base = "1s"\n[faults]\nallowed = true\n')
    assert call("node", "--config", site.file, "--check", "--json") == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    told = json.loads(captured.out)
    assert told["ok"] is True
    assert told["sites"] == {"a": "127.0.0.1:7001", "b": "127.0.0.1:7002"}
    assert told["quorum"] == 2
    assert told["log"] == {"replicas": ["a", "b"], "quorum": {"kind": "majority"}, "max_bytes": 64 << 30}
    assert told["seal"] is None
    assert told["suspicion_ns"] == 1_020_000_000
    assert told["detection_ns"] == 1_050_000_000
    assert told["frame_bytes"] == 60_000
    assert told["window_bytes"] == told["receive_buffer_bytes"][1] * 2 * 9 // 10
    assert len(told["warnings"]) >= 3  # insecure, two sites, faults


@pytest.mark.parametrize(
    ("log", "words", "warning"),
    [
        ("enabled = false", "none: not enabled", None),
        ('replicas = ["c"]', "if new, at c; 1 of them order it", None),
        (
            'quorum = { kind = "weighted", weights = { a = 3, b = 1, c = 1 } }',
            "if new, at a b c; more than half of the weight orders it: a 3, b 1, c 1; ",
            "nothing is ordered while a is down",
        ),
        (
            'quorum = { kind = "grid", rows = [["a"], ["b", "c"]] }',
            "if new, at a b c; all of one row, with one of each, order it: a, b c; ",
            "nothing is ordered while a is down",
        ),
        ('replicas = ["c", "b"]', "if new, at b c; 2 of them order it", "nothing is ordered while b or c is down"),
    ],
)
def test_check_of_a_log(
    make: Make, capsys: pytest.CaptureFixture[str], log: str, words: str, warning: str | None
) -> None:
    site = make(sites={"a": 7001, "b": 7002, "c": 7003}, more=f"[log]\n{log}\n")
    assert call("node", "--config", site.file, "--check") == 0
    text = capsys.readouterr().out
    assert words in text
    assert ("warning: log.quorum: " in text) == (warning is not None)
    if warning is not None:
        assert f"warning: log.quorum: {warning}\n" in text


@pytest.mark.parametrize("arguments", [("--check",), ("--check", "--json"), ()])
def test_check_of_a_bad_file(make: Make, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    site = make(more="[logging]\nlevel = 3\n")
    assert call("node", "--config", site.file, *arguments) == 2
    captured = capsys.readouterr()
    assert captured.err == (
        f"reconvene: {site.file}: logging.level: expected one of debug, info, warning, error, not 3\n"
    )
    if "--json" in arguments:
        assert list(json.loads(captured.out)) == ["error"]


def test_check_of_bad_keys(make: Make, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "clients.toml").write_text('ops = { key = "x", role = "king" }')
    site = make(more='[http.tls]\ncertificate = "clients.toml"\nkey = "clients.toml"\n')
    assert call("node", "--config", site.file, "--check") == 2
    assert capsys.readouterr().err.startswith("reconvene: tls: ")
    site = make("b", more='[clients]\nkeys = "clients.toml"\n')
    assert call("node", "--config", site.file, "--check") == 2
    assert "ops.role: expected one of read, append, admin" in capsys.readouterr().err


def test_check_of_a_host_that_is_nowhere(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    site = make(sites={"a": 7001, "b": 7002})
    site.file.write_text(site.file.read_text().replace('b = "127.0.0.1', 'b = "nowhere.invalid'))
    assert call("node", "--config", site.file, "--check") == 0
    assert "warning: sites.b: nowhere.invalid: " in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["--config"], ["--config", "x.toml", "y.toml"], ["--check"]])
def test_bad_usage(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert call("node", *arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_json_goes_with_check(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("node", "--config", make().file, "--json") == 2
    assert capsys.readouterr().err == "reconvene: --json: expected --check with it\n"


@pytest.mark.parametrize(
    ("follow", "said"),
    [
        ("follow = ['nonsense']", "a.toml: log.follow: address '"),
        ("follow = ['b:99999']", "a.toml: log.follow: address '"),
        ("follow = ['DIR/a/site.sock']", "is this site itself"),
        ("follow = ['unix:DIR/a/../a/site.sock']", "is this site itself"),
        ("follow = ['localhost:7401']\n[clients]\ntcp = '127.0.0.1:7401'", "is this site itself"),
        ("follow = ['b:7401']\nfollow_key = 'none'", "log.follow_key: "),
        ("follow = ['b:7401']\nfollow_key = 'a.toml'", "log.follow_key: "),
        ("follow = 'b:7401'", "log.follow: expected a list"),
        ("follow = ['b:7401', 'b:7401']", "named twice"),
        ("follow_key = 'a.toml'", "expected log.follow with it"),
    ],
)
def test_check_of_a_bad_follower(
    make: Make, capsys: pytest.CaptureFixture[str], tmp_path: Path, follow: str, said: str
) -> None:
    site = make(more=f"[log]\n{follow.replace('DIR', str(tmp_path))}\n")
    for more in (("--check",), ()):
        assert call("node", "--config", site.file, *more) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        (line,) = printed.err.splitlines()
        assert said in line, line


def test_check_of_a_follower(make: Make, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    add_client_key(tmp_path / "reader.key", "reader", "read")
    site = make(more=f"[log]\nfollow = ['b:7401', '/run/c.sock']\nfollow_key = '{tmp_path / 'reader.key'}'\n")
    assert call("node", "--config", site.file, "--check") == 0
    assert "follows b:7401, /run/c.sock\n" in capsys.readouterr().out
