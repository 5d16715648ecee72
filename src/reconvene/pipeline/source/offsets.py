"""Where a stream stands: a position, and the state of the log's clock there.

A stream that has not found a replica yet stands at the word, or the number, that it was told. The first offset after
that also says where it began, so that a batch that is repeated begins there too.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from reconvene.errors import Malformed, Rejected
from reconvene.pipeline.source.clock import AuthorState, ClockState

__all__ = ["Mark", "Offset", "decode_offset", "encode_offset", "initial_offset", "waited_at"]


class Mark(Struct, frozen=True, omit_defaults=True):
    position: int
    time: int | None = None
    """The log's, ns; None: nothing was written yet."""
    authors: tuple[AuthorState, ...] = ()

    @property
    def clock(self) -> ClockState:
        return self.time, self.authors


class Offset(Struct, frozen=True, omit_defaults=True):
    mark: Mark
    cluster: str
    """A checkpoint is of one log's positions, which mean nothing in another's."""
    since: Mark | None = None
    waited: int = 0
    """How often nobody answered here: see `waited_at`."""

    def check(self, cluster: str) -> None:
        if cluster != self.cluster:
            raise Rejected(
                f"the checkpoint is of the log of cluster {self.cluster}, and the replicas are of {cluster}: use "
                "another checkpoint location, or correct `addresses`"
            )


def initial_offset(start: int | str) -> dict[str, Any]:
    """Before any replica was asked."""
    return {"start": start}


def waited_at(told: Mapping[str, Any]) -> dict[str, Any]:
    """The same place, and another offset: what Spark takes for news, so that a query goes on that would end without.
    There are no rows between the two."""
    return {**told, "waited": told.get("waited", 0) + 1}


def encode_offset(offset: Offset) -> dict[str, Any]:
    encoded: dict[str, Any] = msgspec.to_builtins(offset)
    return encoded


def decode_offset(told: Mapping[str, Any]) -> Offset | None:
    """None for an initial one. Raises Malformed."""
    if "start" in told:
        return None
    try:
        return msgspec.convert(told, Offset)
    except msgspec.ValidationError as error:
        raise Malformed(
            f"the checkpoint's offset is not one of this source: {error}; expected a checkpointLocation of its own "
            "for each query"
        ) from None
