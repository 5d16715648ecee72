"""A network of sites on one machine: a network namespace for each site, one bridge, and cuts by nft.

Each namespace has `eth0` with an address in `NETWORK` and a loopback. The bridge is in a namespace of its own, so the
machine's own network is not affected. The bridge floods multicast. A cut is one nft transaction at the bridge: it
takes effect everywhere at the same moment, within about a millisecond. Address resolution is never cut: a heal would
else wait for the next probe of the neighbours, up to a second.

It needs root. Everything is removed when the context ends, also by an exception, with every process that still runs
inside. What a killed program left is removed when the next one starts.
"""

import os
import re
import select
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count, pairwise
from pathlib import Path
from string import ascii_lowercase
from time import monotonic
from types import TracebackType
from typing import IO, Self

from reconvene.errors import Rejected, Unavailable

__all__ = ["MOST_SITES", "NETWORK", "JoinedNamespaces", "Namespaces", "available", "remove_leftovers"]

NETWORK = "10.213.0"
"""The first 24 bits of the addresses; site 0 has .1. All networks use the same addresses: they are separate."""
MOST_SITES = len(ascii_lowercase)
COMMAND_TIMEOUT_S = 20.0
"""An ip or nft command that takes longer has failed."""
END_TIMEOUT_S = 5.0
_ANSWER_BYTES = 1 << 16

_ROUTER = 254
"""The last byte of a router's address in each network."""
_NAMES = Path("/run/netns")
_OURS = re.compile(r"rcv-(\d+)-(\d+)-\d+-[a-z]+")
_TOOLS = {"ip": "iproute2", "nft": "nftables", "nsenter": "util-linux", "setpriv": "util-linux"}
_TABLE = "bridge reconvene"
_CHAIN = f"{_TABLE} forward"
_numbers = count()


def available() -> str | None:
    """Why namespaces can't be created here; None if they can. It tries."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "network namespaces need root"
    for tool, package in _TOOLS.items():
        if shutil.which(tool) is None:
            return f"no {tool} ({package})"
    try:
        with Namespaces(1):
            return None
    except Unavailable as error:
        return str(error)


def remove_leftovers() -> None:
    """Removes what dead processes left: their namespaces, and the processes inside."""
    for path in sorted(_NAMES.glob("rcv-*")):
        named = _OURS.fullmatch(path.name)
        if named is not None and _started(int(named[1])) != int(named[2]):
            _remove(path.name)


class Namespaces:
    """A network of sites, each known by its index."""

    def __init__(self, sites: int, mtu: int = 1500, true_packets: bool = False) -> None:
        """`true_packets`: links carry packets of at most the MTU, as a wire does. A link between two namespaces
        otherwise hands on what was given to the kernel for segmentation in one piece, and no packet is ever made of
        it: measurements would be too good."""
        if not 1 <= sites <= MOST_SITES:
            raise Rejected(f"{sites} namespaces: expected 1 to {MOST_SITES}")
        # A process is known by its pid and its start time: pids are reused.
        prefix = f"rcv-{os.getpid()}-{_started(os.getpid())}-{next(_numbers)}"
        self.mtu = mtu
        self.true_packets = true_packets
        self.addresses = tuple(f"{NETWORK}.{index + 1}" for index in range(sites))
        self.names = tuple(f"{prefix}-{ascii_lowercase[index]}" for index in range(sites))
        self._hub = f"{prefix}-hub"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._rules: _Rules | None = None
        self._blocked: frozenset[tuple[int, int]] = frozenset()
        self._more: tuple[str, ...] = ()
        """Namespaces beside those of the sites and the bridge's."""

    def __enter__(self) -> Self:
        remove_leftovers()
        try:
            self._make()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def inside(self, index: int, argv: Sequence[str]) -> list[str]:
        """The command that runs another one at a site; both have the same pid.

        It dies with the thread that started it, so that nothing survives a program that was killed. It sees the
        machine's files; its mounts are private.
        """
        return ["setpriv", "--pdeathsig", "KILL", "--", "ip", "netns", "exec", self.names[index], *argv]

    def run(
        self,
        index: int,
        argv: Sequence[str],
        *,
        stdin: int | IO[bytes] | None = subprocess.DEVNULL,
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Starts a process at a site; it is killed at the end if it still runs."""
        process = subprocess.Popen(
            self.inside(index, argv), stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, env=env
        )
        self._processes.append(process)
        return process

    def cut(self, components: Sequence[Iterable[int]]) -> None:
        """Only sites of one component are connected; a site in none is alone. Replaces earlier cuts."""
        home = {site: place for place, component in enumerate(components) for site in component}
        self._block((a, b) for a in self._sites for b in self._sites if home.get(a, -1 - a) != home.get(b, -1 - b))

    def cut_one_way(self, sender: int, receiver: int) -> None:
        """Drops what one site sends to the other, in this direction only. Added to earlier cuts."""
        self._block(self._blocked | {(sender, receiver)})

    def chain(self, order: Sequence[int]) -> None:
        """Connects each site to its neighbours in this order only; a site not in it is alone. Replaces earlier
        cuts."""
        links = set(pairwise(order))
        self._block((a, b) for a in self._sites for b in self._sites if not {(a, b), (b, a)} & links)

    def heal(self) -> None:
        """Removes all cuts."""
        self._block(())

    @property
    def _sites(self) -> range:
        return range(len(self.names))

    def _block(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Sets the pairs (from, to) that are dropped."""
        if self._rules is None:
            raise Rejected("the network is not up")
        blocked = frozenset((a, b) for a, b in pairs if a != b)
        for site in {site for pair in blocked for site in pair}:
            if site not in self._sites:
                raise Rejected(f"no site {site}")
        drops = ", ".join(f'"{_port(a)}" . "{_port(b)}"' for a, b in sorted(blocked))
        rules = [*([f"iifname . oifname {{ {drops} }} drop"] if drops else []), *self._more_rules()]
        if rules:
            rules.insert(0, "ether type arp accept")
        self._rules.say("; ".join([f"flush chain {_CHAIN}", *(f"add rule {_CHAIN} {rule}" for rule in rules)]))
        self._blocked = blocked

    def _more_rules(self) -> list[str]:
        """What is dropped besides, by nft's rules."""
        return []

    def _make(self) -> None:
        _call(["ip", "netns", "add", self._hub])
        self._at_hub(["link", "add", "bridge", "mtu", str(self.mtu), "type", "bridge", "mcast_snooping", "0"])
        self._at_hub(["link", "set", "bridge", "up"])
        for index, (name, address) in enumerate(zip(self.names, self.addresses, strict=True)):
            _call(["ip", "netns", "add", name])
            mtu, port = str(self.mtu), _port(index)
            peer = ["peer", "name", "eth0", "mtu", mtu, "netns", name]
            self._at_hub(["link", "add", port, "mtu", mtu, "type", "veth", *peer])
            self._at_hub(["link", "set", port, "master", "bridge", "up"])
            commands = (
                "link set lo up\n"
                f"address add {address}/24 dev eth0\n"
                "link set eth0 up\n"
                "route add 224.0.0.0/4 dev eth0\n"
            )
            _call(["ip", "-n", name, "-batch", "-"], commands)
            if self.true_packets:
                self._cut_to_packets(self._hub, port)
                self._cut_to_packets(name, "eth0")
        self._begin_rules()

    def _cut_to_packets(self, namespace: str, device: str) -> None:
        if shutil.which("ethtool") is None:
            raise Unavailable("no ethtool (ethtool)")
        off = ["ethtool", "-K", device, "gso", "off", "tso", "off", "tx-udp-segmentation", "off"]
        _call(["ip", "netns", "exec", namespace, *off])

    def _begin_rules(self) -> None:
        self._rules = _Rules(["nsenter", f"--net={_NAMES / self._hub}"])
        self._rules.say(
            f"add table {_TABLE}; add chain {_CHAIN} {{ type filter hook forward priority 0; policy accept; }}"
        )

    def _at_hub(self, argv: Sequence[str]) -> None:
        _call(["ip", "-n", self._hub, *argv])

    def _end(self) -> None:
        if self._rules is not None:
            self._rules.close()
            self._rules = None
        for process in self._processes:
            if process.poll() is None:
                process.kill()
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_TIMEOUT_S)
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    # A buffer for a process that has ended is not needed.
                    with suppress(OSError):
                        pipe.close()
        self._processes.clear()
        for name in (*self.names, *self._more, self._hub):
            if (_NAMES / name).exists():
                _remove(name)


class JoinedNamespaces(Namespaces):
    """Several networks, one for each cluster, with a bridge each, joined by a router in a namespace of its own.
    Site s of cluster c has the index c · sites + s, and the address 10.213.(c+1).(s+1).

    `cut` and `chain` are for sites of one cluster; `cut_clusters` is for the lines between clusters.
    """

    def __init__(self, clusters: int, sites: int, mtu: int = 1500) -> None:
        super().__init__(clusters * sites, mtu)
        self._clusters = clusters
        self._each = sites
        self.addresses = tuple(f"{_net(cluster)}.{site + 1}" for cluster in range(clusters) for site in range(sites))
        self._router = f"{self._hub.removesuffix('-hub')}-router"
        self._more = (self._router,)
        self._apart: list[tuple[int, int]] = []

    def cut_clusters(self, components: Sequence[Iterable[int]]) -> None:
        """Only clusters of one component are connected; a cluster in none is alone. Replaces earlier cuts between
        clusters, and no others."""
        home = {cluster: place for place, component in enumerate(components) for cluster in component}
        every = range(self._clusters)
        self._apart = [(a, b) for a in every for b in every if home.get(a, -1 - a) != home.get(b, -1 - b)]
        self._block(self._blocked)

    def cut_within(self, cluster: int, components: Sequence[Iterable[int]]) -> None:
        """The same for sites of one cluster, by their numbers there. Replaces earlier cuts within clusters."""
        first = cluster * self._each
        home = {first + site: place for place, component in enumerate(components) for site in component}
        own = range(first, first + self._each)
        self._block((a, b) for a in own for b in own if home.get(a, -1 - a) != home.get(b, -1 - b))

    def heal(self) -> None:
        self._apart = []
        super().heal()

    def _more_rules(self) -> list[str]:
        return [f"ip saddr {_net(a)}.0/24 ip daddr {_net(b)}.0/24 drop" for a, b in self._apart]

    def _make(self) -> None:
        mtu = str(self.mtu)
        _call(["ip", "netns", "add", self._hub])
        _call(["ip", "netns", "add", self._router])
        _call(["ip", "netns", "exec", self._router, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])
        for cluster in range(self._clusters):
            bridge = f"bridge-{cluster}"
            self._at_hub(["link", "add", bridge, "mtu", mtu, "type", "bridge", "mcast_snooping", "0"])
            self._at_hub(["link", "set", bridge, "up"])
            self._connect(self._router, f"line-{cluster}", f"eth{cluster}", bridge, f"{_net(cluster)}.{_ROUTER}")
        for index, (name, address) in enumerate(zip(self.names, self.addresses, strict=True)):
            cluster = index // self._each
            _call(["ip", "netns", "add", name])
            self._connect(name, _port(index), "eth0", f"bridge-{cluster}", address)
            commands = f"link set lo up\nroute add default via {_net(cluster)}.{_ROUTER}\n"
            _call(["ip", "-n", name, "-batch", "-"], commands)
        self._begin_rules()

    def _connect(self, name: str, port: str, device: str, bridge: str, address: str) -> None:
        """A line from a bridge to a namespace."""
        mtu = str(self.mtu)
        peer = ["peer", "name", device, "mtu", mtu, "netns", name]
        self._at_hub(["link", "add", port, "mtu", mtu, "type", "veth", *peer])
        self._at_hub(["link", "set", port, "master", bridge, "up"])
        _call(["ip", "-n", name, "-batch", "-"], f"address add {address}/24 dev {device}\nlink set {device} up\n")


class _Rules:
    """One nft that stays.

    A new process for each change would take tens of milliseconds: its start, and at its end the kernel first frees
    what it replaced. The time at which the change takes effect would not be known exactly enough.
    """

    def __init__(self, enter: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", *enter, "nft", "-i"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
        )

    def say(self, line: str) -> None:
        """One line is one transaction; it is complete when nft has answered the next one."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        heard = b""
        done = f"table {_TABLE}\n".encode()
        deadline = monotonic() + COMMAND_TIMEOUT_S
        try:
            self._process.stdin.write(f"{line}\nlist tables bridge\n".encode())
            while not heard.endswith(done):
                ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline - monotonic()))
                got = self._process.stdout.read(_ANSWER_BYTES) if ready else b""
                if not got or len(heard) > _ANSWER_BYTES:
                    raise Unavailable(f"nft: no answer: {heard.decode(errors='replace')}")
                heard += got
        except OSError as error:
            raise Unavailable(f"nft: {error}") from None
        if heard != done:
            raise Unavailable(f"nft: {heard.decode(errors='replace').splitlines()[0]}")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def _net(cluster: int) -> str:
    """The first 24 bits of the addresses of a cluster that is joined with others."""
    return f"{NETWORK.rpartition('.')[0]}.{cluster + 1}"


def _port(index: int) -> str:
    return f"port-{ascii_lowercase[index]}"


def _started(pid: int) -> int | None:
    """When a process started, in ticks since boot; None if there is none. A zombie counts as none."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in "ZX" else int(fields[18])


def _remove(name: str) -> None:
    with suppress(Unavailable):  # another process may have removed it
        for pid in _call(["ip", "netns", "pids", name]).split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        _call(["ip", "netns", "delete", name])


def _call(argv: Sequence[str], given: str = "") -> str:
    try:
        done = subprocess.run(
            argv, input=given, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=True
        )
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout or f"exit {error.returncode}").strip().splitlines()
        raise Unavailable(f"{' '.join(argv)}: {said[0] if said else error.returncode}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{' '.join(argv)}: {error}") from None
    return done.stdout
