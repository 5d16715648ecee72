"""What an operator may ask for: to change the replicas, to begin a new log, to go on without lost replicas.

Each function checks one request against what is known here, and raises where it can't be granted.
"""

from collections.abc import Collection, Sequence

from reconvene.corel.paper.plan import Plan
from reconvene.corel.replicas.current import CurrentReplicas
from reconvene.corel.replicas.losses import check_force
from reconvene.corel.replicas.sets import Change, ReplicaSet, encode_change
from reconvene.corel.replicas.standing import Standing
from reconvene.corel.replicas.voting import Voting
from reconvene.errors import Rejected, Unavailable

__all__ = ["check_forced", "check_init", "make_change", "replacement"]


def make_change(
    current: CurrentReplicas, voting: Voting, replicas: ReplicaSet, primary: int, here: Sequence[str]
) -> bytes:
    """The message that makes `replicas` the set. `here`: the participants of the primary component.

    Raises Unavailable where this is no primary component that is a quorum of both sets, or one is under way."""
    if not primary:
        raise Unavailable("replicas change in a primary component only: this site is in none")
    if current.change_under_way():
        raise Unavailable("the last change of the replicas is not ordered yet")
    older = () if voting.told is None or replicas.voters() is None else voting.told.older
    if older:
        raise Unavailable(f"{', '.join(older)}: expected a program that knows dynamic voting: upgrade it first")
    if not voting.may_change(here, replicas):
        raise Unavailable(f"{', '.join(here)}: not a quorum of the new set")
    return encode_change(Change(current.set.age, replicas))


def replacement(current: CurrentReplicas, standing: Standing, pending: int) -> ReplicaSet | None:
    """The set in which a storage that is here takes the place of a lost one; None: nothing is to be done now.
    `pending`: how many messages were appended and are in no batch yet."""
    name = min(standing.replacing)
    if current.change_under_way():
        return None  # one change at a time
    number = current.set.number_of(name)
    if pending or number is None:
        return None
    if standing.record.identities.get(number) == standing.replacing[name]:
        return None  # done: the next configuration brings it in
    return current.set.replaced(name, name)


def check_init(
    replicas: ReplicaSet,
    standing: Standing,
    voting: Voting,
    plan: Plan | None,
    primary: int,
    here: Collection[str],
    without: Collection[str],
) -> None:
    """A new log begins with the replicas that are here. `without`: those that may be absent, since an operator knows
    that they hold no log. Raises Rejected where a log was begun, Unavailable where replicas are absent."""
    for name in sorted(without):
        if replicas.number_of(name) is None:
            raise Rejected(f"log: {name} is none of its replicas: {', '.join(replicas.names())}")
    left_out = standing.left_out
    if left_out is not None:
        raise Rejected(left_out)
    if plan is None:
        raise Unavailable(f"site {standing.name} does not know yet which replicas are here: try again")
    if plan.max_committed or plan.green or primary:
        raise Rejected("log: it has begun already")
    absent = [name for name in replicas.names() if name not in here and name not in without]
    replaced = [name for name in absent if name in standing.replacing]
    if replaced:
        raise Unavailable(
            f"log: {', '.join(replaced)}: replaced, and taken in once the log has begun: name them with --without"
        )
    if absent:
        raise Unavailable(
            f"log: {', '.join(absent)}: not here; start them, or name them with --without if they hold no log"
        )
    if not voting.may_begin(here):
        raise Unavailable(f"log: {', '.join(here)}: not a quorum of its replicas {', '.join(replicas.names())}")


def check_forced(current: CurrentReplicas, voting: Voting, replicas: ReplicaSet, here: Collection[str]) -> None:
    """Raises Rejected where the set is not of a later epoch, or a replica that is kept is not here and may have
    ordered more than this site knows."""
    if replicas.age <= current.set.age or replicas.epoch <= current.set.epoch:
        raise Rejected(
            f"replicas: the epoch must be higher than the current one ({current.set.epoch}), got {replicas.epoch}"
        )
    check_force(voting, here, replicas.names())
