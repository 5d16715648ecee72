"""Writes docs/configuration.md from the configuration's schema. `--check`: is it up to date?"""

import ast
import re
import sys
from pathlib import Path
from typing import Any

from reconvene.runtime.config import settings as config
from reconvene.runtime.config.schema import Key, Kind, keys
from reconvene.units import exact_size, show_duration

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "reconvene" / "runtime" / "config" / "settings.py"
PAGE = ROOT / "docs" / "configuration.md"

INTRODUCTION = """\
# Configuration
Made from `src/reconvene/runtime/config/settings.py` by `scripts/config_doc.py`: change it there.

A site is told everything in one TOML file, `reconvene node --config site.toml`, or in a `reconvene.Config` with the
same names (durations there are ns, under the name with `_ns`). `reconvene node --config site.toml --check` says
whether the file is good, and what follows from it. Only `cluster`, `name`, `dir`, `[sites]` and a key are needed:
```toml
cluster = "shop"
name = "berlin"                 # the only line that differs from site to site
dir = "/var/lib/reconvene"

[sites]
berlin = "10.0.1.5:7000"
hamburg = "10.0.2.5:7000"
munich = "10.0.3.5:7000"

[seal]
keys = ["/etc/reconvene/cluster.key"]   # made by: reconvene keygen

[http]
address = "127.0.0.1:7080"
```

| written | means |
| --- | --- |
| duration | a number with ns, us, ms, s, min, d (24 hours) or w (7 days): `"600ms"`, `"1.5s"`, `"30d"` |
| size | bytes as a number, or with B, kB, KiB, MB, MiB, GB or GiB: `65536`, `"4MiB"` |
| address | `"host:port"`; an IPv6 host stands in brackets: `"[fd00::1]:7000"` |
| path | relative ones start from the file's own directory; `~` is a home directory |
| name | up to 64 letters, digits, `.`, `_` and `-`, a letter or digit first |

A key that is not listed here is an error, and so is a value outside its range. `cluster` has to be the
same at every site, and so has every key whose text says it. `[sites]` has to be the same at all sites with the same
`sites_version`.
"""

KINDS = {
    Kind.TEXT: "string",
    Kind.TEXTS: "list of strings",
    Kind.FLAG: "true or false",
    Kind.WHOLE: "number",
    Kind.SIZE: "size",
    Kind.DURATION: "duration",
    Kind.PATH: "path",
    Kind.PATHS: "list of paths",
    Kind.ADDRESS: "address",
    Kind.ADDRESSES: "table of name = address",
    Kind.QUORUM: "table",
}


def explanations(source: str) -> dict[tuple[str, str], str]:
    """(struct, field) to what its docstring says; (struct, "") to the struct's own."""
    found: dict[tuple[str, str], str] = {}
    for struct in ast.parse(source).body:
        if not isinstance(struct, ast.ClassDef):
            continue
        found[struct.name, ""] = one_line(ast.get_docstring(struct) or "")
        field = ""
        for node in struct.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                field = node.target.id
            elif field and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                found[struct.name, field] = one_line(str(node.value.value))
                field = ""
    return found


def one_line(text: str) -> str:
    """With bars that don't end a cell, and other pages as links."""
    return re.sub(r"\b([a-z]+)\.md\b", r"[\1](\1.md)", " ".join(text.split()).replace("|", "\\|"))


def kind(key: Key) -> str:
    if key.choices:
        return " \\| ".join(f'`"{choice}"`' for choice in key.choices)
    words = KINDS[key.kind]
    if key.least is None or key.most is None:
        return words
    return f"{words}, {shown(key, key.least)} to {shown(key, key.most)}"


def shown(key: Key, value: Any) -> str:
    match key.kind:
        case Kind.DURATION:
            return show_duration(value, days=True) if value else "0s"
        case Kind.SIZE:
            return exact_size(value)
        case Kind.FLAG:
            return str(value).lower()
        case Kind.WHOLE:
            return f"0o{value:o}" if key.name.endswith("_mode") else f"{value:,}"
        case _:
            return "" if value is None else str(value)


def default(key: Key) -> str:
    if key.required:
        return "required"
    if key.default is None:
        return ""
    if key.kind in (Kind.PATHS, Kind.TEXTS):
        return "`[]`"
    if key.kind is Kind.QUORUM:
        return f'`{{ kind = "{key.default["kind"]}" }}`'
    text = shown(key, key.default).replace(",", "")
    quoted = key.kind in (Kind.CHOICE, Kind.TEXT, Kind.DURATION) or (key.kind is Kind.SIZE and not text.isdigit())
    return f'`"{text}"`' if quoted else f"`{text}`"


def section(title: str, struct: type, said: dict[tuple[str, str], str]) -> str:
    lines = [f"## {title}"]
    if said[struct.__name__, ""]:
        lines.append(said[struct.__name__, ""])
    lines += ["", "| key | value | default | |", "| --- | --- | --- | --- |"]
    for key in keys(struct):
        if key.kind is not Kind.TABLE:
            text = said[struct.__name__, key.field]
            lines.append(f"| `{key.name}` | {kind(key)} | {default(key)} | {text} |")
    return "\n".join(lines) + "\n"


def sections(prefix: str, struct: type, said: dict[tuple[str, str], str]) -> list[str]:
    made: list[str] = []
    for key in keys(struct):
        if key.struct is not None:
            name = f"{prefix}{key.name}"
            made += [section(f"[{name}]", key.struct, said), *sections(f"{name}.", key.struct, said)]
    return made


def page(source: str) -> str:
    said = explanations(source)
    top = section("The top of the file", config.Config, said)
    return INTRODUCTION + "\n" + "\n".join([top, *sections("", config.Config, said)])


def main() -> int:
    made = page(SOURCE.read_text(encoding="utf-8"))
    if "--check" in sys.argv[1:]:
        current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == made
        says = "is up to date" if current else "is not up to date: run scripts/config_doc.py"
        print(f"docs/configuration.md {says}")
        return 0 if current else 1
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
