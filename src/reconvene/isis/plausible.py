"""Records that decode, and that no correct site sends: they are counted as malformed, and dropped.

Only what can be seen without knowing the protocols' state is looked at here. What is merely old or out of place is
no error: each protocol ignores what it did not ask for.
"""

from reconvene.isis.events import CastId
from reconvene.isis.messages import (
    Action,
    Answer,
    Ask,
    Copy,
    GiveState,
    HasState,
    Missing,
    Over,
    Propose,
    Record,
    Takeover,
    Verdict,
    WantState,
    Watch,
)

__all__ = ["is_plausible", "is_plausible_action"]


def is_plausible(record: Record, peer: int, here: int) -> bool:
    """`peer` may have sent it to this site."""
    match record:
        case Copy():
            return _is_of(record, record.id)
        case Ask(round=0):
            return _is_of(record, record.id) and record.id.site == peer
        case Ask():
            return _is_of(record, record.id) and record.id.site != here
        case Takeover():
            return _is_of(record.ask, record.ask.id) and record.ask.round > 0
        case Propose(round=0) | Verdict():
            return record.id.site == here
        case Answer():
            return record.id.site == here and record.sender.site == peer
        case Missing():
            return record.id.site == record.sender.site == peer and record.process.site == here
        case Watch():
            return record.process.site == here
        case Over():
            return record.process.site == peer
        case WantState() | HasState():
            return record.newcomer.site == peer and record.member.site == here
        case GiveState():
            return record.member.site == peer and record.newcomer.site == here
        case _:
            return True


def is_plausible_action(action: Action, site: int) -> bool:
    """The site may have announced it: only a process's own site does."""
    return action.process.site == site and (action.id is None or action.id[:2] == action.process[:2])


def _is_of(cast: Copy | Ask, cast_id: CastId) -> bool:
    sender = cast.sender
    return (sender.site, sender.incarnation) == (cast_id.site, cast_id.incarnation) and bool(cast.to)
