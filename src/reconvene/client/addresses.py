"""Where a site can be reached: "unix:/run/site.sock", "/run/site.sock", "tcp://host:port" or "host:port"."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from reconvene.errors import InvalidArgument
from reconvene.units import parse_address, show_address

__all__ = ["Address", "Addresses", "parse_addresses"]

Addresses = str | Path | Iterable[str | Path]


class Address(NamedTuple):
    path: str
    """Of a Unix socket; empty for TCP."""
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        return f"unix:{self.path}" if self.path else f"tcp://{show_address((self.host, self.port))}"


def parse_addresses(addresses: Addresses) -> tuple[Address, ...]:
    """Raises TypeError, and InvalidArgument for what is no address and where there is none at all."""
    if isinstance(addresses, bytes) or not isinstance(addresses, str | Path | Iterable):
        raise TypeError(f"addresses: text, a path or a list of them expected, not {type(addresses).__name__}")
    given = [addresses] if isinstance(addresses, str | Path) else list(addresses)
    if not given:
        raise InvalidArgument("addresses: at least one site expected")
    return tuple(map(_parse, given))


def _parse(given: str | Path) -> Address:
    if isinstance(given, Path):
        return Address(str(given))
    if not isinstance(given, str):
        raise TypeError(f"address: text or a path expected, not {type(given).__name__}")
    if given.startswith("unix:"):
        return _unix(given, given.removeprefix("unix:"))
    if given.startswith("tcp://"):
        return _tcp(given, given.removeprefix("tcp://"))
    if "://" in given:
        raise _no_address(given)
    if "/" in given or given.endswith(".sock"):
        return _unix(given, given)
    return _tcp(given, given)


def _unix(given: str, path: str) -> Address:
    if not path:
        raise _no_address(given)
    return Address(path)


def _tcp(given: str, text: str) -> Address:
    try:
        host, port = parse_address(text)
    except ValueError:
        raise _no_address(given) from None
    return Address("", host, port)


def _no_address(given: str) -> InvalidArgument:
    return InvalidArgument(f"address {given!r}: unix:PATH, a path, tcp://HOST:PORT or HOST:PORT expected")
