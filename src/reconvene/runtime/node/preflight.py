"""Checks the files that a site needs before any part of it starts.

A start, `reconvene node --check` and `reconvene doctor` all use these checks, so they never disagree.

Given: a configuration that passed `config.check.check`. Promised: `load_secrets` raises Rejected or Malformed, in one
line, if a file of keys or certificates is bad. `place_problems` names what keeps the site from creating its files.
Nothing is created or changed. `secret_warnings` names what works and should be improved: a start logs it, `--check`
prints it, and neither fails for it.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from reconvene.errors import Rejected
from reconvene.runtime.access.certificates import is_open_to_others, tls_warnings
from reconvene.runtime.access.key_files import load_client_keys, load_cluster_keys, load_peer_key
from reconvene.runtime.access.tls import peer_tls, server_tls
from reconvene.runtime.config.settings import Config
from reconvene.runtime.disk.directory import owner_problem
from reconvene.runtime.node.real_time import check_real_time

__all__ = ["load_secrets", "place_problems", "preflight", "secret_warnings"]


def preflight(config: Config) -> None:
    """Raises Rejected or Malformed."""
    load_secrets(config)
    check_real_time(config)
    for problem in place_problems(config):
        raise Rejected(problem)


def load_secrets(config: Config) -> None:
    """Reads every file of keys and certificates as the site will, also those that are only needed for clients or
    HTTP."""
    if not config.seal.insecure and not config.log.outpost:
        keys = load_cluster_keys(config.seal.keys)
        if config.domain is not None:
            above = load_cluster_keys(config.domain.upper.keys)
            if {key.id for key in keys} & {key.id for key in above}:
                raise Rejected("domain.upper.keys: has a key of seal.keys; expected a key of its own for each level")
    for endpoint in (config.clients, config.http):
        if endpoint.keys is not None:
            load_client_keys(endpoint.keys)
        if endpoint.tls is not None:
            server_tls(endpoint.tls)
    if config.dashboard.key is not None:
        load_peer_key(config.dashboard.key)
    peer_tls(config)


def secret_warnings(config: Config) -> Iterator[str]:
    """Key files that other users may read; certificates that have ended, or will soon."""
    above = () if config.domain is None else config.domain.upper.keys
    single = (config.clients.keys, config.http.keys, config.dashboard.key, config.log.follow_key)
    for path in (*config.seal.keys, *above, *(path for path in single if path is not None)):
        if is_open_to_others(path):
            yield f"{path}: other users may read this key file: chmod 600 {path}"
    yield from tls_warnings(config)


def place_problems(config: Config) -> Iterator[str]:
    """Why the site could not create its files."""
    yield from _folder("dir", config.dir)
    problem = owner_problem(config.dir, config.cluster, config.name)
    if problem is not None:
        yield problem
    if config.trace.dir is not None:
        yield from _folder("trace.dir", config.trace.dir)
    unix = config.unix_socket
    if unix.parent != config.dir:
        if not unix.parent.is_dir():
            yield f"clients.unix: {unix}: expected {unix.parent} to be a directory: make it first"
        elif not os.access(unix.parent, os.W_OK | os.X_OK):
            yield f"clients.unix: {unix}: expected a directory to write to: {os.strerror(13)}"
    if os.path.lexists(unix) and not unix.is_socket():
        yield f"clients.unix: {unix}: exists and is not a socket: move it away, or set clients.unix"


def _folder(key: str, path: Path) -> Iterator[str]:
    """Problems with a directory that a site creates if it is missing."""
    place = path.absolute()
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    if not place.is_dir():
        yield f"{key}: {path}: expected a directory to write to: {place} is a file"
    elif not os.access(place, os.W_OK | os.X_OK):
        yield f"{key}: {path}: expected a directory to write to: {place}: {os.strerror(13)}"
