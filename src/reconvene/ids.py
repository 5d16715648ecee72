"""Names and numbers that everything else is identified by.

A *site* has a stable name and, inside the cluster, an *ordinal* or number: its place among all names that the list of
sites ever had (`reconvene.site_list`). It never changes. The core speaks of ordinals only; names come back where
people and files are met.
"""

from collections.abc import Sequence
from enum import IntEnum

from msgspec import Struct

__all__ = [
    "MAX_SITES",
    "UNNAMED",
    "ConfigurationId",
    "MessageId",
    "Service",
    "configuration_number",
    "counter_of",
    "message_id",
    "proposer_of",
    "short_number",
]

MAX_SITES = 64
"""Sites in one cluster. Hearing is exchanged as a 64-bit mask, which sets the limit."""

UNNAMED = "unnamed"
"""The name of a snapshot that was saved without one, as programs did before snapshots had names."""

_ORDINAL_BITS = 16


class Service(IntEnum):
    """What is promised of a message's delivery; each includes the ones before it but fifo's order."""

    FIFO = 0
    CAUSAL = 1
    AGREED = 2
    SAFE = 3

    @property
    def label(self) -> str:
        return self.name.lower()


def configuration_number(counter: int, ordinal: int) -> int:
    """A number that no other site can make: two components can't both form number 7."""
    return (counter << _ORDINAL_BITS) | ordinal


def counter_of(number: int) -> int:
    return number >> _ORDINAL_BITS


def proposer_of(number: int) -> int:
    """The ordinal of the site that made it."""
    return number & ((1 << _ORDINAL_BITS) - 1)


def short_number(number: str, sites: Sequence[str]) -> str:
    """A configuration's number as people say it: 4a, which counts 4 and was proposed by a. `sites`: all, sorted."""
    if not number.isdecimal() or proposer_of(int(number)) >= len(sites):
        return number or "-"
    return f"{counter_of(int(number))}{sites[proposer_of(int(number))]}"


def message_id(sender: str, incarnation: int, counter: int) -> str:
    return f"{sender}:{incarnation}:{counter}"


class MessageId(Struct, frozen=True, array_like=True):
    """Of a message, or of a cast, between clusters. People see it as DOMAIN/SITE:INCARNATION:COUNTER."""

    domain: str
    site: str
    incarnation: int
    counter: int

    def __str__(self) -> str:
        return message_id(f"{self.domain}/{self.site}", self.incarnation, self.counter)


class ConfigurationId:
    """How configurations are written in traces: a regular one by its number, a transitional one by the two
    regular ones that it lies between."""

    @staticmethod
    def regular(number: int) -> str:
        return str(number)

    @staticmethod
    def transitional(old: int, new: int) -> str:
        return f"{old}+{new}"
