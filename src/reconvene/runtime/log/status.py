"""The log's status for people and programs, as JSON-able data."""

from collections.abc import Sequence

from msgspec import to_builtins

from reconvene.corel.following.pulling import Pulling
from reconvene.corel.replica import Replica

__all__ = ["Authors", "follow_status", "losses", "status"]


class Authors:
    """Names of authors by their numbers in the log. A number's name never changes, so it is looked up once."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._names: dict[int, str] = {}

    def __call__(self, number: int) -> str:
        name = self._names.get(number)
        if name is None:
            name = self._replica.name_of(number)
            if number in self._replica.record.names:
                self._names[number] = name
        return name


def status(replica: Replica, storage: str) -> dict[str, object]:
    queue, record, accepting = replica.queue, replica.record, replica.accepting
    greens = {name: replica.green_lines.get(name, 0) for name in record.replicas.names()}
    if replica.name in greens:
        greens[replica.name] = queue.green
    return {
        "enabled": replica.keeps,
        "replica": replica.is_replica,
        "waits": replica.waits,
        "left_out": replica.left_out,
        "why": replica.why,
        "number": queue.own,
        "phase": replica.phase.value,
        "primary": replica.primary,
        "last_primary": record.last_committed_primary,
        "base": queue.base.position,
        "green": replica.green,
        "yellow": queue.yellow_messages,
        "red": queue.red_messages,
        "unlogged": accepting.pending + sum(waiting.heading.count for waiting in queue.accepted),
        "own": {"messages": accepting.open_messages, "bytes": accepting.open_bytes},
        "participants": sorted(replica.participants),
        "strangers": list(replica.strangers),
        "replicas": {
            each.name: {"number": each.number, "green": greens[each.name], "lag": queue.green - greens[each.name]}
            for each in record.replicas.replicas
        },
        "quorum": dict(record.replicas.quorum),
        "forced": record.forced,
        "snapshot": replica.snapshots.status(),
        "malformed": replica.malformed,
        "storage": storage,
    }


def follow_status(pulling: Pulling) -> dict[str, object]:
    """Of a follower: from where it pulls, and how far behind it is."""
    return {
        "of": pulling.follower.origin or None,
        "source": pulling.source,
        "sources": list(pulling.sources),
        "head": pulling.head,
        "behind": pulling.behind,
        "refused": dict(pulling.refused),
        "trouble": dict(pulling.trouble),
    }


def losses(replica: Replica, lost: Sequence[str]) -> dict[str, object]:
    """What may be lost with these replicas. Raises Rejected if one of them is not a replica."""
    found: dict[str, object] = to_builtins(replica.losses(lost))
    return found
