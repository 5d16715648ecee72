"""The phases of a configuration at a replica, from recovery (5.5.2) to establishing (5.5.1), as one table.

                                STATES  everyone's state messages are collected
             ┌───────────┬─────────┼─────────┐
             ▼           ▼         ▼         │
          OUTSIDE     FOLLOW    PRIORITY     │ everyone knows of the last primary component
                                   │         │
                                   ▼         ▼
                                    CLAIMS         the lowest timestamps are agreed on
                                       │
                                       ▼
                                     REDS          red batches are exchanged
                                       │
                                       ▼
                                    ATTEMPT        phase 1 of establishing
                                       │   │
                       a quorum is here│   │no quorum is here
                                       ▼   │
                                   COMMIT  │       phase 2
                                       │   │
                                       ▼   ▼
                                      OPEN         regular messages

Each new configuration begins with STATES, in whatever phase the one before it was. A phase that is not in the table
after the present one is a bug of this program: nothing that others send leads there.
"""

from enum import Enum

__all__ = ["NEXT", "Phase", "check_next"]


class Phase(Enum):
    OUTSIDE = "outside"
    """It takes no part: it keeps no log, is no replica, or another storage is known under its name."""
    FOLLOW = "follow"
    """It is too far behind to take part, and catches up while the others go on."""
    STATES = "states"
    """Steps 1 to 4: state messages, and what to do follows from them (`plan`)."""
    PRIORITY = "priority"
    """Step 5: the representative sends what it has green and yellow."""
    CLAIMS = "claims"
    """Of a batch that was sent twice, all keep the lowest timestamp."""
    REDS = "reds"
    """Step 7: red batches that not everyone has are sent again."""
    ATTEMPT = "attempt"
    """Recovered. Establishing, phase 1: everyone says which primary component it attempts, or that it attempts
    none."""
    COMMIT = "commit"
    """Phase 2: everyone commits to it."""
    OPEN = "open"
    """Regular messages are handled and sent."""


NEXT: dict[Phase, frozenset[Phase]] = {
    Phase.STATES: frozenset({Phase.OUTSIDE, Phase.FOLLOW, Phase.PRIORITY, Phase.CLAIMS}),
    Phase.PRIORITY: frozenset({Phase.CLAIMS}),
    Phase.CLAIMS: frozenset({Phase.REDS}),
    Phase.REDS: frozenset({Phase.ATTEMPT}),
    Phase.ATTEMPT: frozenset({Phase.COMMIT, Phase.OPEN}),
    Phase.COMMIT: frozenset({Phase.OPEN}),
    Phase.OUTSIDE: frozenset(),
    Phase.FOLLOW: frozenset(),
    Phase.OPEN: frozenset(),
}


def check_next(phase: Phase, following: Phase) -> Phase:
    """Returns `following`, which has to come after `phase` in the table."""
    assert following in NEXT[phase], f"no way leads from phase {phase.value} to {following.value}"
    return following
