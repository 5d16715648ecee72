"""Every relative link in the documentation leads to a file that is there."""

import re
import sys
from pathlib import Path

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|\b(?:src|href)=\"([^\"]+)\"")


def broken(page: Path) -> list[str]:
    found = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        for match in LINK.finditer(line):
            target = (match[1] or match[2]).partition("#")[0]
            if target and "://" not in target and not (page.parent / target).exists():
                found.append(f"{page}:{number}: {target} is not there")
    return found


def main() -> int:
    folders = (Path(name) for name in ("docs", "contrib", "examples"))
    pages = sorted([*Path().glob("*.md"), *(page for folder in folders for page in folder.rglob("*.md"))])
    found = [line for page in pages for line in broken(page)]
    print("\n".join(found) if found else f"Links: {len(pages)} pages, all lead somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
