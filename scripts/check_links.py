"""Every relative link in the documentation leads to a file that is there, and to a heading that it has."""

import re
import sys
from functools import cache
from pathlib import Path

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|\b(?:src|href)=\"([^\"]+)\"")
HEADING = re.compile(r"^#+ (.+)$")
LINKED = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def broken(page: Path) -> list[str]:
    found = []
    for number, line in enumerate(_prose(page), start=1):
        for match in LINK.finditer(line):
            file, _, anchor = (match[1] or match[2]).partition("#")
            target = page.parent / file if file else page
            if "://" in file:
                continue
            if not target.exists():
                found.append(f"{page}:{number}: {file} is not there")
            elif anchor and target.suffix == ".md" and anchor not in anchors(target.resolve()):
                found.append(f"{page}:{number}: {target} has no heading #{anchor}")
    return found


@cache
def anchors(page: Path) -> set[str]:
    """The names that GitHub gives the page's headings: small letters, `-` for a space, no punctuation. The second
    heading of the same text gets `-1`."""
    found: set[str] = set()
    for line in _prose(page):
        if heading := HEADING.match(line):
            text = LINKED.sub(r"\1", heading[1]).strip().lower()
            name = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            again = 1
            while (unique := name if again == 1 else f"{name}-{again - 1}") in found:
                again += 1
            found.add(unique)
    return found


def _prose(page: Path) -> list[str]:
    """Its lines. Those of code blocks are empty."""
    lines, in_code = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        fence = line.lstrip().startswith("```")
        in_code ^= fence
        lines.append("" if in_code or fence else line)
    return lines


def main() -> int:
    folders = (Path(name) for name in ("docs", "contrib", "examples"))
    pages = sorted([*Path().glob("*.md"), *(page for folder in folders for page in folder.rglob("*.md"))])
    found = [line for page in pages for line in broken(page)]
    print("\n".join(found) if found else f"Links: {len(pages)} pages, all lead somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
