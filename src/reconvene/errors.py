"""What can go wrong, by what the caller may conclude from it.

ReconveneError
├─ Malformed            data from outside is not what it should be: counted, dropped or refused, never fatal
├─ InvalidArgument      no request can have this value: nothing was sent. Also a ValueError
├─ Rejected             the site's answer, definite: nothing happened
│  └─ CursorLost        another reader holds the cursor now: what was not committed is that reader's
├─ Unavailable          not now: disk full, shutting down, limit reached. Nothing happened
│  └─ TimedOut          not within the time limit. Nothing happened. Also a TimeoutError
├─ OutcomeUnknown       indefinite: it may have happened, or may yet happen
│  └─ OutcomeTimedOut   no answer within the time limit. Also a TimeoutError
└─ PlaceForgotten       definite: the messages are ordered, but the log no longer knows at which positions

`except TimeoutError` catches every timeout. An argument of a wrong type raises Python's own TypeError.
"""

__all__ = [
    "CursorLost",
    "InvalidArgument",
    "Malformed",
    "OutcomeTimedOut",
    "OutcomeUnknown",
    "PlaceForgotten",
    "ReconveneError",
    "Rejected",
    "TimedOut",
    "Unavailable",
]


class ReconveneError(Exception):
    """The base class of every error that Reconvene raises on purpose."""

    taken: int = 0
    """If many messages were sent at once: how many of them, from the first on, are known to be taken."""


class Malformed(ReconveneError):
    """Data from outside (a datagram, a file, a trace) is not what it should be."""


class InvalidArgument(ReconveneError, ValueError):
    """An argument has a value that no request can have. Nothing was sent."""


class Rejected(ReconveneError):
    """The site refused the request. Nothing happened."""


class CursorLost(Rejected):
    """This reader no longer holds the cursor: another one took it when its lease was over, or it was dropped. Nothing
    that this reader commits counts any more."""


class Unavailable(ReconveneError):
    """The request can't be taken now: a limit is reached, or the site is stopping. Nothing happened."""


class TimedOut(Unavailable, TimeoutError):
    """The time limit passed first. Nothing happened."""


class OutcomeUnknown(ReconveneError):
    """The request may or may not have taken effect, now or later."""


class OutcomeTimedOut(OutcomeUnknown, TimeoutError):
    """The time limit passed before the answer came. The request may or may not have taken effect."""


class PlaceForgotten(ReconveneError):
    """The messages are in the log, in the order, but the log no longer knows at which positions.

    That happens to duplicates: messages that the log had from an earlier append under the same session and numbers,
    and that it has truncated since, or that are too old for the site to remember their places. It also happens to
    messages that an outpost accepted, if they were ordered before it was last started.
    """

    positions: tuple[int | None, ...] = ()
    """Of each message that was asked for, in their order: its position, or None where that is not known."""
