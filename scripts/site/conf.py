"""How Sphinx makes a site of README.md, docs/ and the pages beside them. `make docs` calls it.

The pages stay what they are on GitHub: CommonMark with relative links, read by MyST. What only a site needs is added
here while they are read: the tree of pages, which is the list in docs/README.md, and the examples' programs in full.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
INDEX = """\
<!doctype html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; README.html">
<title>Reconvene</title>
<a href="README.html">Reconvene</a>
"""

project = "Reconvene"
author = "The Reconvene authors"
project_copyright = author

extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["README.md", "CONTRIBUTING.md", "docs/*.md", "contrib/README.md", "examples/README.md"]
exclude_patterns = [".*", "out", "src", "tests"]
suppress_warnings = ["myst.header"]  # a page may begin a section two levels down

myst_heading_anchors = 4
myst_enable_extensions = ["strikethrough"]
highlight_language = "text"

html_theme = "furo"
html_title = "Reconvene"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["static"]
html_css_files = ["wide.css"]


def tree(listed: str) -> str:
    """Of the pages, as docs/README.md lists them: a part for each line in bold."""
    parts: list[str] = []
    for line in listed.splitlines():
        part = re.match(r"\| \*\*(.*)\*\*", line)
        page = re.match(r"\| \[(.*?)\]\(([^)#]*)\.md\)", line)
        if part is not None:
            parts.append(f"```{{toctree}}\n:hidden:\n:caption: {part[1].capitalize()}\n")
        elif page is not None:
            path = (ROOT / "docs" / page[2]).resolve().relative_to(ROOT)
            parts[-1] += f"\n{page[1]} </{path}>"
    return "\n\n".join(f"{part}\n```" for part in parts)


def programs(directory: Path) -> str:
    """The examples, each under its name, as they stand in their files."""
    return "\n".join(
        f"\n## {path.name}\n```{{literalinclude}} {path.name}\n:language: python\n```"
        for path in sorted(directory.glob("*.py"))
    )


def complete(app: Sphinx, page: str, source: list[str]) -> None:
    if page == "README":
        listed = (ROOT / "docs/README.md").read_text(encoding="utf-8")
        source[0] += f"\n```{{toctree}}\n:hidden:\n\nAll pages <docs/README>\n```\n\n{tree(listed)}\n"
    elif page == "examples/README":
        source[0] += programs(ROOT / "examples")


def open_at_the_readme(app: Sphinx, error: Exception | None) -> None:
    if error is None:
        (Path(app.outdir) / "index.html").write_text(INDEX, encoding="utf-8")


def setup(app: Sphinx) -> None:
    app.connect("source-read", complete)
    app.connect("build-finished", open_at_the_readme)
