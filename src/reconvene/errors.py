"""What can go wrong, by what the caller may conclude from it.

ReconveneError
├─ Malformed          outside data: counted, dropped or refused, never fatal
├─ Rejected           definite: nothing happened
│  └─ InvalidArgument  and nothing was sent: no request can have this value (also a ValueError)
├─ OutcomeUnknown     indefinite: it may yet happen
└─ Unavailable        not now: disk full, shutting down, limit reached
"""

__all__ = ["InvalidArgument", "Malformed", "OutcomeUnknown", "ReconveneError", "Rejected", "Unavailable"]


class ReconveneError(Exception):
    """The root of every error that Reconvene raises on purpose."""

    taken: int = 0
    """Where many messages were sent at once: how many of them, from the first on, are known to be taken."""


class Malformed(ReconveneError):
    """Data from outside (a datagram, a file, a trace) is not what it should be."""


class Rejected(ReconveneError):
    """The request was refused; nothing happened."""


class InvalidArgument(Rejected, ValueError):
    """An argument has a value that no request can have: nothing was sent."""


class OutcomeUnknown(ReconveneError):
    """The request may or may not have taken effect, now or later."""


class Unavailable(ReconveneError):
    """The request can't be taken now: a limit is reached, or the site is stopping."""
