"""Writes the golden traces: python -m tests.golden.build [DIRECTORY]

good/NAME must pass, bad/CHECK--WHAT must violate CHECK (expected.json names all that it violates), refused/NAME
cannot be judged (expected.json has the words that the error line must contain); good-domains/ and bad-domains/ are
the same of domains. A test writes them again and compares
them byte for byte.
"""

import json
import shutil
import sys
from pathlib import Path

from tests.golden import (
    bad_basic,
    bad_filter,
    bad_isis_delivery,
    bad_isis_groups,
    bad_isis_order,
    bad_log_colors,
    bad_log_following,
    bad_log_order,
    bad_log_phases,
    bad_log_voting,
    bad_order,
    refused_filter,
    refused_isis,
    refused_log,
)
from tests.golden.bad_wide import BROKEN_WIDE
from tests.golden.broken import BROKEN
from tests.golden.good import GOOD
from tests.golden.isis_good import GROUPED
from tests.golden.log_good import LOGGED
from tests.golden.processes import FILTERED
from tests.golden.refused import REFUSED, TORN, write_pair
from tests.golden.wide_good import WIDE

EXPECTED = "expected.json"
_REGISTERED = (
    bad_basic,
    bad_order,
    bad_filter,
    bad_log_order,
    bad_log_colors,
    bad_log_phases,
    bad_log_voting,
    bad_log_following,
    bad_isis_delivery,
    bad_isis_order,
    bad_isis_groups,
    refused_filter,
    refused_isis,
    refused_log,
)
"""Imported for the traces that they add to BROKEN and REFUSED."""


def build(directory: Path) -> None:
    for kind in ("good", "bad", "refused", "good-domains", "bad-domains"):
        shutil.rmtree(directory / kind, ignore_errors=True)
    for tell in (*GOOD, *FILTERED, *LOGGED, *GROUPED):
        story = tell()
        story.write(directory / "good" / story.name)
    for name, damage in TORN:
        write_pair(directory / "good" / name)
        damage(directory / "good" / name)
    for bad in BROKEN:
        target = directory / "bad" / bad.name
        story = bad.tell()
        story.name = bad.name
        story.write(target)
        _expect(target, {"violated": sorted([bad.check, *bad.also])})
    for tell_wide in WIDE:
        wide = tell_wide()
        wide.write(directory / "good-domains" / wide.name)
    for worse in BROKEN_WIDE:
        target = directory / "bad-domains" / worse.name
        worse.tell().write(target)
        _expect(target, {"violated": sorted([worse.check, *worse.also])})
    for case in REFUSED:
        target = directory / "refused" / case.name
        write_pair(target)
        case.spoil(target)
        _expect(target, {"says": list(case.says)})


def _expect(directory: Path, document: dict[str, list[str]]) -> None:
    (directory / EXPECTED).write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    build(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
