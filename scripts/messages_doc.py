"""Writes docs/messages.md from the docstrings of the wire's structs. `--check`: is it up to date?"""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "reconvene" / "wire" / "messages.py"
PAGE = ROOT / "docs" / "messages.md"

INTRODUCTION = """\
# Messages
Made from the docstrings in `src/reconvene/wire/messages.py` by `scripts/messages_doc.py`: change them there.

{module}

Every datagram is one msgpack array: the tag, then the fields in this order. Fields at the end that have a default may
be missing. A datagram with another shape, or a value out of its range, is malformed: it is counted and dropped. The
protocol's version is {version}.

| kind | values |
| --- | --- |
"""


def constraint(node: ast.expr) -> str:
    """Annotated[int, Meta(ge=0, le=2**62)] as people say it."""
    assert isinstance(node, ast.Subscript)
    assert isinstance(node.slice, ast.Tuple)
    base, meta = node.slice.elts
    assert isinstance(meta, ast.Call)
    parts = {keyword.arg: ast.unparse(keyword.value) for keyword in meta.keywords}
    words = [kind(base)]
    for name, word in (("ge", "from"), ("le", "to"), ("lt", "below"), ("max_length", "at most")):
        if name in parts:
            words.append(f"{word} {parts[name].replace('2 ** 62', '2⁶²')}")
    return " ".join(words)


def kind(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Annotated":
        return constraint(node)
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "list":
        return f"list of {kind(node.slice)}"
    return ast.unparse(node)


def fields(struct: ast.ClassDef) -> list[tuple[str, str, str, str]]:
    """(name, kind, default, what it is); a docstring belongs to the field before it."""
    found: list[tuple[str, str, str, str]] = []
    for node in struct.body:
        if isinstance(node, ast.AnnAssign):
            assert isinstance(node.target, ast.Name)
            default = "" if node.value is None else ast.unparse(node.value)
            found.append((node.target.id, kind(node.annotation), default, ""))
        elif found and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            name, what, default, _ = found[-1]
            found[-1] = (name, what, default, one_line(str(node.value.value)))
    return found


def one_line(text: str) -> str:
    return " ".join(text.split())


def tag(struct: ast.ClassDef) -> int | None:
    return next((int(ast.unparse(word.value)) for word in struct.keywords if word.arg == "tag"), None)


def section(struct: ast.ClassDef) -> str:
    number = tag(struct)
    title = struct.name if number is None else f"{struct.name}, tag {number}"
    doc = ast.get_docstring(struct)
    lines = [f"## {title}"]
    if doc:
        lines.append(one_line(doc))
    lines += ["", "| field | kind | default | |", "| --- | --- | --- | --- |"]
    lines += [f"| `{name}` | {what} | {default} | {doc} |" for name, what, default, doc in fields(struct)]
    return "\n".join(lines) + "\n"


def page(source: str) -> str:
    module = ast.parse(source)
    text = ast.get_docstring(module) or ""
    _, _, explained = text.partition("\n\n")
    kinds: list[str] = []
    version = ""
    for node in module.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name == "VERSION":
                version = ast.unparse(node.value)
            elif ast.unparse(node.value).startswith("Annotated"):
                kinds.append(f"| {name} | {kind(node.value)} |\n")
    structs = [node for node in module.body if isinstance(node, ast.ClassDef)]
    structs.sort(key=lambda struct: (tag(struct) is None, tag(struct)))
    opening = INTRODUCTION.format(module=one_line(explained), version=version)
    return opening + "".join(kinds) + "\n" + "\n".join(map(section, structs))


def main() -> int:
    made = page(SOURCE.read_text(encoding="utf-8"))
    if "--check" in sys.argv[1:]:
        current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == made
        print("docs/messages.md is up to date" if current else "docs/messages.md is not: run scripts/messages_doc.py")
        return 0 if current else 1
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
