"""Objects that every site has the same copy of, built on the log or on ISIS: also meant to be read, to learn how."""

from reconvene.objects.bulletin import Bulletin, Level, Post
from reconvene.objects.cohort import Cohort, Outcome
from reconvene.objects.cohort_caller import CohortCaller
from reconvene.objects.group_manager import GroupManager, ManagedGroup
from reconvene.objects.lock import Lock, Token
from reconvene.objects.member import Member
from reconvene.objects.replicated import ReplicatedData, ReplicatedDict
from reconvene.objects.replicated_map import ReplicatedMap
from reconvene.objects.resilient import OperationFailed, Resilient, ResilientObject, Work, change, operation
from reconvene.objects.resilient_caller import ResilientCaller
from reconvene.objects.tally import Tally

__all__ = [
    "Bulletin", "Cohort", "CohortCaller", "GroupManager", "Level", "Lock", "ManagedGroup", "Member",
    "OperationFailed", "Outcome", "Post", "ReplicatedData", "ReplicatedDict", "ReplicatedMap", "Resilient",
    "ResilientCaller", "ResilientObject", "Tally", "Token", "Work", "change", "operation",
]  # fmt: skip
