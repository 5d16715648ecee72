"""Everything about the log that can be set, with its default, in one place."""

from dataclasses import dataclass

__all__ = ["LogLimits"]


@dataclass(frozen=True, slots=True)
class LogLimits:
    batch_bytes: int = 8_192
    """Of one batch's messages together; a larger message is a batch of its own. Best a little less than a frame."""
    batch_messages: int = 10_000
    message_bytes: int = (16 << 20) - (64 << 10)
    """A larger message is rejected. Less than the site's own limit: a batch has a heading."""
    red_messages: int = 1_000_000
    red_bytes: int = 1 << 30
    """Messages of this replica's own that are not green yet: at either, `append` raises Unavailable."""
    close_bytes: int = 4 << 20
    """Of the batches that are made, and synced, together."""
    turn_bytes: int = 2 << 20
    """Of what is handled in one turn (`pace`): the rest waits for the next one."""
    turn_messages: int = 8_192
    """Changes of so many messages, and of one batch more, are reported in one turn: a trace has a row for each."""
    cache_bytes: int = 32 << 20
    """Of bodies kept in memory though stable storage has them."""
    sessions: int = 10_000
    """Client sessions that are remembered. The one that was silent for longest is forgotten, and what it sends again
    is taken again. The same number of transactions is remembered besides. It has to be the same at every replica."""
    snapshot_bytes: int = 256 << 20
    """Of a snapshot of an application's state machine: a larger one is rejected."""
    keep_bytes: int = 64 << 20
    """Of green batches that are kept for readers though every replica has them and a snapshot covers them."""
    retain_bytes: int | None = None
    retain_age_ns: int | None = None
    """Of green batches: what is beyond either is deleted, even where a replica lacks it. None: no such limit."""
    staged_age_ns: int = 3_600 * 10**9
    """Staged messages of this age may be deleted with what a snapshot covers: no commit is expected to name them any
    more."""
