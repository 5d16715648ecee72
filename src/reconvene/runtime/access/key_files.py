"""Key files: cluster keys, which seal datagrams, and client keys, with which clients connect.

A cluster key file is a comment line and a line of base64, 32 bytes. A file of client keys is TOML, one line for each
client: `name = { key = "base64", role = "read" | "append" | "admin" }`.

Errors are one line: `Rejected` if a file can't be read or written, `Malformed` if its content is wrong.
"""

import base64
import binascii
import logging
import os
import re
import stat
import tomllib
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from reconvene.errors import Malformed, Rejected
from reconvene.runtime.diagnostics.structured_logging import WARNING, event
from reconvene.wire.seal import KEY_BYTES, ClusterKey

__all__ = [
    "MAX_CLIENTS",
    "MAX_CLUSTER_KEYS",
    "ROLES",
    "ClientKey",
    "add_client_key",
    "load_client_keys",
    "load_cluster_keys",
    "load_peer_key",
    "write_cluster_key",
]

ROLES = ("read", "append", "admin")
"""Each role includes the ones before it."""
MAX_CLUSTER_KEYS = 8
MAX_CLIENTS = 10_000
_FILE_BYTES = 2 << 20

_CLUSTER_HEAD = "# reconvene cluster key: seals the datagrams between the sites of one cluster; keep it secret"
_CLIENT_HEAD = "# reconvene client keys: who may connect, and in which role; keep it secret"
_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,64}", re.ASCII)
_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


class ClientKey(Struct, frozen=True):
    name: str
    key: bytes
    role: str
    """One of `ROLES`."""

    def __repr__(self) -> str:
        return f"ClientKey({self.name!r}, role={self.role!r})"


def load_cluster_keys(paths: Sequence[Path], log: logging.Logger | None = None) -> tuple[ClusterKey, ...]:
    """The first key seals. A warning is logged for a file that other users may read."""
    if len(paths) > MAX_CLUSTER_KEYS:
        raise Rejected(f"seal.keys: {len(paths)} key files: at most {MAX_CLUSTER_KEYS} are allowed")
    keys: dict[bytes, ClusterKey] = {}
    for path in paths:
        key = _cluster_key(path, _read(path, log, f"`reconvene keygen {path}` makes one"))
        if key.id in keys:
            raise Rejected(f"{path}: seal.keys: contains the same key as another of these files")
        keys[key.id] = key
    return tuple(keys.values())


def load_client_keys(path: Path, log: logging.Logger | None = None) -> dict[str, ClientKey]:
    text = _read(path, log, f"`reconvene keygen --client NAME --role ROLE {path}` makes one")
    if text.startswith(_CLUSTER_HEAD):
        raise Malformed(
            f"{path}: is a cluster's key; expected a file of client keys: "
            "`reconvene keygen --client NAME --role ROLE FILE` makes one"
        )
    try:
        entries = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Malformed(f"{path}: expected a file of client keys, in TOML: {error}") from None
    if len(entries) > MAX_CLIENTS:
        raise Malformed(f"{path}: {len(entries)} clients: at most {MAX_CLIENTS} expected")
    return {name: _client_key(path, name, entry) for name, entry in entries.items()}


def load_peer_key(path: Path) -> ClientKey:
    """The key for the dashboard's requests to other sites: the only one in its file."""
    keys = list(load_client_keys(path).values())
    if len(keys) != 1:
        raise Rejected(f"dashboard.key: {path}: expected one client key, not {len(keys)}")
    return keys[0]


def write_cluster_key(path: Path, force: bool = False) -> ClusterKey:
    """Writes a new random key to a file that only its owner may read."""
    secret = os.urandom(KEY_BYTES)
    _write(path, f"{_CLUSTER_HEAD}\n{base64.b64encode(secret).decode()}\n", replace=force)
    return ClusterKey(secret)


def add_client_key(path: Path, name: str, role: str, force: bool = False) -> ClientKey:
    """Adds a new random key for a client to the file. Comments in the file are lost."""
    if not _NAME.fullmatch(name):
        raise Rejected(f"--client {name}: expected 1 to 64 letters, digits and . _ @ -")
    if role not in ROLES:
        raise Rejected(f"--role {role}: expected one of {', '.join(ROLES)}")
    clients = load_client_keys(path) if path.exists() else {}
    if name in clients and not force:
        raise Rejected(f"{path}: {name} has a key already; --force replaces it")
    if len(clients) >= MAX_CLIENTS and name not in clients:
        raise Rejected(f"{path}: holds {MAX_CLIENTS} clients already, the limit")
    made = clients[name] = ClientKey(name, os.urandom(KEY_BYTES), role)
    _write(path, "\n".join([_CLIENT_HEAD, *map(_line, clients.values())]) + "\n", replace=True)
    return made


def _cluster_key(path: Path, text: str) -> ClusterKey:
    if text.startswith(_CLIENT_HEAD):
        raise Malformed(
            f"{path}: is a file of client keys; expected a cluster's key: `reconvene keygen FILE` makes one"
        )
    lines = [(at, line.strip()) for at, line in enumerate(text.splitlines(), start=1)]
    lines = [(at, line) for at, line in lines if line and not line.startswith("#")]
    if not lines:
        raise Malformed(f"{path}: holds no key: expected a line of base64")
    if len(lines) > 1:
        raise Malformed(f"{path}:{lines[1][0]}: expected nothing after the key")
    at, line = lines[0]
    return ClusterKey(_secret(f"{path}:{at}", line))


def _client_key(path: Path, name: str, entry: object) -> ClientKey:
    if not _NAME.fullmatch(name):
        raise Malformed(f"{path}: {name[:64]!r}: expected a name of 1 to 64 letters, digits and . _ @ -")
    if not isinstance(entry, dict):
        raise Malformed(f'{path}: {name}: expected {{ key = "…", role = "…" }}')
    for field in entry:
        if field not in ("key", "role"):
            raise Malformed(f"{path}: {name}.{field}: expected only key and role")
    key, role = entry.get("key"), entry.get("role")
    if not isinstance(key, str):
        raise Malformed(f"{path}: {name}.key: expected {KEY_BYTES} bytes of base64")
    if role not in ROLES:
        raise Malformed(f"{path}: {name}.role: expected one of {', '.join(ROLES)}")
    return ClientKey(name, _secret(f"{path}: {name}.key", key), role)


def _secret(where: str, text: str) -> bytes:
    """The error does not quote the text, which may be most of a key."""
    try:
        secret = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if len(secret) != KEY_BYTES:
        raise Malformed(f"{where}: expected {KEY_BYTES} bytes of base64")
    return secret


def _line(client: ClientKey) -> str:
    name = client.name if _BARE.fullmatch(client.name) else f'"{client.name}"'
    return f'{name} = {{ key = "{base64.b64encode(client.key).decode()}", role = "{client.role}" }}'


def _read(path: Path, log: logging.Logger | None, remedy: str) -> str:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(_FILE_BYTES + 1)
    except FileNotFoundError:
        raise Rejected(f"{path}: no such key file; {remedy}") from None
    except OSError as error:
        raise Rejected(f"{path}: can't be read: {error.strerror}") from None
    if len(data) > _FILE_BYTES:
        raise Malformed(f"{path}: more than {_FILE_BYTES} bytes: expected a key file")
    if log is not None and stat.S_IMODE(mode) & 0o077:
        event(log, WARNING, "key_file_open", file=str(path), why=f"other users may read it: chmod 600 {path}")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Malformed(f"{path}: not text: expected a key file") from None


def _write(path: Path, text: str, replace: bool) -> None:
    """Writes all or nothing. The file is never readable by other users, not even for a moment."""
    if path.is_dir():
        raise Rejected(f"{path}: expected a file, not a directory")
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(file, "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            if replace:
                os.replace(beside, path)
            else:
                os.link(beside, path)  # unlike replace, it fails if the file exists
        finally:
            beside.unlink(missing_ok=True)
    except FileExistsError:
        raise Rejected(f"{path}: exists already; --force overwrites it") from None
    except OSError as error:
        raise Rejected(f"{path}: can't be written: {error.strerror}") from None
