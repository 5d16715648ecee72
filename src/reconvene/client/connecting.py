"""`connect`: a client of a site that runs elsewhere."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from reconvene.client.addresses import Addresses, parse_addresses
from reconvene.client.arguments import check_count, check_seconds
from reconvene.client.inbox import Inboxes
from reconvene.client.remote import RemoteLink
from reconvene.client.site import Site
from reconvene.errors import InvalidArgument, Rejected
from reconvene.runtime.access.key_files import ClientKey, load_client_keys

__all__ = ["INBOX_BYTES", "INBOX_MESSAGES", "TIMEOUT_S", "connect"]

TIMEOUT_S = 10.0
INBOX_BYTES = 64 << 20
INBOX_MESSAGES = 500_000


@asynccontextmanager
async def connect(
    addresses: Addresses,
    *,
    key: ClientKey | str | Path | None = None,
    key_name: str | None = None,
    tls: ssl.SSLContext | str | Path | bool = False,
    timeout: float = TIMEOUT_S,
    wait: float = 0.0,
    inbox_bytes: int = INBOX_BYTES,
    inbox_messages: int = INBOX_MESSAGES,
    return_to_first: bool = True,
) -> AsyncIterator[Site]:
    """A process of the first site of `addresses` that answers; of another one when that is lost.

    addresses: "unix:/run/site.sock" or its path, "tcp://host:port" or "host:port", one or several.
    key: for TCP, a client key, or the file that holds it, with its name there (`key_name`) unless it is the only
      one. It is never sent; without TLS it also encrypts the connection.
    tls: for TCP, True for the system's authorities, the file of the authority that signed the sites' certificates,
      or a context, which may present a certificate of its own.
    timeout: s. To connect to one address; for a request to find a connection; for every answer except a send's.
    wait: s. How long to try again at the start while no site answers; 0 tries each address once.
    inbox_bytes, inbox_messages: how much may wait here unread, for all groups together. Beyond that the fullest
      group is left.
    return_to_first: a client that is at another site than the first one of `addresses` goes back there, at a quiet
      moment, once that site works again. False: it stays where it is until that connection is lost.
    Raises Rejected where a site refuses, Unavailable where none answers (after a timeout also a TimeoutError).
    """
    check_seconds(timeout, "timeout")
    check_seconds(wait, "wait")
    link = RemoteLink(
        parse_addresses(addresses),
        find_key(key, key_name),
        client_tls(tls),
        timeout,
        Inboxes(check_count(inbox_bytes, "inbox_bytes", 1), check_count(inbox_messages, "inbox_messages", 1)),
        bool(return_to_first),
    )
    try:
        await link.start(wait)
        yield Site(link)
    finally:
        await link.close()


def find_key(key: ClientKey | str | Path | None, name: str | None) -> ClientKey | None:
    if key is not None and not isinstance(key, ClientKey | str | Path):
        raise TypeError(f"key: a file or a reconvene.ClientKey expected, not {type(key).__name__}")
    if name is not None and not isinstance(name, str):
        raise TypeError(f"key_name: text expected, not {type(name).__name__}")
    if key is None or isinstance(key, ClientKey):
        return key
    try:
        keys = load_client_keys(Path(key))
    except Rejected as error:
        raise InvalidArgument(f"key: {error}") from None
    if name is None:
        if len(keys) != 1:
            raise InvalidArgument(
                f"{key}: holds {len(keys)} keys: key_name expected, one of {', '.join(sorted(keys))}"
            )
        (found,) = keys.values()
        return found
    if name not in keys:
        raise InvalidArgument(f"{key}: no key {name!r} in it")
    return keys[name]


def client_tls(tls: ssl.SSLContext | str | Path | bool) -> ssl.SSLContext | None:
    if isinstance(tls, bool):
        return ssl.create_default_context() if tls else None
    if isinstance(tls, ssl.SSLContext):
        return tls
    if not isinstance(tls, str | Path):
        raise TypeError(f"tls: True, a file or an ssl.SSLContext expected, not {type(tls).__name__}")
    try:
        return ssl.create_default_context(cafile=tls)
    except OSError as error:
        raise InvalidArgument(f"tls: {tls}: {error}") from None
