"""All mutants, bottom up."""

from tests.mutants import evs, membership, multicast, order, recovery

__all__ = ["MUTANTS"]

MUTANTS = [*multicast.MUTANTS, *order.MUTANTS, *evs.MUTANTS, *recovery.MUTANTS, *membership.MUTANTS]
