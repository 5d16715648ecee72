"""The files of a local cluster, and the choices made when it was created.

DIR/cluster.toml            what was chosen: sites, ports, order, seal
DIR/cluster.key             the cluster's key, unless it is insecure
DIR/faults.json             the partition in force, and when something was last broken or mended
DIR/lock                    held by a command that changes something
DIR/sites/NAME/site.toml    the site's configuration, written anew at each start
DIR/sites/NAME/data/        what the site keeps
DIR/sites/NAME/log          what it says
DIR/sites/NAME/process.json its process
DIR/trace/                  the run's trace
"""

import fcntl
import os
import re
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct, field

from reconvene.errors import Malformed, Rejected, Unavailable
from reconvene.ids import MAX_SITES
from reconvene.local.directory import Directory, replace_file
from reconvene.local.toml import to_toml

__all__ = ["Choices", "Layout", "Ports", "Settings", "follower_names", "outpost_names", "site_names"]

SCHEMA = 1
Settings = Mapping[str, object]
"""Of a site.toml: keys, and tables as mappings."""

_CLUSTER_FILE = "cluster.toml"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}", re.ASCII)
_MOST_FOLLOWERS = 256
_MOST_OUTPOSTS = 9
_LONGEST_SOCKET_PATH = 100
"""In bytes. The system's limit is 107; a few are left for suffixes."""


DOMAINS_FILE = "domains.toml"
"""In the directory of several joined clusters."""


class Ports(Struct, frozen=True):
    datagrams: int
    http: int


class Choices(Struct, frozen=True, kw_only=True):
    """cluster.toml."""

    schema: int = SCHEMA
    cluster: str
    order: str = "atop"
    insecure: bool = False
    trace: bool = True
    isis: bool = False
    sockets: str = ""
    """Directory of the sites' sockets, if the paths of their own directories are too long."""
    sites: dict[str, Ports]
    followers: dict[str, Ports] = field(default_factory=dict)
    """Sites beside the cluster that follow its log …"""
    outposts: dict[str, Ports] = field(default_factory=dict)
    """… and processes that accept messages for it. Their port of datagrams is not used."""
    settings: dict[str, object] = field(default_factory=dict)
    """Settings for every site.toml; they override the usual ones."""
    blocked_above: list[str] = field(default_factory=list)
    """Where the cluster is joined with others: the sites of the cluster above that its gateways are disconnected
    from."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.sites))

    @property
    def everyone(self) -> tuple[str, ...]:
        """The sites, then the followers and the outposts."""
        return (*self.names, *sorted(self.followers), *sorted(self.outposts))

    def ports(self, name: str) -> Ports:
        return {**self.sites, **self.followers, **self.outposts}[name]


def site_names(count: int) -> tuple[str, ...]:
    """a, b, c, …; beyond the alphabet s01, s02, …: always in the order in which they sort."""
    if not 1 <= count <= MAX_SITES:
        raise Rejected(f"{count} sites: expected 1 to {MAX_SITES}")
    if count <= 26:
        return tuple("abcdefghijklmnopqrstuvwxyz"[:count])
    return tuple(f"s{number:02}" for number in range(1, count + 1))


class Layout(Directory):
    """One cluster's directory."""

    # -- files

    @property
    def key(self) -> Path:
        return self.directory / "cluster.key"

    @property
    def faults(self) -> Path:
        return self.directory / "faults.json"

    def site(self, name: str) -> Path:
        return self.directory / "sites" / name

    def config(self, name: str) -> Path:
        return self.site(name) / "site.toml"

    def data(self, name: str) -> Path:
        return self.site(name) / "data"

    def log(self, name: str) -> Path:
        return self.site(name) / "log"

    def process(self, name: str) -> Path:
        return self.site(name) / "process.json"

    def socket(self, choices: Choices, name: str) -> Path:
        if choices.sockets:
            return Path(choices.sockets) / f"{name}.sock"
        return self.site(name) / "site.sock"

    # -- choices

    def exists(self) -> bool:
        return (self.directory / _CLUSTER_FILE).is_file()

    def load(self) -> Choices:
        path = self.directory / _CLUSTER_FILE
        try:
            document = tomllib.loads(path.read_text())
        except FileNotFoundError:
            if (self.directory / DOMAINS_FILE).is_file():
                raise Rejected(
                    f"{self}: holds several joined clusters; expected one of them, such as {self}/clusters/NAME"
                ) from None
            raise Rejected(f"{self}: holds no cluster; `reconvene up --dir {self}` makes one") from None
        except OSError as error:
            raise Rejected(f"{path}: can't be read: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise Malformed(f"{path}: expected TOML: {error}") from None
        if document.get("schema") != SCHEMA:
            raise Malformed(f"{path}: `schema` is {document.get('schema')!r}; expected {SCHEMA}")
        try:
            choices = msgspec.convert(document, Choices)
        except msgspec.ValidationError as error:
            raise Malformed(f"{path}: {error}") from None
        self._check(choices.names)
        self._check_followers(choices.names, (*choices.followers, *choices.outposts))
        return choices

    def save(self, choices: Choices) -> None:
        replace_file(self.directory / _CLUSTER_FILE, to_toml(msgspec.to_builtins(choices)).encode())

    def make(self, names: Sequence[str], followers: Sequence[str] = ()) -> None:
        """Makes the directory and one for each site. Raises Rejected if the directory contains anything else."""
        self._check(names)
        self._check_followers(names, followers)
        self.make_empty("cluster", *map(self.data, (*names, *followers)))

    def place_sockets(self, choices: Choices) -> Choices:
        """If socket paths would be too long, a short directory that only this user can enter."""
        longest = max(len(os.fsencode(self.site(name) / "site.sock")) for name in choices.everyone)
        if longest <= _LONGEST_SOCKET_PATH:
            return msgspec.structs.replace(choices, sockets="")
        if choices.sockets and _is_mine(Path(choices.sockets)):
            return choices
        return msgspec.structs.replace(choices, sockets=tempfile.mkdtemp(prefix="reconvene-", dir="/tmp"))

    def remove_sockets(self, choices: Choices) -> None:
        for name in choices.everyone:
            self.socket(choices, name).unlink(missing_ok=True)
        if choices.sockets and _is_mine(Path(choices.sockets)):
            with suppress(OSError):  # it may contain other files
                Path(choices.sockets).rmdir()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """For commands that change something: one at a time."""
        try:
            handle = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Rejected(f"{self}: can't be changed: {error.strerror}") from None
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Unavailable(f"{self}: another command is at work on this cluster; try again") from None
            yield
        finally:
            os.close(handle)

    def _check(self, names: Sequence[str]) -> None:
        if not 1 <= len(names) <= MAX_SITES:
            raise Rejected(f"{self}: {len(names)} sites: expected 1 to {MAX_SITES}")
        for name in names:
            if not _NAME.fullmatch(name):
                raise Rejected(f"{self}: site {name!r}: expected a name of up to 32 letters, digits, - and _")
        if len(set(names)) != len(names):
            raise Rejected(f"{self}: a site is named twice")

    def _check_followers(self, names: Sequence[str], followers: Sequence[str]) -> None:
        for name in followers:
            if not _NAME.fullmatch(name):
                raise Rejected(f"{self}: follower {name!r}: expected a name of up to 32 letters, digits, - and _")
        if len({*names, *followers}) != len(names) + len(followers):
            raise Rejected(f"{self}: a follower has the name of another one, or of a site")


def follower_names(count: int) -> tuple[str, ...]:
    """f001, f002, …: always in the order in which they sort."""
    if not 0 <= count <= _MOST_FOLLOWERS:
        raise Rejected(f"{count} followers: expected 0 to {_MOST_FOLLOWERS}")
    digits = len(str(count))
    return tuple(f"f{number:0{digits}}" for number in range(1, count + 1))


def outpost_names(count: int) -> tuple[str, ...]:
    """o1, o2, …"""
    if not 0 <= count <= _MOST_OUTPOSTS:
        raise Rejected(f"{count} outposts: expected 0 to {_MOST_OUTPOSTS}")
    return tuple(f"o{number}" for number in range(1, count + 1))


def _is_mine(directory: Path) -> bool:
    try:
        status = directory.lstat()
    except OSError:
        return False
    return directory.is_dir() and not directory.is_symlink() and status.st_uid == os.getuid()
