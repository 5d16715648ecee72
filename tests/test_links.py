"""scripts/check_links.py finds links that lead nowhere."""

import runpy
from pathlib import Path

import pytest

CHECKER = runpy.run_path(str(Path(__file__).parents[1] / "scripts/check_links.py"))

OTHER = "# Beginning a log, `init`\n## Twice\n```\n# no heading\n```\n## [Twice](x.md)\n"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("[it](other.md)", None),
        ("[it](other.md#beginning-a-log-init)", None),
        ("[it](other.md#twice-1)", None),
        ("[here](#a-page)", None),
        ("[it](https://example.org/#anything)", None),
        ("[it](another.md)", "another.md is not there"),
        ("[it](other.md#no-heading)", "has no heading #no-heading"),
        ("[it](other.md#twice-2)", "has no heading #twice-2"),
        ("[here](#nothing)", "has no heading #nothing"),
    ],
)
def test_links(tmp_path: Path, line: str, found: str | None) -> None:
    (tmp_path / "other.md").write_text(OTHER)
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n{line}\n```\n[code](nothing.md)\n```\n")
    lines = CHECKER["broken"](page)
    if found is None:
        assert lines == []
    else:
        assert len(lines) == 1
        assert lines[0].startswith(f"{page}:3: ")
        assert lines[0].endswith(found)
