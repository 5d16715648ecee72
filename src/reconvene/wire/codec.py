"""Datagrams to bytes and back.

Promised: for any input, `decode` raises `Malformed` and nothing else. The decoded datagram takes at most about ten
times as much memory as its bytes, whatever lengths they claim.
"""

import msgspec

from reconvene.errors import Malformed
from reconvene.site_list import SiteList
from reconvene.wire.messages import Datagram, Report

__all__ = ["DATAGRAM_BYTES", "decode", "decode_reports", "decode_sites", "encode"]

DATAGRAM_BYTES = 65_507
"""The largest UDP payload: a longer input is not a datagram."""

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Datagram] = msgspec.msgpack.Decoder(Datagram)
_decode = _decoder.decode
_decode_reports = msgspec.msgpack.Decoder(list[Report]).decode
_sites_decoder: msgspec.msgpack.Decoder[SiteList | None] = msgspec.msgpack.Decoder(SiteList | None)


def encode(datagram: Datagram | list[Report] | SiteList | None) -> bytes:
    return _encode(datagram)


def decode(data: bytes) -> Datagram:
    if len(data) > DATAGRAM_BYTES:
        raise Malformed(f"datagram of {len(data)} bytes: at most {DATAGRAM_BYTES} expected")
    try:
        return _decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError) as error:
        raise Malformed(str(error)) from error


def decode_reports(data: bytes | msgspec.Raw) -> list[Report]:
    try:
        return _decode_reports(data)
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError) as error:
        raise Malformed(str(error)) from error


def decode_sites(data: bytes | msgspec.Raw) -> SiteList | None:
    """None: the sender reports nothing about the list."""
    try:
        found = _sites_decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError) as error:
        raise Malformed(str(error)) from error
    if found is not None and not found.sound():
        raise Malformed("a list of sites that contradicts itself")
    return found
