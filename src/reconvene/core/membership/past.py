"""Whether a site's storage is older than what others know of the site: a directory that was put back.

A site's report carries the random token of its start and the number of its first configuration; both were synced
before the report was sent. Its storage holds every configuration number that it has answered. So each start has a
higher incarnation, another token, and a first number above that of every configuration that the site was in.
"""

from reconvene.ids import counter_of
from reconvene.wire.messages import Report

__all__ = ["contradicts"]


def contradicts(now: Report, known: Report) -> str | None:
    """Why a site that reports `now` can't be the one that has reported `known`, in a few words; None: it can."""
    if not now.token or not known.token:
        return None  # of an older program
    if known.inc > now.inc:
        return f"start {known.inc} is known, and this is its start {now.inc}"
    if known.inc == now.inc:
        return None if known.token == now.token else f"another start {now.inc} is known"
    if counter_of(known.conf) >= counter_of(now.since):
        return f"configuration {counter_of(known.conf)} is known, and it began anew with {counter_of(now.since)}"
    return None
