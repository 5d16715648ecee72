"""docs/messages.md agrees with the code."""

import subprocess
import sys
from pathlib import Path

from reconvene.wire.messages import Datagram, Report

ROOT = Path(__file__).parent.parent.parent


def test_it_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "messages_doc.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_message_and_field_is_in_it() -> None:
    page = (ROOT / "docs" / "messages.md").read_text(encoding="utf-8")
    for struct in (*Datagram.__args__, Report):
        head, _, rest = page.partition(f"\n## {struct.__name__}")
        assert rest, f"{struct.__name__} is missing"
        section = rest.partition("\n## ")[0]
        for field in struct.__struct_fields__:
            assert f"| `{field}` |" in section, f"{struct.__name__}.{field} is missing"
        assert head.startswith("# Messages")
