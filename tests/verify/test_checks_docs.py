"""docs/checks.md says of every check what a case is."""

import re
from pathlib import Path

from reconvene.trace.events import Row, Run
from reconvene.verify.engine import CHECKS

DOCS = Path(__file__).parents[2] / "docs"


def test_every_check_has_its_row_in_the_docs() -> None:
    described = re.findall(r"^\| `([a-zA-Z0-9.-]+)` \|", (DOCS / "checks.md").read_text(), re.MULTILINE)
    assert sorted(described) == sorted(CHECKS)


def test_every_field_is_in_the_docs() -> None:
    text = (DOCS / "traces.md").read_text()
    for name in (*Row.__struct_fields__, *Run.__struct_fields__):
        assert f"`{name}`" in text
