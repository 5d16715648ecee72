"""Why a component may or may not order, in one sentence: who is missing, and which session is open.

Given: what `Voting` decides by. Promised: the sentence says what `Voting` says; it decides nothing itself.
"""

from collections.abc import Collection, Mapping

from reconvene.corel.replicas.sets import ReplicaSet
from reconvene.corel.replicas.voting import Voting
from reconvene.voting import Evidence, Session, may_attempt

__all__ = ["reason", "whatif"]


def reason(
    voting: Voting, here: Collection[str], names: Mapping[int, str], *, primary: int, recovering: str | None
) -> str:
    """`here`: the participants of this configuration. `names`: of replicas, by number. `recovering`: the phase, until
    the configuration is open."""
    shown = ", ".join(here) or "no replica"
    if primary:
        sets = voting.sets()
        everyone, kind = ", ".join(sets[0].names()), str(sets[0].quorum.get("kind"))
        dynamic = f"the last established session; the replicas are {everyone}"
        ground = dynamic if sets[0].voters() is not None else f"a quorum ({kind}) of {everyone}"
        return f"{shown} may order: primary component {primary} is {ground}."
    if recovering is not None:
        return f"{shown} may not order yet: recovery is not over (phase {recovering})."
    for replicas in voting.sets():
        why = _missing(replicas, here, voting.evidence(), names)
        if why is not None:
            change = "" if replicas == voting.sets()[0] else " (a set that a pending change would make)"
            return f"{shown} may not order: {why}{change}."
    if voting.told is not None and voting.told.beyond:
        return f"{shown} may not order: one of them has messages of a primary component that none of them knows."
    return f"{shown} may not order: some of them have empty storages, or keep too many open sessions."


def whatif(
    voting: Voting, here: Collection[str], lost: Collection[str], names: Mapping[int, str], primary: int
) -> dict[str, object]:
    """What losing these sites would stop: whether the rest of those here could go on, and whether all others could if
    they were connected. Where those here do not order now, that is by the sessions that they know of: there may be a
    later one elsewhere."""
    rest = [name for name in here if name not in lost]
    others = [name for name in voting.sets()[0].names() if name not in lost]
    found: dict[str, object] = {"lost": sorted(lost), "rest": rest, "ordering": primary > 0}
    for key, left in (("orders", rest), ("orders_with_all", others)):
        why = next((why for one in voting.sets() if (why := _missing(one, left, voting.evidence(), names))), None)
        found[key] = why is None
        found[f"{key}_why"] = f"{', '.join(left) or 'no replica'} may order" if why is None else why
    return found


def _missing(replicas: ReplicaSet, here: Collection[str], evidence: Evidence, names: Mapping[int, str]) -> str | None:
    """Why these may not order by this set; None: they may."""
    absent = [name for name in replicas.names() if name not in here]
    missing = f"missing: {', '.join(absent) or 'nobody'}"
    voters = replicas.voters()
    if voters is None:
        if replicas.quorum_holds(here):
            return None
        kind = replicas.quorum.get("kind")
        return f"they are no quorum ({kind}) of {', '.join(replicas.names())}; {missing}"
    present = [number for name in here if (number := replicas.number_of(name)) is not None]
    if may_attempt(present, voters, evidence):
        return None
    if voters.lacks(present):
        return f"{len(present)} of at least {voters.minimum} replicas (the minimum) are here; {missing}"
    for session in (evidence.known, *evidence.live):
        if not session.sub_quorum(present):
            lacking = [_name(number, names) for number in session.numbers() if number not in present]
            state = "was established last" if session == evidence.known else "is open: it may have been established"
            return (
                f"session {session.number} ({_members(session, names)}) {state}, and they hold no sub-quorum of it;"
                f" missing: {', '.join(lacking)}"
            )
    return missing


def _members(session: Session, names: Mapping[int, str]) -> str:
    return ", ".join(_name(number, names) for number in session.numbers())


def _name(number: int, names: Mapping[int, str]) -> str:
    return names.get(number, f"#{number}")
