"""Corosync daemons, one in each of several network namespaces, formed into one ring and ended with the context.

Each runs in the foreground with a configuration, a state directory and a log of its own, and with a private /run and
/dev/shm, separate from the other daemons and from a Corosync of the machine; its shared memory is removed with it.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import IO, Self

from reconvene.errors import Unavailable
from reconvene.lab import namespaces
from reconvene.lab.bench.peers.processes import end_daemons
from reconvene.lab.namespaces import Namespaces

__all__ = ["Corosync", "Options", "available", "configuration"]

FORM_TIMEOUT_S = 40.0
"""From the start of the daemons to one ring: a few seconds by default, more on a busy machine."""
END_TIMEOUT_S = 3.0
PORT = 5405

_PACKAGES = {
    "corosync": "corosync",
    "corosync-cmapctl": "corosync",
    "cc": "gcc",
    "ethtool": "ethtool",
    "mount": "mount",
    "unshare": "util-linux",
}


@dataclass(frozen=True, slots=True)
class Options:
    """Its configuration; None is Corosync's default."""

    sites: int = 3
    transport: str = "udpu"
    mtu: int = 1500
    """MTU of the links."""
    netmtu: int | None = None
    """Corosync's setting for the size of a datagram."""
    sched_rr: bool = True
    """Real-time scheduling, its default; without it, it has our scheduling class."""
    token_ms: int | None = None
    token_coefficient_ms: int | None = None
    """Added to the token's timeout for each site beyond two; 0: `token_ms` applies unchanged."""
    consensus_ms: int | None = None
    join_ms: int | None = None
    window_size: int | None = None
    max_messages: int | None = None


def available() -> str | None:
    """Why it can't be run here; None if it can."""
    for tool, package in _PACKAGES.items():
        if shutil.which(tool) is None:
            return f"no {tool} (package {package})"
    if not Path("/usr/include/corosync/cpg.h").exists():
        return "no corosync/cpg.h (package libcpg-dev)"
    return namespaces.available()


def configuration(options: Options, addresses: Sequence[str], folder: Path) -> str:
    """The file corosync.conf of one site, whose state and log are in `folder`."""
    totem = {
        "version": 2,
        "cluster_name": "reconvene-bench",
        "transport": options.transport,
        "crypto_cipher": "none",
        "crypto_hash": "none",
        "netmtu": options.netmtu,
        "token": options.token_ms,
        "token_coefficient": options.token_coefficient_ms,
        "consensus": options.consensus_ms,
        "join": options.join_ms,
        "window_size": options.window_size,
        "max_messages": options.max_messages,
    }
    lines = ["totem {"]
    lines += [f"  {key}: {value}" for key, value in totem.items() if value is not None]
    lines += ["  interface {", "    linknumber: 0", f"    mcastport: {PORT}", "  }", "}", "nodelist {"]
    for number, address in enumerate(addresses, 1):
        lines += ["  node {", f"    nodeid: {number}", f"    ring0_addr: {address}", "  }"]
    lines += ["}", "system {", f"  sched_rr: {'yes' if options.sched_rr else 'no'}", f"  state_dir: {folder}", "}"]
    lines += ["logging {", "  to_stderr: no", "  to_syslog: no", "  to_logfile: yes", f"  logfile: {folder}/log"]
    lines += ["  timestamp: hires", "}", ""]
    return "\n".join(lines)


class Corosync:
    """A ring of daemons; `network` cuts and heals their links."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.network = Namespaces(options.sites, options.mtu, true_packets=True)
        self.folder = Path()
        """Exists for the time of the context."""
        self.daemons: list[subprocess.Popen[bytes]] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rcv-", dir="/var/tmp")))
            stack.enter_context(self.network)
            stack.callback(self._end)
            for index in range(self.options.sites):
                self.daemons.append(self._start(index))
            self._wait_until_formed()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def run(
        self, index: int, argv: Sequence[str], stdin: int | None = subprocess.DEVNULL, stdout: int | None = None,
        stderr: int | IO[bytes] | None = None,
    ) -> subprocess.Popen[bytes]:  # fmt: skip
        """A client of a daemon, which sees its private shared memory."""
        enter = ["nsenter", "--mount", "--target", str(self.daemons[index].pid), "--"]
        return self.network.run(index, [*enter, *argv], stdin=stdin, stdout=stdout, stderr=stderr)

    def real_time(self) -> bool:
        """Whether every daemon got real-time scheduling: if a control group refuses it, Corosync runs without."""
        return all(os.sched_getscheduler(daemon.pid) == os.SCHED_RR for daemon in self.daemons)

    def crash(self, index: int) -> None:
        """kill -9."""
        self.daemons[index].kill()

    def log(self, index: int) -> str:
        path = self.folder / str(index) / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _start(self, index: int) -> subprocess.Popen[bytes]:
        folder = self.folder / str(index)
        folder.mkdir()
        file = folder / "corosync.conf"
        file.write_text(configuration(self.options, self.network.addresses, folder))
        mounts = "mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /dev/shm"
        with (folder / "stderr").open("wb") as errors:
            return self.network.run(
                index, ["sh", "-c", f'{mounts} && exec corosync -f -c "$0"', str(file)], stdout=errors, stderr=errors
            )

    def _wait_until_formed(self) -> None:
        deadline = monotonic() + FORM_TIMEOUT_S
        for index, daemon in enumerate(self.daemons):
            while self._joined(index) < self.options.sites:
                if daemon.poll() is not None:
                    raise Unavailable(f"corosync ended with {daemon.returncode}: {self._last_words(index)}")
                if monotonic() > deadline:
                    raise Unavailable(
                        f"corosync formed no ring of {self.options.sites} within {FORM_TIMEOUT_S:g} s: "
                        f"{self._last_words(index)}"
                    )
                sleep(0.1)

    def _joined(self, index: int) -> int:
        """How many members this daemon reports; 0 while it does not answer."""
        asked = self.run(
            index, ["corosync-cmapctl", "runtime.members"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            answer, _ = asked.communicate(timeout=END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            asked.kill()
            asked.communicate()
            return 0
        return sum(b".status " in line and line.endswith(b"= joined") for line in answer.splitlines())

    def _last_words(self, index: int) -> str:
        said = self.log(index) or (self.folder / str(index) / "stderr").read_text(errors="replace")
        lines = said.strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def _end(self) -> None:
        end_daemons(self.daemons, END_TIMEOUT_S)
