"""Rows of groups with the filter that can't be judged. All of them start from the trace `filter-merges`: line 4 of
q's file is a view, line 5 a cast, line 6 a delivery."""

from pathlib import Path

from tests.golden.processes import merges
from tests.golden.refused import edit_row, refused

VIEW, CAST, DELIVER = 4, 5, 6


def _spoil(name: str, line: int, *says: str, **fields: object) -> None:
    """Registers a directory in which this line has these fields instead, or, where they are None, lacks them."""

    @refused(name, f"q.jsonl:{line}", *says)
    def _(directory: Path) -> None:
        merges().write(directory)
        edit_row(directory, line, **fields)


_spoil("filter-in-the-layer-isis", CAST, "`kind` is 'cast'", "cbcast", layer="isis")
_spoil("filter-unknown-kind", CAST, "`kind` is 'shout'", "view, cast, deliver, stop", kind="shout")
_spoil("filter-view-lacks-its-members", VIEW, "`members` is missing", members=None)
_spoil("filter-view-lacks-its-primary", VIEW, "`primary` is missing", primary=None)
_spoil("filter-view-lacks-its-configuration", VIEW, "`conf` is missing", conf=None)
_spoil("filter-view-is-no-number", VIEW, "view", view="10.0")
_spoil("filter-primary-is-no-number", VIEW, "primary", primary=True)
_spoil("filter-members-are-no-list", VIEW, "members", members="p:1:1")
_spoil("filter-cast-lacks-its-group", CAST, "`group` is missing", group=None)
_spoil("filter-cast-lacks-its-message", CAST, "`msg` is missing", msg=None)
_spoil("filter-cast-of-unknown-service", CAST, "`service` is 'loud'", service="loud")
_spoil("filter-cast-lacks-its-service", CAST, "`service` is missing", service=None)
_spoil("filter-delivery-lacks-its-sender", DELIVER, "`sender` is missing", sender=None)
_spoil("filter-delivery-lacks-its-view", DELIVER, "`view` is missing", view=None)
_spoil("filter-delivery-of-nobody", DELIVER, "`process` is missing", process=None)
_spoil("filter-stop-lacks-its-view", DELIVER, "`view` is missing", kind="stop", view=None)
_spoil("filter-process-of-another-node", CAST, "`process` is 'p:1:1'", "q:1:NUMBER", process="p:1:1")
_spoil("filter-process-of-another-incarnation", CAST, "`process` is 'q:2:1'", process="q:2:1")
_spoil("filter-process-without-a-number", CAST, "`process` is 'q:1:x'", process="q:1:x")
_spoil("filter-incarnation-zero", CAST, "inc", inc=0)
