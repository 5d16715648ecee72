"""What may be lost with replicas that are given up, as far as it is known here, for the operator who has to decide.

What is green anywhere is on the disk of every member of the primary component that ordered it. So where every quorum
has a member here, nothing that was ordered can be missing here. Where the absent replicas are a quorum by themselves,
they may have gone on ordering without this site.
"""

from collections.abc import Collection

from msgspec import Struct

from reconvene.corel.keeping.layout import Record
from reconvene.corel.paper.queue import Queue
from reconvene.corel.replicas.current import CurrentReplicas
from reconvene.corel.replicas.voting import Voting
from reconvene.errors import Rejected

__all__ = ["Losses", "LostReplica", "check_force", "losses"]


class LostReplica(Struct, frozen=True):
    green: int
    """The highest green line that it was heard to have."""
    accepted: int
    """Counter of the last of its messages that is here."""


class Losses(Struct, frozen=True):
    lost: list[str]
    kept: list[str]
    absent: list[str]
    """Those of the kept ones that are not here now."""
    green: int
    """Positions below it are safe."""
    ordered_here: int
    """Positions below it are here; from `green` on they were perhaps ordered otherwise elsewhere."""
    last_primary: int
    """The last primary component that is known here …"""
    last_members: list[str]
    """… and its members, if this replica was one."""
    ordered: bool
    """Messages that were ordered, and reported so, may be lost."""
    replicas: dict[str, LostReplica]
    """Of each that is lost, what is known."""
    may_lose: list[str]
    """All of it for people to read, a sentence each."""


def losses(
    current: CurrentReplicas,
    voting: Voting,
    record: Record,
    queue: Queue,
    here: Collection[str],
    lost: Collection[str],
) -> Losses:
    """`here`: the replicas that take part in this configuration. Raises Rejected where a lost one is no replica."""
    replicas = current.set
    replicas.forced_without(lost)
    kept = [name for name in replicas.names() if name not in lost]
    absent = [name for name in kept if name not in here]
    known = {}
    for name in sorted(lost):
        number = replicas.number_of(name)
        assert number is not None, "forced_without has looked"
        known[name] = LostReplica(current.green_lines.get(name, 0), queue.last.get(number, 0))
    ordered = voting.without(here)
    members = record.commit_members if record.committed_here == record.last_committed_primary else ()
    highest = max((replica.green for replica in known.values()), default=0)
    words = []
    if ordered:
        words.append(
            "The replicas that are not here may have gone on ordering without this site: what they ordered from"
            f" position {queue.green} on, if anything, is lost, also where its position was reported."
        )
    else:
        words.append("Nothing that was ordered is lost: every quorum has a member here.")
    if highest > queue.yellow_line:
        words.append(f"Positions up to {highest} were ordered; here are only those up to {queue.yellow_line}.")
    words += [
        f"What {name} accepted after its message {replica.accepted} is lost, if no other replica has it. How much"
        " that is, is not known here."
        for name, replica in known.items()
    ]
    if members:
        words.append(
            f"The last primary component known here is {record.last_committed_primary}: {', '.join(members)}."
        )
    else:
        words.append(f"The last primary component known here is {record.last_committed_primary}, as others reported.")
    if absent:
        words.append(f"Not lost, but not here either: {', '.join(absent)}.")
    words.append(
        f"If {', '.join(sorted(lost))} should come back, their storage has to be emptied before they are added again."
    )
    return Losses(
        lost=sorted(lost),
        kept=kept,
        absent=absent,
        green=queue.green,
        ordered_here=queue.yellow_line,
        last_primary=record.last_committed_primary,
        last_members=list(members),
        ordered=ordered,
        replicas=known,
        may_lose=words,
    )


def check_force(voting: Voting, here: Collection[str], kept: Collection[str]) -> None:
    """Raises Rejected where a replica that is kept may have gone on with the lost: two histories would meet in it."""
    absent = [name for name in kept if name not in here]
    if absent and voting.without(here):
        raise Rejected(
            f"replicas: {', '.join(absent)}: neither lost nor here, and perhaps further on than this site: connect to"
            " them first, or give them up too"
        )
