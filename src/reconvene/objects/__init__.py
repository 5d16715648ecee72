"""Objects that every site has the same copy of, built on the log: also meant to be read, to learn how."""

from reconvene.objects.replicated_map import ReplicatedMap
from reconvene.objects.tally import Tally

__all__ = ["ReplicatedMap", "Tally"]
