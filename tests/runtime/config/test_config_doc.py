"""docs/configuration.md agrees with the schema."""

import subprocess
import sys
from pathlib import Path

from msgspec import Struct

from reconvene.runtime.config.file import load
from reconvene.runtime.config.schema import keys
from reconvene.runtime.config.settings import Config

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "configuration.md"


def test_it_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "config_doc.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def described(struct: type[Struct], place: str) -> None:
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {place}\n")[2].partition("\n## ")[0]
    for key in keys(struct):
        if key.struct is not None:
            inner = f"[{key.name}]" if struct is Config else f"{place[:-1]}.{key.name}]"
            described(key.struct, inner)
            continue
        row = next(line for line in section.splitlines() if line.startswith(f"| `{key.name}` |"))
        assert not row.endswith("|  |"), f"{place} {key.name} has no explanation"


def test_every_key_is_in_it_and_explained() -> None:
    described(Config, "The top of the file")


def test_its_example_is_a_good_file(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8").partition("```toml\n")[2].partition("```")[0]
    (tmp_path / "cluster.key").touch()
    path = tmp_path / "site.toml"
    path.write_text(text.replace("/etc/reconvene", str(tmp_path)))
    assert load(path).names == ("berlin", "hamburg", "munich")
