"""The errors of sites as HTTP statuses. `outcome` says whether something may have happened."""

from typing import Final

from reconvene.corel.clients.refusals import NoRoom, SessionConflict
from reconvene.entries import Truncated
from reconvene.errors import InvalidArgument, Malformed, OutcomeUnknown, ReconveneError, Rejected
from reconvene.runtime.http.answers import Refusal

__all__ = ["REFUSED", "UNKNOWN", "refused"]

REFUSED: Final = "refused"
UNKNOWN: Final = "unknown"
_RETRY_S = 1


def refused(error: ReconveneError) -> Refusal:
    why = str(error)
    match error:
        case OutcomeUnknown():
            return Refusal(504, why, UNKNOWN)
        case SessionConflict():
            return Refusal(409, why, REFUSED)
        case Truncated():
            return Refusal(410, why, REFUSED)
        case InvalidArgument() | Malformed():
            return Refusal(400, why, REFUSED)
        case Rejected():
            return Refusal(421, why, REFUSED)  # this site can't do that: another one may
        case NoRoom():
            return Refusal(429, why, REFUSED, _RETRY_S)
        case _:
            return Refusal(503, why, REFUSED, _RETRY_S)
