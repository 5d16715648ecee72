"""docs/checks.md says of every check what a case is: its tables are what the checks declare.

REWRITE=1 writes the declarations into the rows that are there; the row of a new check is added by hand, with its id.
"""

import os
import re
from pathlib import Path

from reconvene.trace.events import Row, Run
from reconvene.verify.checks import CHECKS

DOCS = Path(__file__).parents[2] / "docs"
ROW = re.compile(r"^\| `([a-zA-Z0-9.-]+)` \|.*$", re.MULTILINE)


def test_every_check_has_its_row_in_the_docs() -> None:
    page = DOCS / "checks.md"
    declared = {check.id: f"| `{check.id}` | {check.case} | {check.violated} |" for check in CHECKS}
    if os.environ.get("REWRITE"):
        page.write_text(ROW.sub(lambda row: declared.get(row[1], row[0]), page.read_text()))
    assert {row[1]: row[0] for row in ROW.finditer(page.read_text())} == declared


def test_every_field_is_in_the_docs() -> None:
    text = (DOCS / "traces.md").read_text()
    for name in (*Row.__struct_fields__, *Run.__struct_fields__):
        assert f"`{name}`" in text
