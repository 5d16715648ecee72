"""One total order in each configuration: all-ack and ATOP behind one interface."""

from reconvene.core.options import Options
from reconvene.core.order.all_ack import AllAck
from reconvene.core.order.atop import Atop
from reconvene.core.order.engine import Key, Note, OrderEngine, Stamp
from reconvene.core.order.policies import make_policy

__all__ = ["AllAck", "Atop", "Key", "Note", "OrderEngine", "Stamp", "make_engine"]


def make_engine(options: Options, number: int, members: tuple[int, ...], rank: int) -> OrderEngine:
    """The engine of the member with this rank in this configuration. Members are given by ordinal, sorted."""
    match options.order:
        case "all-ack":
            return AllAck(number, len(members), rank, options.eager)
        case "atop":
            policy = make_policy(
                options.policy, members, rank, options.patterns, options.schedule, options.day_offset_ns
            )
            return Atop(number, len(members), rank, options.generator, policy)
        case _:
            raise ValueError(f"unknown order {options.order!r}")
