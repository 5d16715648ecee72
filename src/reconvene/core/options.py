"""Everything about a site that can be set, with its default, in one place."""

from dataclasses import dataclass, field

__all__ = ["Limits", "Options", "Timing"]

MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Timing:
    """Base times in ns; what depends on the group's size or on round trips is derived from them."""

    beacon_every_ns: int = 100 * MS
    """A sign of life to every site of the cluster; also how foreign sites find each other."""
    gather_every_ns: int = 25 * MS
    """Beacons while a configuration is being found."""
    suspect_base_ns: int = 600 * MS
    suspect_per_site_ns: int = 10 * MS
    """A member unheard for base + per_site · members is suspected; from half of that on it is probed."""
    probe_every_ns: int = 30 * MS
    gather_patience_ns: int = 150 * MS
    """How long a gathering waits for reports that contradict each other to settle."""
    round_patience_ns: int = 500 * MS
    """How long forming and recovering wait for an answer or for progress, plus six round trips."""
    retry_every_ns: int = 30 * MS
    """How often a round's messages are repeated to members that have not answered, or one round trip if longer."""
    leave_out_ns: int = 1000 * MS
    """How long a site that did not answer or make progress is left out; doubled once where it flaps."""
    stall_after_ns: int = 2500 * MS
    """Acks that stand still this long while others wait make a member suspect, plus six round trips."""
    ack_after_ns: int = 20 * MS
    """After this time an idle site acknowledges even what no member waits for."""
    nack_base_ns: int = 10 * MS
    """First repetition of a nack, plus a round trip and a half; doubled each time up to nack_most_ns."""
    nack_most_ns: int = 400 * MS


@dataclass(frozen=True, slots=True)
class Limits:
    """Each says what happens at the limit: the sender waits or gets an error; datagrams are dropped and counted."""

    frame_bytes: int = 8_900
    """A frame's messages together, before its header."""
    packet_bytes: int = 0
    """What of a frame's messages one packet carries, where the shell sends a larger frame as several: each of them
    takes its own room in a receive buffer. 0: a frame is one."""
    message_bytes: int = 16 << 20
    """A larger message is rejected. The same at every site: receivers hold a sender to their own limit."""
    queue_bytes: int = 32 << 20
    queue_messages: int = 100_000
    """Submitted and not yet numbered: beyond it `submit` raises Unavailable."""
    buffer_bytes: int = 212_992
    """This site's receive buffer; the network sliding window fits the smallest among members."""
    channel_bytes: int = 0
    """The part of the receive buffer that is left to channels between sites: the window does not count on it."""
    early_frames: int = 1_000
    """Frames of the next configuration held while it is being installed; more are dropped, and nacked later."""
    ahead_frames: int = 4_096
    """How far beyond what it has a site stores a sender's frames."""

    @property
    def window_bytes(self) -> int:
        """What frames may take of this site's receive buffer."""
        return max(self.buffer_bytes - self.channel_bytes, 1)


@dataclass(frozen=True, slots=True)
class Options:
    order: str = "atop"
    """atop | all-ack"""
    eager: bool = True
    """all-ack: an idle site acks at once (else it waits for its own messages)."""
    generator: str = "low-discrepancy"
    """atop: low-discrepancy | pseudo-random"""
    policy: str = "book-keeper"
    """atop: book-keeper | round-trip | damped | declared | none"""
    patterns: tuple[tuple[int, ...], ...] = ()
    """atop, declared: weights by ordinal, one pattern each."""
    schedule: tuple[tuple[int, int], ...] = ()
    """atop, declared by time of day: (ns since midnight, index in `patterns`) …"""
    day_offset_ns: int = 0
    """… where `now` plus this is ns since some midnight: the core reads no clock."""
    return_unsent: bool = False
    """What waits when a configuration is installed comes back as `Effects.unsent`: the layer above has something to
    settle first, and submits it again. Else it is sent in the new configuration."""
    timing: Timing = field(default_factory=Timing)
    limits: Limits = field(default_factory=Limits)
