"""A site's configuration, and every error in it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconvene.errors import Malformed
from reconvene.runtime.config.check import check, is_loopback
from reconvene.runtime.config.file import load
from reconvene.runtime.config.settings import (
    Clients,
    Config,
    FaultSettings,
    Http,
    IsisSettings,
    Limits,
    Logging,
    LogSettings,
    Order,
    Seal,
    Timing,
    Tls,
    TransportSettings,
)

GOOD = """
cluster = "shop"
name = "a"
dir = "data"

[sites]
a = "127.0.0.1:7001"
b = "127.0.0.1:7002"
c = "127.0.0.1:7003"

[seal]
insecure = true
"""

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to_file(text: str) -> Path:
        path = tmp_path / "site.toml"
        path.write_text(text)
        return path

    return to_file


def refusal(path: Path) -> str:
    """The error's one line, without the file's name."""
    with pytest.raises(Malformed) as caught:
        load(path)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"{path}: ")
    return text.removeprefix(f"{path}: ")


def test_a_small_file(write: Write, tmp_path: Path) -> None:
    config = load(write(GOOD))
    assert config.cluster == "shop"
    assert config.sites == {"a": ("127.0.0.1", 7001), "b": ("127.0.0.1", 7002), "c": ("127.0.0.1", 7003)}
    assert config.names == ("a", "b", "c")
    assert config.names[0] == config.name
    assert config.dir == tmp_path / "data"
    assert config.unix_socket == tmp_path / "data" / "site.sock"
    assert config == Config(
        cluster="shop", name="a", dir=tmp_path / "data", sites=config.sites, seal=Seal(insecure=True)
    )


def test_every_kind_of_value(write: Write, tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    for name in ("one", "two", "clients.toml", "cert", "key", "ca"):
        (tmp_path / "keys" / name).touch()
    config = load(
        write("""
cluster = "shop"
name = "ship-2"
dir = "/var/lib/x"
sites = { "ship-2" = "10.0.0.2:7000", "ship-1" = "host.example:7000" }
[seal]
keys = ["keys/one", "keys/two"]
[transport]
kind = "multicast"
group = "239.1.2.3:7000"
ttl = 3
frame_bytes = 8900
receive_buffer_bytes = "1.5MiB"
send_buffer_bytes = 100000
turn_datagrams = 10
[order]
engine = "all-ack"
[timing]
beacon_every = "50ms"
suspect_base = "0.2s"
suspect_per_site = "0s"
[limits]
message_bytes = "1MiB"
queue_messages = 5
[clients]
unix = "/run/x.sock"
unix_mode = 0o660
tcp = "[::]:7100"
keys = "keys/clients.toml"
handshake = "1s"
[clients.tls]
certificate = "keys/cert"
key = "keys/key"
client_ca = "keys/ca"
[http]
address = "localhost:0"
[trace]
dir = "trace"
max_bytes = "1GB"
[log]
enabled = false
replicas = ["ship-2", "ship-1"]
quorum = { kind = "weighted", weights = { ship-1 = 1, ship-2 = 2 } }
max_bytes = "4GiB"
red_messages = 10
red_bytes = "100MiB"
batch_bytes = "8KiB"
retain_bytes = "1GiB"
retain_age = "1d"
staged_age = "2w"
snapshot_bytes = "64MiB"
sessions = 100
[logging]
level = "debug"
format = "json"
[faults]
allowed = true
blocked = ["ship-1"]
""")
    )
    assert config.sites["ship-1"] == ("host.example", 7000)
    assert config.seal.keys == (tmp_path / "keys/one", tmp_path / "keys/two")
    assert config.transport == TransportSettings(
        kind="multicast", group=("239.1.2.3", 7000), ttl=3, frame_bytes=8900, receive_buffer_bytes=1_572_864,
        send_buffer_bytes=100_000, turn_datagrams=10,
    )  # fmt: skip
    assert config.order == Order(engine="all-ack")
    assert config.timing == Timing(beacon_every_ns=50_000_000, suspect_base_ns=200_000_000, suspect_per_site_ns=0)
    assert config.limits == Limits(message_bytes=1 << 20, queue_messages=5)
    assert config.clients == Clients(
        unix=Path("/run/x.sock"), unix_mode=0o660, tcp=("::", 7100), keys=tmp_path / "keys/clients.toml",
        handshake_ns=10**9,
        tls=Tls(
            certificate=tmp_path / "keys/cert", key=tmp_path / "keys/key", client_ca=tmp_path / "keys/ca"
        ),
    )  # fmt: skip
    assert config.http == Http(address=("localhost", 0))
    assert config.trace.dir == tmp_path / "trace"
    assert config.trace.max_bytes == 10**9
    assert config.log == LogSettings(
        enabled=False, replicas=("ship-2", "ship-1"), max_bytes=4 << 30, red_messages=10, red_bytes=100 << 20,
        quorum={"kind": "weighted", "weights": {"ship-1": 1, "ship-2": 2}}, batch_bytes=8 << 10,
        retain_bytes=1 << 30, retain_age_ns=86_400 * 10**9, staged_age_ns=14 * 86_400 * 10**9,
        snapshot_bytes=64 << 20, sessions=100,
    )  # fmt: skip
    assert config.replicas == ("ship-1", "ship-2")
    assert config.logging == Logging(level="debug", format="json")
    assert config.faults == FaultSettings(allowed=True, blocked=("ship-1",))
    assert config.names[1] == config.name


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        # the top
        ('cluster = "shop"', "", "cluster: missing; expected a string"),
        ('cluster = "shop"', "cluster = 7", "cluster: expected a string, not 7"),
        ('cluster = "shop"', 'cluster = "my shop"', "cluster: expected a name of up to 64 letters"),
        ('cluster = "shop"', 'clustre = "shop"', "clustre: unknown key; did you mean cluster?"),
        (
            'cluster = "shop"',
            'cluster = "shop"\nnonsense = 1',
            "nonsense: unknown key; expected one of cluster, name,",
        ),
        ('name = "a"', 'name = "d"', "name: expected one of [sites], not 'd': a, b, c"),
        ('name = "a"', 'name = "../a"', "name: expected a name of up to 64 letters"),
        ('dir = "data"', "", "dir: missing; expected a path"),
        ('dir = "data"', "dir = true", "dir: expected a path, not true"),
        ('dir = "data"', 'dir = ""', "dir: expected a path, not ''"),
        ('dir = "data"', 'dir = "a\\u0000b"', "dir: expected a path, not "),
        ('dir = "data"', f'dir = "{"x" * 120}"', "clients.unix: expected a path of at most 107 bytes"),
        # sites
        ("[sites]", "[nodes]", "nodes: unknown key; "),
        ('c = "127.0.0.1:7003"', 'c = "127.0.0.1"', "sites.c: expected an address such as"),
        ('c = "127.0.0.1:7003"', 'c = "127.0.0.1:70030"', "sites.c: expected an address such as"),
        ('c = "127.0.0.1:7003"', 'c = "127.0.0.1:0"', "sites.c: expected a port from 1 to 65535"),
        ('c = "127.0.0.1:7003"', "c = 7003", 'sites.c: expected an address such as "10.0.0.1:7000", not 7003'),
        (
            'c = "127.0.0.1:7003"',
            'c = "127.0.0.1:7001"',
            "sites.c: 127.0.0.1:7001 belongs to a already; expected another",
        ),
        ('c = "127.0.0.1:7003"', 'A = "127.0.0.1:7003"', "sites.A: differs from a only in case"),
        ('c = "127.0.0.1:7003"', 'c = "0.0.0.0:7003"', "sites.c: expected an address that other sites can send to"),
        ('c = "127.0.0.1:7003"', 'c = "224.0.0.1:7003"', "sites.c: expected an address that other sites can send to"),
        ('c = "127.0.0.1:7003"', '"c/d" = "127.0.0.1:7003"', "sites: expected a name of up to 64 letters"),
        ('c = "127.0.0.1:7003"', '".." = "127.0.0.1:7003"', "sites: expected a name of up to 64 letters"),
        ('c = "127.0.0.1:7003"', f'{"c" * 65} = "127.0.0.1:7003"', "sites: expected a name of up to 64 letters"),
        (
            'c = "127.0.0.1:7003"',
            "\n".join(f's{count} = "127.0.0.1:{8000 + count}"' for count in range(63)),
            "sites: expected 1 to 64 sites, not 65",
        ),
        # seal
        ("insecure = true", "", "seal.keys: missing; expected key files (reconvene keygen makes one), or insecure"),
        ("insecure = true", "insecure = 1", "seal.insecure: expected true or false, not 1"),
        ("insecure = true", 'keys = ["none"]', "seal.keys[0]: expected a key file: "),
        ("insecure = true", 'keys = "none"', "seal.keys: expected a list of paths, not 'none'"),
        ("insecure = true", "keys = [3]", "seal.keys[0]: expected a path, not 3"),
        ("insecure = true", 'insecure = true\nkeys = ["x"]', "seal: expected keys or insecure = true, not both"),
    ],
)
def test_a_mistake_at_the_top(write: Write, old: str, new: str, says: str) -> None:
    assert old in GOOD
    assert refusal(write(GOOD.replace(old, new))).startswith(says)


@pytest.mark.parametrize(
    ("table", "line", "says"),
    [
        ("transport", 'kind = "broadcast"', "transport.kind: expected one of unicast, multicast, not 'broadcast'"),
        ("transport", 'kind = "multicast"', "transport.group: missing; expected a multicast group"),
        ("transport", 'group = "239.1.2.3:7"', "transport.group: expected none, since kind is unicast"),
        ("transport", 'kind = "multicast"\ngroup = "10.1.2.3:7"', "transport.group: expected a multicast group such"),
        ("transport", 'kind = "multicast"\ngroup = "host:7"', "transport.group: expected a multicast group such"),
        (
            "transport",
            'kind = "multicast"\ngroup = "239.1.2.3:0"',
            "transport.group: expected a multicast group such",
        ),
        (
            "transport",
            'kind = "multicast"\ngroup = "[ff15::1]:7"',
            "transport.group: expected a multicast group such",
        ),
        ("transport", "ttl = 256", "transport.ttl: expected a whole number from 0 to 255, not 256"),
        ("transport", 'ttl = "1"', "transport.ttl: expected a whole number from 0 to 255, not '1'"),
        ("transport", "ttl = 1.5", "transport.ttl: expected a whole number from 0 to 255, not 1.5"),
        ("transport", "frame_bytes = 100", "transport.frame_bytes: expected 0 or 512 to 60000, not 100"),
        ("transport", "frame_bytes = 60001", "transport.frame_bytes: expected a size"),
        (
            "transport",
            'receive_buffer_bytes = "4MB!"',
            "transport.receive_buffer_bytes: expected a size such as 4MiB",
        ),
        ("transport", "receive_buffer_bytes = 1", "transport.receive_buffer_bytes: expected a size"),
        ("transport", "receive_buffer_bytes = 1.0", "transport.receive_buffer_bytes: expected a size"),
        (
            "transport",
            "turn_datagrams = 0",
            "transport.turn_datagrams: expected a whole number from 1 to 4096, not 0",
        ),
        ("order", 'engine = "paxos"', "order.engine: expected one of atop, all-ack, not 'paxos'"),
        ("order", 'policy = "declared"', "order.policy: expected one of book-keeper,"),
        ("timing", "suspect_base = 600", "timing.suspect_base: expected a duration such as"),
        ("timing", 'suspect_base = "600"', "timing.suspect_base: expected a duration such as 500ms"),
        ("timing", 'suspect_base = "-1s"', "timing.suspect_base: expected a duration that is not negative"),
        ("timing", 'suspect_base = "1us"', "timing.suspect_base: expected a duration such as"),
        ("timing", 'suspect_base = "11min"', "timing.suspect_base: expected a duration such as"),
        ("timing", 'suspect_base = "200ms"', "timing.suspect_base: expected at least 3 times beacon_every (300ms)"),
        ("timing", "suspect_base_ns = 600", "timing.suspect_base_ns: unknown key; did you mean suspect_base?"),
        ("timing", 'suspect_bass = "1s"', "timing.suspect_bass: unknown key; did you mean suspect_base?"),
        ("limits", "processes = 0", "limits.processes: expected a whole number from 1 to 1000000, not 0"),
        ("limits", "processes = true", "limits.processes: expected a whole number from 1 to 1000000, not true"),
        ("limits", f"processes = {10**60}", "limits.processes: expected a whole number from 1 to 1000000, not a num"),
        ("limits", 'inbox_bytes = "20MiB"', "limits.inbox_bytes: expected at least twice message_bytes (32MiB)"),
        ("clients", 'tcp = "0.0.0.0:7100"', "clients.tcp: 0.0.0.0:7100 is not loopback; expected clients.keys or"),
        ("clients", 'tcp = "myhost:7100"', "clients.tcp: myhost:7100 is not loopback; expected clients.keys or"),
        ("clients", 'keys = "none.toml"', "clients.keys: expected a file of client keys: "),
        ("clients", "unix_mode = 0o1777", "clients.unix_mode: expected a whole number from 0o0 to 0o777"),
        ("clients.tls", 'key = "x"', "clients.tls.certificate: missing; expected a path"),
        ("clients.tls", 'certificate = "x"\nkey = "x"', "clients.tls.certificate: expected a certificate: "),
        ("clients", 'tls = "x"', "clients.tls: expected a table, not 'x'"),
        (
            "http",
            'address = "10.0.0.1:8000"',
            "http.address: 10.0.0.1:8000 is not loopback; expected http.keys or",
        ),
        ("http", 'address = "8000"', "http.address: expected an address such as"),
        ("http", 'keys = "none.toml"', "http.keys: expected a file of client keys: "),
        ("trace", "max_bytes = 0", "trace.max_bytes: expected a size"),
        ("log", "enabled = 1", "log.enabled: expected true or false, not 1"),
        ("log", 'replicas = "a"', "log.replicas: expected a list of strings, not 'a'"),
        ("log", 'replicas = ["a", "x"]', "log.replicas: expected sites of [sites], not 'x'"),
        ("log", 'replicas = ["a", "b", "a"]', "log.replicas: a is named twice"),
        ("log", 'quorum = "majority"', 'log.quorum: expected a quorum such as { kind = "majority" }, not'),
        ("log", "quorum = {}", "log.quorum: expected a table with a kind, one of dynamic, grid, majority, weighted"),
        (
            "log",
            'quorum.kind = "dice"',
            "log.quorum: expected a kind that is one of dynamic, grid, majority, weighted, not 'd",
        ),
        ("log.quorum", 'kind = "majority"\nrows = []', "log.quorum: majority has no 'rows'; expected kind"),
        ("log.quorum", 'kind = "weighted"', "log.quorum: weights: expected a table of name = weight"),
        ("log.quorum", 'kind = "weighted"\nweights = { a = 1, b = 1 }', "log.quorum: weights: c missing"),
        (
            "log.quorum",
            'kind = "weighted"\nweights = { a = 0, b = 1, c = 1 }',
            "log.quorum: weights: 'a': expected a weight from 1 to 4294967295, not 0",
        ),
        ("log.quorum", 'kind = "grid"\nrows = [["a", "b"], ["b"]]', "log.quorum: rows: 'b' is named twice"),
        (
            "log.quorum",
            'kind = "dynamic"\nminimum = 4',
            "log.quorum: minimum: expected a number of replicas from 1 to 3, as many as there are, not 4",
        ),
        ("log.quorum", 'kind = "grid"\nrows = [["a"], ["d"]]', "log.quorum: rows: 'd' is none of the sites a, b, c"),
        ("log", "max_bytes = 4096", "log.max_bytes: expected a size such as"),
        (
            "log",
            'max_bytes = "1GiB"',
            "log.max_bytes: expected at least red_bytes and snapshot_bytes together (2GiB), not 1GiB",
        ),
        ("log", "red_messages = 0", "log.red_messages: expected a whole number from 1 to 10000000, not 0"),
        (
            "limits",
            'message_bytes = "64KiB"',
            "limits.message_bytes: expected at least 256KiB where the log is enabled, not 64KiB: the messages",
        ),
        ("log", 'red_bytes = "1MiB"', "log.red_bytes: expected at least limits.message_bytes (16MiB), not 1MiB"),
        ("log", "batch_bytes = 100", "log.batch_bytes: expected 0 or 512 to 16777216, not 100"),
        ("log", 'batch_bytes = "17MiB"', "log.batch_bytes: expected a size such as"),
        ("log", 'retain_bytes = "65GiB"', "log.retain_bytes: expected at most max_bytes (64GiB), not 65GiB"),
        ("log", 'retain_age = "367d"', "log.retain_age: expected a duration of a year at most"),
        ("log", "retain_age = 7", "log.retain_age: expected a duration such as"),
        ("log", 'snapshot_bytes = "1KiB"', "log.snapshot_bytes: expected a size such as"),
        ("log", "sessions = 0", "log.sessions: expected a whole number from 1 to 10000000, not 0"),
        ("log", "fsync = true", "log.fsync: unknown key; expected one of enabled, replicas, quorum, max_bytes,"),
        ("log", "retain_age_ns = 7", "log.retain_age_ns: unknown key; did you mean retain_age?"),
        ("log", 'level = "info"', "log.level: unknown key; level belongs under [logging]; [log] is the durable log"),
        ("logging", 'level = "loud"', "logging.level: expected one of debug, info, warning, error, not 'loud'"),
        ("logging", 'format = "xml"', "logging.format: expected one of text, json, not 'xml'"),
        ("faults", 'allowed = "yes"', "faults.allowed: expected true or false, not 'yes'"),
        ("faults", 'blocked = ["d"]', "faults.blocked: expected other sites of [sites], not 'd'"),
        ("faults", 'blocked = ["a"]', "faults.blocked: expected other sites of [sites], not 'a'"),
        ("faults", "blocked = [3]", "faults.blocked: expected a list of strings, not (3,)"),
        ("faults", 'blocked = "b"', "faults.blocked: expected a list of strings, not 'b'"),
    ],
)
def test_a_mistake_in_a_table(write: Write, table: str, line: str, says: str) -> None:
    assert refusal(write(f"{GOOD}\n[{table}]\n{line}\n")).startswith(says)


def test_multicast_among_ipv6_sites(write: Write) -> None:
    text = GOOD.replace("127.0.0.1:7003", "[::1]:7003") + '[transport]\nkind = "multicast"\ngroup = "239.1.2.3:7"'
    assert refusal(write(text)).startswith("sites.c: expected an IPv4 address")


def test_a_table_that_is_none(write: Write) -> None:
    assert refusal(write("timing = 5\n" + GOOD)) == "timing: expected a table, not 5"


def test_tls_alone_lets_nobody_in_beyond_loopback(write: Write, tmp_path: Path) -> None:
    for name in ("cert", "key", "ca"):
        (tmp_path / name).touch()
    tls = '[http]\naddress = "0.0.0.0:80"\n[http.tls]\ncertificate = "cert"\nkey = "key"\n'
    assert "is not loopback" in refusal(write(f"{GOOD}{tls}"))
    assert load(write(f'{GOOD}{tls}client_ca = "ca"')).http.tls is not None
    assert load(write(f'{GOOD}[http]\naddress = "0.0.0.0:80"\nkeys = "ca"')).http.tls is None


@pytest.mark.parametrize("text", ["a = ", "a = 1\na = 2", "[sites", "x = " + "[" * 5_000, "\x00"])
def test_no_toml(write: Write, text: str) -> None:
    assert refusal(write(text)).startswith("expected a configuration file in TOML: ")


def test_no_text(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_bytes(b"\xff\xfe")
    assert refusal(path).startswith("expected a configuration file in TOML: ")


def test_no_file(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.toml") == "expected a configuration file: No such file or directory"
    assert refusal(tmp_path) == "expected a configuration file: Is a directory"


def test_a_file_that_is_far_too_large(write: Write) -> None:
    assert refusal(write("#" * (2 << 20))) == "expected a configuration file of at most 1048576 bytes"


# -- the same for objects made in a program


@pytest.fixture
def good(write: Write) -> Config:
    return load(write(GOOD))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"cluster": None}, "Config: cluster: expected a string, not None"),
        ({"name": "z"}, "Config: name: expected one of [sites], not 'z': a, b, c"),
        ({"dir": "data"}, "Config: dir: expected a path, not 'data'"),
        ({"sites": {}}, "Config: sites: expected 1 to 64 sites, not 0"),
        ({"sites": {"a": "127.0.0.1:1"}}, 'Config: sites: expected a table of name = "host:port", not a table'),
        ({"sites": {"a": ("127.0.0.1", True)}}, 'Config: sites: expected a table of name = "host:port", not a table'),
        ({"seal": Seal()}, "Config: seal.keys: missing; expected key files"),
        ({"seal": None}, "Config: seal: expected a table, not None"),
        ({"timing": Timing(suspect_base_ns=1)}, "Config: timing.suspect_base: expected a duration"),
        ({"timing": Timing(suspect_base_ns=-1)}, "Config: timing.suspect_base: expected a duration"),
        ({"http": Http(address=("10.0.0.1", 80))}, "Config: http.address: 10.0.0.1:80 is not loopback"),
        ({"http": Http(address=("", 80))}, "Config: http.address: expected an address"),
        ({"http": Http(address=("::1", 80, 0, 0))}, "Config: http.address: expected an address"),  # type: ignore[arg-type]
        ({"logging": Logging(level="loud")}, "Config: logging.level: expected one of debug"),
        ({"log": LogSettings(replicas=("b", "z"))}, "Config: log.replicas: expected sites of [sites], not 'z'"),
        ({"log": LogSettings(replicas=["b"])}, "Config: log.replicas: expected a list of strings, not ['b']"),  # type: ignore[arg-type]
        ({"log": LogSettings(quorum={3: "x"})}, "Config: log.quorum: expected a quorum such as"),  # type: ignore[dict-item]
        ({"log": LogSettings(quorum={"kind": object()})}, "Config: log.quorum: expected what msgpack can carry: "),
        (
            {"log": LogSettings(batch_bytes=2 << 20), "limits": Limits(message_bytes=1 << 20)},
            "Config: log.batch_bytes: expected at most limits.message_bytes (1MiB), not 2MiB",
        ),
        (
            {"isis": IsisSettings(enabled=True), "limits": Limits(message_bytes=831 << 10)},
            "Config: limits.message_bytes: expected at least 832KiB where ISIS is enabled at 3 sites, not 831KiB",
        ),
        ({"transport": TransportSettings(kind="multicast")}, "Config: transport.group: missing"),
    ],
)
def test_a_mistake_in_an_object(good: Config, change: dict[str, Any], says: str) -> None:
    with pytest.raises(Malformed) as caught:
        check(replace(good, **change))
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def test_the_replicas_of_a_new_log(good: Config) -> None:
    assert good.replicas == ("a", "b", "c")
    assert replace(good, log=LogSettings(replicas=("c", "a"))).replicas == ("a", "c")
    check(replace(good, log=LogSettings(replicas=("c",), quorum={"kind": "grid", "rows": [["c"]]})))


def test_what_the_core_is_told(good: Config) -> None:
    config = replace(
        good,
        order=Order(engine="all-ack", policy="none", generator="pseudo-random"),
        timing=Timing(
            beacon_every_ns=1, gather_every_ns=2, suspect_base_ns=3, suspect_per_site_ns=4, round_patience_ns=5
        ),
        limits=Limits(message_bytes=6, queue_bytes=7, queue_messages=8),
    )
    options = config.options(9, 10)
    assert (options.order, options.policy, options.generator) == ("all-ack", "none", "pseudo-random")
    assert options.return_unsent
    timing = options.timing
    assert (timing.beacon_every_ns, timing.gather_every_ns, timing.suspect_base_ns) == (1, 2, 3)
    assert (timing.suspect_per_site_ns, timing.round_patience_ns) == (4, 5)
    limits = options.limits
    assert (limits.message_bytes, limits.queue_bytes, limits.queue_messages) == (6, 7, 8)
    assert (limits.frame_bytes, limits.buffer_bytes) == (9, 10)


@pytest.mark.parametrize(
    ("host", "inside"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("::", False), ("db", False)],
)
def test_loopback(host: str, inside: bool) -> None:
    assert is_loopback((host, 80)) is inside
