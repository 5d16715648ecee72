"""Connections of asyncio, alike in every version of Python."""

import asyncio
from contextlib import suppress

__all__ = ["abort"]


def abort(transport: asyncio.WriteTransport) -> None:
    """Drops the connection at once, however far it is closed already."""
    # In Python 3.11.2, as Debian has it, `abort` raises for a connection over TLS that was closed twice.
    with suppress(AttributeError):
        transport.abort()
