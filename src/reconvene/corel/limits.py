"""Everything about the log that can be set, with its default, in one place."""

from dataclasses import dataclass

__all__ = ["LogLimits"]


@dataclass(frozen=True, slots=True)
class LogLimits:
    batch_bytes: int = 8_192
    """Of one batch's messages together; a larger message is a batch of its own. Best a little less than a frame."""
    batch_messages: int = 10_000
    message_bytes: int = 15 << 20
    """A larger message is rejected. Less than the site's own limit: a batch has a heading."""
    red_messages: int = 1_000_000
    red_bytes: int = 1 << 30
    """Messages of this replica's own that are not green yet: at either, `append` raises Unavailable."""
    close_bytes: int = 4 << 20
    """Of the batches that are made, and synced, together."""
    cache_bytes: int = 32 << 20
    """Of bodies kept in memory though stable storage has them."""
