"""`connect`: a client of a site that runs elsewhere."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from reconvene.client.addresses import Addresses, parse_addresses
from reconvene.client.arguments import check_seconds
from reconvene.client.inbox import Inboxes
from reconvene.client.remote import RemoteLink
from reconvene.client.site import Site
from reconvene.errors import Rejected
from reconvene.runtime.access.key_files import ClientKey, load_client_keys
from reconvene.runtime.config.settings import Limits

__all__ = ["TIMEOUT_S", "connect"]

TIMEOUT_S = 10.0


@asynccontextmanager
async def connect(
    addresses: Addresses,
    *,
    key: ClientKey | str | Path | None = None,
    key_name: str | None = None,
    tls: ssl.SSLContext | str | Path | bool = False,
    timeout: float = TIMEOUT_S,
    wait: float = 0.0,
    limits: Limits | None = None,
    return_to_first: bool = True,
) -> AsyncIterator[Site]:
    """A process of the first site of `addresses` that answers; of another one when that is lost.

    addresses: "unix:/run/site.sock" or its path, "tcp://host:port" or "host:port", one or several.
    key: for TCP, a client key, or the file that holds it, with its name there (`key_name`) unless it is the only
      one. It never travels; without TLS it also seals all that is said.
    tls: for TCP, True for the system's authorities, the file of the authority that signed the sites' certificates,
      or a context, which may show a certificate of its own.
    timeout: s. To connect to one address; for a request to find a connection; for an answer other than a send's.
    wait: s. How long to go on at the start when no site answers; 0 tries each address once.
    limits: inbox_bytes and inbox_messages bound what waits here unread.
    return_to_first: where this client is at another site than the first one of `addresses`, it goes back there once
      that is well again, at a quiet moment. False: it stays where it is until that connection is lost.
    Raises Rejected where a site refuses, Unavailable where none answers.
    """
    check_seconds(timeout, "timeout")
    check_seconds(wait, "wait")
    if limits is not None and not isinstance(limits, Limits):
        raise TypeError(f"limits: reconvene.Limits expected, not {type(limits).__name__}")
    bounds = Limits() if limits is None else limits
    link = RemoteLink(
        parse_addresses(addresses),
        find_key(key, key_name),
        client_tls(tls),
        timeout,
        Inboxes(bounds.inbox_bytes, bounds.inbox_messages),
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
    keys = load_client_keys(Path(key))
    if name is None:
        if len(keys) != 1:
            raise Rejected(f"{key}: holds {len(keys)} keys: key_name expected, one of {', '.join(sorted(keys))}")
        (found,) = keys.values()
        return found
    if name not in keys:
        raise Rejected(f"{key}: no key {name!r} in it")
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
        raise Rejected(f"tls: {tls}: {error}") from None
