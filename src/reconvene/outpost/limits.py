"""Everything about an outpost that can be set, with its default, in one place."""

from dataclasses import dataclass

from reconvene.wire.client_log import FORWARD_WINDOW_BYTES

__all__ = ["OutpostLimits"]


@dataclass(frozen=True, slots=True)
class OutpostLimits:
    messages: int = 1_000_000
    bytes: int = 1 << 30
    """Messages that the outpost has not read back green yet: at either, `append` raises Unavailable."""
    message_bytes: int = (16 << 20) - (64 << 10)
    """A larger message is rejected."""
    batch_bytes: int = 64 << 10
    """Of the messages that are stored under one key; a larger message is alone."""
    batch_messages: int = 4_096
    close_bytes: int = 4 << 20
    """Of what is written and synced together."""
    cache_bytes: int = 32 << 20
    """Of messages that are kept in memory though stable storage has them."""
    forward_bytes: int = 256 << 10
    forward_messages: int = 8_192
    """Of the messages that are forwarded in one request."""
    window_bytes: int = FORWARD_WINDOW_BYTES - (1 << 20)
    window_requests: int = 256
    """Of messages that were sent to a site and are not answered."""
    confirm_messages: int = 8_192
    """Places that are asked for at once."""
    patience_ns: int = 5_000_000_000
    """A site that makes no progress for so long is left for the next one. Where answers take long this is not enough
    at any site: it doubles each time that a site was left for that, …"""
    patience_most_ns: int = 80_000_000_000
    """… up to this, and shrinks again to four times what a confirmation takes."""
    retry_ns: int = 100_000_000
    """Before the next site is tried; doubled after each round of all sites that failed …"""
    retry_most_ns: int = 250_000_000
    """… up to this."""
