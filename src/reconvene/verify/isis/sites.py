"""Site views: one sequence for all sites, each with a quorum [4.2]."""

from reconvene.errors import Malformed
from reconvene.quorum import Quorum
from reconvene.verify.history import History
from reconvene.verify.isis.judged import IsisCheck
from reconvene.verify.isis_history import Adopted, IsisHistory
from reconvene.verify.quorums import quorum_of
from reconvene.verify.report import Tally

__all__ = ["CHECKS"]


def _sites(h: History, tally: Tally) -> None:
    isis = h.isis
    quorum = _quorum(h)
    by_number = {row.primary: row for row in isis.site_views}
    returned = _returned(isis)
    last: dict[int, Adopted] = {}
    for row in isis.adopted:
        tally.cases += 1
        problem = _problem(isis, row, by_number[row.primary], last.get(row.site), quorum)
        if problem is None and row.primary in returned and by_number[row.primary] is row:
            problem = (
                f"{returned[row.primary]} is back, which an earlier site view had dropped; expected a later born"
            )
        if problem is not None:
            name = isis.sites[row.site]
            tally.violate(h.run.run, name, row.n, f"{name}#{row.n} site view {row.primary}: {problem}")
        last[row.site] = row


def _quorum(h: History) -> Quorum | None:
    try:
        return quorum_of(h.run)
    except Malformed:
        return None  # of a run that is not settled; a settled one is refused


def _problem(
    isis: IsisHistory, row: Adopted, lowest: Adopted, before: Adopted | None, quorum: Quorum | None
) -> str | None:
    if (row.conf, row.members) != (lowest.conf, lowest.members):
        return f"with another configuration or other members than at {_place(isis, lowest)}"
    mine = _own(isis, row)
    if mine is None:
        return "the site is not in it"
    if quorum is not None and not quorum.holds([member.rpartition(":")[0] for member in row.members]):
        return f"{', '.join(row.members)} hold no quorum"
    if before is not None:
        if row.primary <= before.primary:
            return f"its number is not above that of {_place(isis, before)}"
        if row.inc != before.inc and mine in before.members:
            return f"the site crashed since {_place(isis, before)}, and is back as {mine}; expected a later born"
        for between in isis.site_views:
            if before.primary < between.primary < row.primary and mine in between.members and mine in before.members:
                return f"the site was in {_place(isis, between)} too, and did not adopt it"
    return None


def _own(isis: IsisHistory, row: Adopted) -> str | None:
    name = isis.sites[row.site]
    return next((member for member in row.members if member.rpartition(":")[0] == name), None)


def _place(isis: IsisHistory, row: Adopted) -> str:
    return f"{isis.sites[row.site]}#{row.n} site view {row.primary}"


def _returned(isis: IsisHistory) -> dict[int, str]:
    """By site view: a member that an earlier one has, and the one just before lacks."""
    found: dict[int, str] = {}
    known: set[str] = set()
    before: frozenset[str] = frozenset()
    for row in isis.site_views:
        back = sorted((known - before).intersection(row.members))
        if back:
            found[row.primary] = back[0]
        before = frozenset(row.members)
        known |= before
    return found


CHECKS = (
    IsisCheck(
        id="isis.sites",
        layer="isis",
        source="section 4.2",
        case="a `site`",
        violated="the lowest one of the same number has another configuration or other members; or the site is not in"
        " it; or its members hold no quorum; or its number is not above that of the site's last one; or the site"
        " crashed between the two and has the same born in both; or, between the two, there is one that has the site"
        " with the same born; or a `SITE:BORN` is back that the one before lacks",
        check=_sites,
    ),
)
